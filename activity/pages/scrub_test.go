package pages

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// scrubAll scrubs every page once, and looks again at those that may get a change yet.
func (g *rig) scrubAll() {
	s := scrub{}
	for n := 0; n < g.layout.Pages().Len(); n += scrubChunk {
		g.scrubber.scrubStep(&s)
	}
	g.workDue()
}

// workDue works on all pages that are due, or will be.
func (g *rig) workDue() {
	for g.scrubber.workDue(&scrub{}, math.MaxInt64) {
	}
}

// allOwners returns the users with a dedicated page.
func (g *rig) allOwners(t *testing.T) map[uint64]uint32 {
	t.Helper()
	p, err := g.ledger.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
	must(t, err)
	return p.Owners
}

// allPages returns the pages that have users, according to the ledger.
func (g *rig) allPages(t *testing.T) (pages []uint32) {
	t.Helper()
	p, err := g.ledger.Changed(t.Context(), "", func(uint32, ledger.PageState) error { return nil })
	must(t, err)
	first := g.layout.PageIn(p.Layouts.Current, 0)
	for n := range p.Layouts.Current {
		pages = append(pages, first+n)
	}
	for hash, page := range p.Owners {
		g.layout.Dedicate(hash, page)
		pages = append(pages, page)
	}
	slices.Sort(pages)
	return pages
}

// wantWhole checks that the store has each page with a write as the ledger has it.
func (g *rig) wantWhole(t *testing.T) {
	t.Helper()
	for _, page := range g.allPages(t) {
		rows, s, err := g.ledger.Keys(t.Context(), page)
		must(t, err)
		loaded, _, err := g.store.Load(t.Context(), []favfilter.PageID{g.layout.PageID(page)})
		must(t, err)
		p := loaded[0].Page
		if p == nil {
			if s.Sequence > 0 {
				t.Errorf("page %d is missing or damaged: %v", page, loaded[0].Damage)
			}
			continue
		}
		if h := p.Header(); h.Sequence != s.Sequence || h.Identity != g.storage.identity || int(h.Count) != len(rows) {
			t.Errorf("page %d is at sequence %d with %d keys, want %d with %d", page, h.Sequence, h.Count, s.Sequence, len(rows))
		}
		keys, err := g.rebuilder.keysOf(t.Context(), rows)
		must(t, err)
		if lacking(p, keys) > 0 {
			t.Errorf("page %d lacks a key", page)
		}
	}
}

// someActivities returns enough activities for keys on each of 16 pages, whatever the ledger's
// seed.
func someActivities(round int) (batch []act) {
	for i := range 400 {
		batch = append(batch, add(fmt.Sprint(i), "hide", fmt.Sprint("r", round)))
	}
	return batch
}

// A scrub finds and repairs every damage to pages, without any View.
func TestScrubRepairs(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 16)
	record := func(round int) {
		_, err := g.Record(t.Context(), someActivities(round))
		must(t, err)
	}
	record(0)
	g.scrubAll()
	if s := g.Stats(); len(s.Found) != 0 || s.Scrubbed == 0 {
		t.Fatalf("found %v in %d sound pages", s.Found, s.Scrubbed)
	}
	all := uint64(0) // number of pages with users
	for page := range g.storage.identity.Pages {
		if g.sequences.Of(page).Known.Load() > 0 {
			all++
		}
	}
	old := snapshot(t, client)
	key := func(page int, which string) string { return fmt.Sprintf("fav:{feed/%d}:%s", page, which) }
	for i, c := range []struct {
		name string
		harm func()
		want map[string]uint64
	}{
		{"flushed", func() { must(t, client.FlushAll(t.Context()).Err()) }, map[string]uint64{"missing": all}},
		{"set back", func() { restore(t, client, old) }, map[string]uint64{"behind": all}},
		{"regions lost", func() { must(t, client.Del(t.Context(), key(3, "regions")).Err()) }, map[string]uint64{"damaged": 1}},
		{"cut short", func() { must(t, client.Set(t.Context(), key(5, "bits"), "FAV", 0).Err()) }, map[string]uint64{"damaged": 1}},
		{"swapped", func() {
			must(t, client.Copy(t.Context(), key(1, "bits"), key(2, "bits"), 0, true).Err())
			must(t, client.Copy(t.Context(), key(1, "regions"), key(2, "regions"), 0, true).Err())
		}, map[string]uint64{"foreign": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			record(i + 1)
			g.storage.stats.faults = nil
			c.harm()
			g.scrubAll()
			g.wantWhole(t)
			if s := g.Stats(); fmt.Sprint(s.Found) != fmt.Sprint(c.want) {
				t.Errorf("found %v, want %v", s.Found, c.want)
			}
		})
	}
}

// A scrub removes what the ledger does not have: a page ahead of a restored ledger, and a page
// whose users have no activities.
func TestScrubRemoves(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	ghost, err := g.image(t.Context(), 7, []ledger.Row{{Owner: "ghost", Kind: "hide", Target: "p"}}, ledger.PageState{Sequence: 41})
	must(t, err)
	_, err = g.store.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{Number: 7}, Page: ghost, Newer: true})
	must(t, err)
	g.scrubAll()
	g.wantWhole(t)
	if s := g.Stats(); s.Found["ahead"] != 1 || len(s.Found) != 1 {
		t.Errorf("found %v", s.Found)
	}
}

// A flipped bit leaves header and sequence unchanged. Only a comparison of keys finds it.
func TestVerify(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 2)
	for round := range 3 {
		_, err := g.Record(t.Context(), someActivities(round))
		must(t, err)
	}
	for page := range uint32(2) {
		g.scrubber.verify(page)
	}
	if s := g.Stats(); s.Verified != 2 || len(s.Found) != 0 {
		t.Fatalf("%d verified, found %v", s.Verified, s.Found)
	}
	key := "fav:{feed/1}:bits"
	bits := []byte(client.Get(t.Context(), key).Val())
	slices.Reverse(bits[favfilter.HeaderBytes:]) // the same number of bits is set
	must(t, client.Set(t.Context(), key, bits, 0).Err())
	must(t, client.SetBit(t.Context(), "fav:{feed/0}:bits", 8*favfilter.HeaderBytes+77,
		1-int(client.GetBit(t.Context(), "fav:{feed/0}:bits", 8*favfilter.HeaderBytes+77).Val())).Err())
	g.scrubAll()
	if s := g.Stats(); len(s.Found) != 0 {
		t.Fatalf("found %v by the header", s.Found)
	}
	g.scrubber.verify(0)
	g.scrubber.verify(1)
	g.wantWhole(t)
	if s := g.Stats(); s.Found["corrupt"] != 1 || s.Found["damaged"] != 1 {
		t.Errorf("found %v", s.Found)
	}
	before := g.Stats().Verified
	for s := (scrub{}); g.Stats().Verified < before+20; {
		g.scrubber.scrubStep(&s)
		g.workDue()
		if g.Stats().Scrubbed > 100*verifyEvery {
			t.Fatal("no scrub compared the keys")
		}
	}
	if n := g.Stats().Rebuilds["verified"]; n < 20 {
		t.Errorf("%d pages rebuilt, want at least 20", n)
	}
}

// A page that is written to during its comparison does not count as wrong.
func TestVerifyWhileWritten(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.record(t, true, add("1", "hide", "p"))
	write := sync.OnceFunc(func() { g.record(t, true, add("1", "hide", "q")) })
	g.useAround(before(func(context.Context) error {
		write()
		return nil
	}, "keys"))
	g.scrubber.verify(0)
	if s := g.Stats(); len(s.Found) != 0 || s.Verified != 0 {
		t.Errorf("found %v, %d verified while it changed", s.Found, s.Verified)
	}
	g.scrubber.verify(0)
	if s := g.Stats(); len(s.Found) != 0 || s.Verified != 1 {
		t.Errorf("found %v, %d verified then", s.Found, s.Verified)
	}
	g.want(t, "1", "hide", "q", true)
}

// Every page is compared key by key eventually.
func TestVerifyTakesEveryPage(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 128)
	var batch []act
	for i := range 2000 {
		batch = append(batch, add(fmt.Sprint("u", i), "hide", "p"))
	}
	_, err := g.Record(t.Context(), batch)
	must(t, err)
	read := make(map[uint32]bool)
	g.open(t, g.ledger.Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		if c.Operation == "keys" {
			read[c.Page] = true
		}
		return next(ctx)
	}), g.store)
	s := scrub{}
	for range 20 * 128 * verifyEvery / scrubChunk {
		g.scrubber.scrubStep(&s)
		g.workDue()
		if len(read) == 128 {
			break
		}
	}
	if len(read) != 128 {
		t.Errorf("%d of 128 pages were ever compared", len(read))
	}
}

// peekStore counts the pages whose headers are read.
type peekStore struct {
	favfilter.Memory
	peeks atomic.Int64
}

func (s *peekStore) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	s.peeks.Add(int64(len(ids)))
	return s.Memory.Peek(ctx, ids)
}

// in returns the number of pages looked at in a time.
func (s *peekStore) in(d time.Duration) int64 {
	before := s.peeks.Load()
	time.Sleep(d)
	return s.peeks.Load() - before
}

// A new scrub rate applies at once, even if the next step at the old rate is a minute away.
func TestScrubRateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &peekStore{}
		p := startProcess(t, newLedger(t, 1<<14), store, Config{ScrubRate: 1})
		time.Sleep(10 * time.Second)
		for _, rate := range []int{1000, 10, 400} {
			must(t, p.scrubber.SetScrubRate(rate))
			if n := store.in(time.Minute); n < int64(60*rate*9/10) || n > int64(60*rate+scrubChunk) {
				t.Errorf("%d pages in a minute, want %d", n, 60*rate)
			}
		}
		for _, rate := range []int{0, -1, 100_001} {
			if err := p.scrubber.SetScrubRate(rate); err == nil {
				t.Errorf("a rate of %d is accepted", rate)
			}
		}
	})
}

// A scrub keeps to its rate, also if it finds a page at fault. If the store has lost many pages, it
// rebuilds all of them in a twentieth of the time.
func TestScrubPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, rate = 1 << 11, 100
		store := &peekStore{}
		p := startProcess(t, newLedger(t, pages), store, Config{ScrubRate: rate})
		var some []act
		for i := range 20 * pages { // on every page
			some = append(some, add(fmt.Sprint("u", i), "hide", "p"))
		}
		_, err := p.Record(t.Context(), some)
		must(t, err)
		usual := func() {
			t.Helper()
			if n := store.in(time.Minute); n < 60*rate*9/10 || n > 60*rate*11/10 {
				t.Errorf("%d pages in a minute, want %d", n, 60*rate)
			}
		}
		usual()
		lose := func(every uint32) {
			for n := uint32(0); n < pages; n += every {
				loaded, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: n}})
				must(t, err)
				_, err = store.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{Number: n}, Seen: loaded[0].Version})
				must(t, err)
			}
		}
		lose(scrubChunk)
		usual()
		if s := p.Stats(); s.Alarms != 0 {
			t.Errorf("%d alarms because of one page in %d", s.Alarms, scrubChunk)
		}
		lose(2)
		if n := store.in(pages/(rate*lossSpeed)*time.Second + 5*time.Second); n < pages {
			t.Errorf("%d pages compared after a loss, want all %d", n, pages)
		}
		usual()
		if s := p.Stats(); s.Alarms != 1 || s.Found["missing"] < pages/2 {
			t.Errorf("%d alarms, found %v", s.Alarms, s.Found)
		}
		var lost []func()
		for page := range p.Identity().Pages {
			lost = append(lost, setBack(t, store, favfilter.PageID{Number: page}))
		}
		for i := range some {
			some[i].Target = "q"
		}
		_, err = p.Record(t.Context(), some)
		must(t, err)
		for _, lose := range lost {
			lose()
		}
		// The scrub looks again before it takes a page for lost.
		time.Sleep(pages/(rate*lossSpeed)*time.Second + 5*time.Second)
		if s := p.Stats(); s.Alarms != 2 || s.Found["behind"] != pages {
			t.Errorf("%d alarms after all pages were set back, found %v", s.Alarms, s.Found)
		}
		usual()
		if s := p.Stats(); s.Alarms != 2 {
			t.Errorf("%d alarms, want that of each loss", s.Alarms)
		}
	})
}

// A scrub also speeds up if it takes a step only every half minute, and counts one loss.
func TestScrubPaceAtALowRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, rate = 1 << 9, 2
		store := &peekStore{}
		p := startProcess(t, newLedger(t, pages), store, Config{ScrubRate: rate})
		var some []act
		for i := range 20 * pages { // on every page
			some = append(some, add(fmt.Sprint("u", i), "hide", "p"))
		}
		_, err := p.Record(t.Context(), some)
		must(t, err)
		for page := range p.Identity().Pages {
			losePage(t, store, favfilter.PageID{Number: page})
		}
		const first, all = scrubChunk / rate * time.Second, pages / (rate * lossSpeed) * time.Second
		time.Sleep(first + all + 5*time.Second)
		if s := p.Stats(); s.Alarms != 1 || s.Found["missing"] != pages {
			t.Errorf("%d alarms, found %v, want all %d pages", s.Alarms, s.Found, pages)
		}
	})
}

// A page may be behind the ledger because a write is on its way to it. The scrub leaves that to the
// write. If the write does not arrive, the page is rebuilt, even if others follow all the time.
func TestScrubLeavesWritesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 4), &delayedStore{Store: &favfilter.Memory{}}
		p := startProcess(t, l, store, Config{ScrubRate: 1000})
		write := func(round int) {
			_, err := p.Record(t.Context(), someActivities(round))
			must(t, err)
		}
		store.delay.Store(int64(applyTimeout * 9 / 10)) // nearly as long as a call may take
		write(0)                                        // makes the pages
		for round := range 30 {
			write(round + 1)
		}
		s := p.Stats()
		if len(s.Found) > 0 || s.Alarms > 0 || s.Rebuilds[PageBehind] > 0 || s.Scrubbed < 4*100 {
			t.Errorf("%d pages compared, found %v, %d alarms, rebuilt %v", s.Scrubbed, s.Found, s.Alarms, s.Rebuilds)
		}
		lose := setBack(t, store, favfilter.PageID{Number: 2})
		write(31)
		lose()
		for round := range 20 {
			write(32 + round)
		}
		if s := p.Stats(); s.Found[PageBehind] > 1 {
			t.Errorf("found %v, want one page at most: a write rebuilds it, too", s.Found)
		}
		p.ledger = l
		p.wantWhole(t)
	})
}

// delayedStore is a store whose changes take some time.
type delayedStore struct {
	favfilter.Store
	delay atomic.Int64 // in nanoseconds
}

func (s *delayedStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	time.Sleep(time.Duration(s.delay.Load()))
	return s.Store.Apply(ctx, batches)
}

// A change whose writer died before it reached the page is there within five polls, without any
// View. So is a second one, which comes while the background work waits for the first.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 16), &favfilter.Memory{}
		p := startProcess(t, l, store, Config{ScrubRate: 1})
		p.ledger = l
		_, err := p.Record(t.Context(), someActivities(0))
		must(t, err)
		for round := range 20 {
			time.Sleep(time.Duration(round) * 31 * time.Millisecond)
			die := func(round int) {
				var changes []ledger.Change
				for _, a := range someActivities(round) {
					changes = append(changes, changeOf(p.Pages, a, time.Now()))
				}
				_, err := l.Record(t.Context(), time.Now(), changes)
				must(t, err)
			}
			die(2*round + 1)
			if round%2 == 0 {
				must(t, p.known.PollSince(t.Context(), p.life.Elapsed()))
				time.Sleep(p.known.Interval() / 4)
				_, err := p.Record(t.Context(), someActivities(2*round+1)) // the first arrives after all
				must(t, err)
				die(2*round + 2)
			}
			time.Sleep(5 * p.known.Interval())
			synctest.Wait()
			p.wantWhole(t)
		}
	})
}

// After the rate is lowered, pages and windows for the old rate are replaced.
func TestRateLowered(t *testing.T) {
	l, store := newLedger(t, 1), &favfilter.Memory{}
	open := func(keyRate float64) *rig {
		r, err := openPages(t.Context(), Config{Ledger: l, Store: store, KeyRate: keyRate, Passive: true, StalenessBound: -1})
		must(t, err)
		return &rig{Pages: r, ledger: l, store: store}
	}
	var batch []act
	for i := range 3000 {
		batch = append(batch, add("1", "hide", fmt.Sprint("h", i)))
	}
	a := open(0.025)
	_, err := a.Record(t.Context(), batch)
	must(t, err)
	a.Close()
	b := open(0.000025)
	defer b.Close()
	b.scrubAll()
	for _, kind := range []string{"block", "hide"} {
		v, err := b.view(t.Context(), "1")
		must(t, err)
		found := 0
		for i := range 100_000 {
			if v.has(kind, fmt.Sprint("absent", i)) {
				found++
			}
		}
		b.checkRate(t, found, 100_000)
	}
}
