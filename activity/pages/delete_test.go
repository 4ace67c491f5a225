package pages

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// leaver is the user to delete.
const leaver = "le_aver%"

// manyKinds adds kinds of every other sort to testKinds.
func manyKinds() []ledger.Kind {
	return append(testKinds(),
		ledger.Kind{Name: "mute", Target: ledger.User},
		ledger.Kind{Name: "follow", Target: ledger.User, Reverse: "followed-by"},
		ledger.Kind{Name: "pin", Target: ledger.Post},
	)
}

// openKinds opens the pages of a ledger with these kinds. They do nothing in the background.
func openKinds(t testing.TB, l *ledger.Ledger, s favfilter.Store, kinds []ledger.Kind) *rig {
	t.Helper()
	g := &rig{ledger: l, store: s}
	g.now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	const keyRate = 1e-7 // so low that false positives are unlikely in a run
	r, err := openPages(t.Context(), Config{
		Ledger: l, Store: s, Kinds: kinds, KeyRate: keyRate, StalenessBound: -1, Passive: true,
		Now: func() time.Time { return time.Unix(0, g.now.Add(1000)) },
	})
	must(t, err)
	t.Cleanup(r.Close)
	g.Pages = r
	return g
}

// deletion is a test of DeleteUser on any ledger and store.
type deletion func(t *testing.T, l *ledger.Ledger, s favfilter.Store)

func TestDeleteUser(t *testing.T) {
	onBoth(t, map[string]deletion{
		"everything":            deleteUser,
		"of kinds unknown here": deleteUserOfAnothersKinds,
		"during writes":         deleteUserAmongWriters,
	})
}

func TestLongDeleteUser(t *testing.T) {
	onBoth(t, map[string]deletion{"faults": deleteUserFaults})
}

// onBoth runs each test on Memory and SQLite, and on Redis and Postgres.
func onBoth(t *testing.T, tests map[string]deletion) {
	t.Helper()
	redis, postgres := redistest.Start(t), pgtest.Start(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Run("memory and sqlite", func(t *testing.T) {
				test(t, newLedger(t, 4), &favfilter.Memory{})
			})
			t.Run("redis and postgres", func(t *testing.T) {
				must(t, redis.Client().FlushAll(t.Context()).Err())
				test(t, openLedgerAt(t, postgres.Schema(), 4), redisStore(t, redis))
			})
		})
	}
}

// crowd returns enough activities of others that keys share most of their bits' regions.
func crowd() (batch []act) {
	for i := range 1200 {
		batch = append(batch, add(fmt.Sprint("c", i%30), "hide", fmt.Sprint("h", i)))
	}
	for i := range 30 {
		user, next := fmt.Sprint("c", i), fmt.Sprint("c", (i+1)%30)
		batch = append(batch, add(user, "block", next), add(user, "hide", leaver))
	}
	return batch
}

// life returns activities between the user and others, in both directions.
func (g *rig) busyLife(user string) (batch []act) {
	end := time.Unix(0, g.now.Load()).Add(time.Hour)
	for i := range 24 {
		other := fmt.Sprint("c", i)
		batch = append(batch,
			add(user, "hide", fmt.Sprint("lh", i)), add(user, "like", fmt.Sprint("ll", i)),
			[]act{add(user, "block", other), add(other, "block", user)}[i%2],
			add(user, "hide", fmt.Sprint("over", i)).until(end))
		if len(g.rebuilder.kinds) > len(testKinds()) {
			batch = append(batch,
				[]act{add(user, "mute", other), add(other, "mute", user)}[i/2%2],
				[]act{add(user, "follow", other), add(other, "follow", user)}[i/4%2],
				add(user, "pin", fmt.Sprint("lp", i%5)), add(other, "mute", user).until(end))
		}
	}
	return batch
}

// wantGone checks that no row names the user, and that pages have only the bits of other rows.
func (g *rig) wantGone(t *testing.T, l *ledger.Ledger, user string) {
	t.Helper()
	hash := g.hashOf(user)
	owned, err := l.Owned(t.Context(), hash, user, nil, 1)
	must(t, err)
	naming, err := l.Naming(t.Context(), hash, user, nil, 1)
	must(t, err)
	if len(owned)+len(naming) > 0 {
		t.Errorf("rows are left: %v, %v", owned, naming)
	}
	posts := []string{"hide", "like", "pin"}
	for _, page := range (&rig{Pages: g.Pages, ledger: l}).allPages(t) {
		rows, s, err := l.Keys(t.Context(), page)
		must(t, err)
		for _, row := range rows {
			if row.Owner == user || row.Target == user && !slices.Contains(posts, row.Kind) {
				t.Errorf("the ledger has %+v", row)
			}
		}
		want, err := g.image(t.Context(), page, rows, s)
		must(t, err)
		loaded, _, err := g.store.Load(t.Context(), []favfilter.PageID{g.layout.PageID(page)})
		must(t, err)
		switch got := loaded[0].Page; {
		case got == nil && s.Sequence == 0: // no user was ever on this page
		case got == nil:
			t.Errorf("page %d is missing or damaged: %v", page, loaded[0].Damage)
		case !bytes.Equal(bloomBits(got), bloomBits(want)):
			t.Errorf("page %d has %d bits set in %d, a rebuilt one has %d in %d",
				page, got.Header().Set, got.Header().Shape.Bits, want.Header().Set, want.Header().Shape.Bits)
		}
	}
}

func bloomBits(p *favfilter.Page) []byte {
	raw, _ := p.Encode()
	return raw[favfilter.HeaderBytes:]
}

// wantCrowd checks that Views find all that others did.
func (g *rig) wantCrowd(t *testing.T) {
	t.Helper()
	views := make(map[string]*view)
	for _, a := range crowd() {
		v := views[a.User]
		if v == nil {
			var err error
			v, err = g.view(t.Context(), a.User)
			must(t, err)
			views[a.User] = v
		}
		if !v.has(a.Kind, a.Target) {
			t.Errorf("%+v is missed", a)
		}
	}
}

// recordLife records the user's activities. Some of them have ended since.
func (g *rig) recordLife(t *testing.T, user string) {
	t.Helper()
	_, err := g.Record(t.Context(), g.busyLife(user))
	must(t, err)
	g.now.Add(int64(5 * 24 * time.Hour))
}

func deleteUser(t *testing.T, l *ledger.Ledger, s favfilter.Store) {
	t.Helper()
	g := openKinds(t, l, s, manyKinds())
	_, err := g.Record(t.Context(), crowd())
	must(t, err)
	g.recordLife(t, leaver)
	deleted, _, err := g.DeleteUser(t.Context(), leaver)
	must(t, err)
	g.wantGone(t, l, leaver)
	g.wantCrowd(t)
	if want := 24*4 + 5 + 12; deleted < want {
		t.Errorf("%d activities deleted, at least %d were there", deleted, want)
	}
	if deleted, _, err = g.DeleteUser(t.Context(), leaver); deleted != 0 || err != nil {
		t.Errorf("again: %d, %v", deleted, err)
	}
	for i := range 20 { // too few to cause a rebuild
		user := fmt.Sprint("few", i)
		_, err := g.Record(t.Context(), []act{
			add(user, "hide", "p"), add(user, "block", fmt.Sprint("c", i)), add(user, "mute", fmt.Sprint("c", i+1)),
			add(fmt.Sprint("c", i+2), "block", user), add(fmt.Sprint("c", i+3), "mute", user),
		})
		must(t, err)
		if deleted, _, err := g.DeleteUser(t.Context(), user); deleted != 5 || err != nil {
			t.Errorf("%d of 5 deleted, %v", deleted, err)
		}
		g.wantGone(t, l, user)
	}
	g.record(t, true, add(leaver, "block", "c1")) // after a deletion the user starts with no activities
	g.want(t, "c1", "blocked-by", leaver, true)
}

// TestDeleteUserOfManyRows deletes more rows than one step removes, on both sides of blocks.
func TestDeleteUserOfManyRows(t *testing.T) {
	l := newLedger(t, 4)
	g := openKinds(t, l, &favfilter.Memory{}, manyKinds())
	var batch []act
	for i := range 2*deleteBatch + 1 {
		other := fmt.Sprint("o", i)
		batch = append(batch, add(leaver, "hide", fmt.Sprint("p", i)), add(other, "mute", leaver), add(other, "block", leaver))
	}
	_, err := g.Record(t.Context(), batch)
	must(t, err)
	if deleted, _, err := g.DeleteUser(t.Context(), leaver); err != nil || deleted != len(batch) {
		t.Errorf("%d of %d deleted, %v", deleted, len(batch), err)
	}
	g.wantGone(t, l, leaver)
}

// deleteUserOfAnothersKinds deletes activities of kinds that only a later Recorder knows.
func deleteUserOfAnothersKinds(t *testing.T, l *ledger.Ledger, s favfilter.Store) {
	t.Helper()
	plain := openKinds(t, l, s, nil)
	rich := openKinds(t, l, s, manyKinds())
	_, err := rich.Record(t.Context(), crowd())
	must(t, err)
	rich.recordLife(t, leaver)
	plain.now.Store(rich.now.Load())
	_, _, err = plain.DeleteUser(t.Context(), leaver)
	must(t, err)
	plain.wantGone(t, l, leaver)
	rich.wantCrowd(t)
	found, keys := 0, 0
	for i := range 24 {
		other := fmt.Sprint("c", i)
		for _, kind := range []string{"mute", "follow", "followed-by", "block", "blocked-by"} {
			keys += 2
			if rich.check(t, other, kind, leaver) {
				found++
			}
			if rich.check(t, leaver, kind, other) {
				found++
			}
		}
	}
	rich.checkRate(t, found, keys)
}

// deleteUserFaults lets each call of ledger and store fail once, before and after it takes effect.
// If DeleteUser succeeds, it must leave nothing. If it fails, a second call must leave nothing once
// stale pages are rebuilt.
func deleteUserFaults(t *testing.T, l *ledger.Ledger, s favfilter.Store) {
	t.Helper()
	f := &faulttest.Faults{}
	g := openKinds(t, l.Around(f.Around), faulttest.Store{Store: s, Faults: f}, manyKinds())
	_, err := g.Record(t.Context(), crowd())
	must(t, err)
	for _, f.After = range []bool{false, true} {
		for at := range faulttest.EachCall() {
			g.recordLife(t, leaver)
			g.rebuilder.rebuilds.ended.Wait()
			f.At = f.Calls() + at
			_, _, err := g.DeleteUser(t.Context(), leaver)
			g.rebuilder.rebuilds.ended.Wait() // also those of a DeleteUser that failed
			passed := f.Calls() < f.At
			f.At = 0
			if err != nil {
				if !errors.Is(err, faulttest.ErrInjected) || dependency(err) == "" {
					t.Errorf("error %v", err)
				}
				_, _, err = g.DeleteUser(t.Context(), leaver)
				must(t, err)
				// If the answer to a transaction was lost, its pages are behind. Every Recorder
				// finds that out by polls.
				_ = g.known.PollSince(t.Context(), g.life.Elapsed())
				g.workDue()
			}
			g.wantGone(t, l, leaver)
			if t.Failed() {
				t.Fatalf("fault at call %d, after %v", at, f.After)
			}
			if passed {
				t.Logf("%d calls", at-1)
				break
			}
		}
	}
	g.wantCrowd(t)
}

// deleteUserAmongWriters deletes users while others write to the same pages. What others recorded
// must be found, and what they undid must not.
func deleteUserAmongWriters(t *testing.T, l *ledger.Ledger, s favfilter.Store) {
	t.Helper()
	g := openKinds(t, l, s, manyKinds())
	_, err := g.Record(t.Context(), crowd())
	must(t, err)
	leavers := []string{"l1", "l2", "l3", "l4"}
	for _, user := range leavers {
		g.recordLife(t, user)
	}
	live := make([]map[act]bool, 6)
	stop := make(chan struct{})
	var running sync.WaitGroup
	for w := range live {
		running.Go(func() { live[w] = g.writeUntil(t, stop, w) })
	}
	for _, user := range leavers {
		if _, _, err := g.DeleteUser(t.Context(), user); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	running.Wait()
	g.wantCrowd(t)
	gone, found := 0, 0
	for _, of := range live {
		if len(of) == 0 {
			t.Error("a writer wrote nothing")
		}
		for a, is := range of {
			switch match := g.check(t, a.User, a.Kind, a.Target); {
			case is && !match:
				t.Errorf("%+v is missed", a)
			case !is:
				gone++
				if match {
					found++
				}
			}
		}
	}
	g.checkRate(t, found, gone)
	for _, user := range leavers {
		if deleted, _, err := g.DeleteUser(t.Context(), user); deleted != 0 || err != nil {
			t.Errorf("again: %d, %v", deleted, err)
		}
	}
	g.ledger = l
	g.wantWhole(t)
}

// writeUntil records and undoes activities of writer number w, and returns which are live at the
// end.
func (g *rig) writeUntil(t *testing.T, stop <-chan struct{}, w int) map[act]bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, uint64(w)))
	live := make(map[act]bool)
	user := fmt.Sprint("w", w)
	for {
		kinds := []string{"hide", "block", "mute"}
		a := add(user, kinds[rng.IntN(3)], fmt.Sprint("c", rng.IntN(30)))
		live[a] = rng.IntN(3) > 0
		change := a
		change.Remove = !live[a]
		if _, err := g.Record(t.Context(), []act{change}); err != nil {
			t.Errorf("%+v: %v", change, err)
			return live
		}
		select {
		case <-stop:
			return live
		default:
		}
	}
}
