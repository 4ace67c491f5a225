package pages

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// badLedger is a ledger in which reads of some pages hang or fail.
type badLedger struct {
	bad   map[uint32]bool
	hangs bool
	large bool          // bad pages are too large to be read at once
	gate  chan struct{} // if set, reads wait for it instead of failing
	on    atomic.Bool
	reads atomic.Int64 // of bad pages

	record chan struct{} // if set, transactions wait for it
}

func (l *badLedger) read(ctx context.Context, page uint32) error {
	if !l.on.Load() || !l.bad[page] {
		return nil
	}
	l.reads.Add(1)
	if l.gate != nil {
		<-l.gate
		return nil
	}
	if l.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return faulttest.ErrInjected
}

func (l *badLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	switch c.Operation {
	case "keys":
		if l.large && l.on.Load() && l.bad[c.Page] {
			return ledger.ErrLargePage
		}
		fallthrough
	case "each_row":
		if err := l.read(ctx, c.Page); err != nil {
			return err
		}
	case "record":
		if l.record != nil {
			<-l.record
		}
	}
	return next(ctx)
}

// badRig is a process with 64 pages, a user on the bad page, and others on other pages.
type badRig struct {
	*rig
	whole  *ledger.Ledger // none of its pages is bad
	ledger *badLedger
	store  favfilter.Store
	user   string
	others []string
}

// inBadRig runs a test in a bubble. When it starts, the bad page is lost, but its reads work.
func inBadRig(t *testing.T, hangs bool, test func(t *testing.T, g *badRig)) {
	t.Helper()
	inBadRigOn(t, hangs, &pageStore{}, 0, test)
}

// inBadRigOn is inBadRig with a store that delays or fails changes of one page, and with a
// staleness bound.
func inBadRigOn(
	t *testing.T, hangs bool, store *pageStore, bound time.Duration, test func(t *testing.T, g *badRig),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 64)
		store.Store = &favfilter.Memory{}
		bad := &badLedger{hangs: hangs, bad: make(map[uint32]bool)}
		p := startProcess(t, l.Around(bad.around), store, Config{ScrubRate: 1, StalenessBound: bound})
		g := &badRig{rig: p, whole: l, ledger: bad, store: store, user: "bad"}
		bad.bad[g.pageOf(g.user)] = true
		for i := 0; len(g.others) < 15; i++ {
			if user := fmt.Sprint("u", i); !bad.bad[g.pageOf(user)] {
				g.others = append(g.others, user)
			}
		}
		for _, user := range append([]string{g.user}, g.others...) {
			g.record(t, true, add(user, "hide", "before"))
		}
		for page := range bad.bad {
			p.losePages(t, page)
		}
		test(t, g)
	})
}

// wantOthersServed checks that writes and feeds of others are answered, in no time by the bubble's
// clock.
func (g *badRig) wantOthersServed(t *testing.T, post string) {
	t.Helper()
	start := time.Now()
	for _, user := range g.others {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := g.Record(ctx, []act{add(user, "hide", post)}); err != nil {
			t.Errorf("a write of %s: %v", user, err)
		}
		v, err := g.view(ctx, user)
		if err != nil || !v.has("hide", post) || !v.has("hide", "before") {
			t.Errorf("a feed of %s: %v", user, err)
		}
		cancel()
	}
	if took := time.Since(start); took > 100*time.Millisecond {
		t.Errorf("the others' writes and feeds took %v", took)
	}
}

// A page whose rebuild hangs or fails does not delay others, however many groups of writes wait for
// it. Writes and feeds of other pages are answered as usual, even if they share a transaction with
// a write to the bad page. Writes to the bad page are acknowledged late, and its feeds fail. Once
// the page can be rebuilt, it is.
func TestBadPageHarmsItselfAlone(t *testing.T) {
	for name, hangs := range map[string]bool{"hangs": true, "fails": false} {
		t.Run(name, func(t *testing.T) {
			inBadRig(t, hangs, func(t *testing.T, g *badRig) {
				g.ledger.on.Store(true)
				var writes sync.WaitGroup
				const groups = 64
				for i := range groups {
					writes.Go(func() {
						start := time.Now()
						if _, err := g.Record(t.Context(), []act{add(g.user, "hide", fmt.Sprint("p", i))}); err != nil {
							t.Errorf("write %d: %v", i, err)
						}
						if took := time.Since(start); took < defaultBound || took > pageTimeout+2*defaultBound {
							t.Errorf("write %d was acknowledged after %v", i, took)
						}
					})
					synctest.Wait() // so that the write has its own group
				}
				g.wantOthersServed(t, "p")

				// One transaction with a write to the bad page and a write to another page.
				g.ledger.record = make(chan struct{})
				first := g.others[0]
				writes.Go(func() { g.record(t, true, add(first, "hide", "q0")) })
				synctest.Wait()
				writes.Go(func() { g.record(t, true, add(g.user, "hide", "q1")) })
				shared := make(chan error, 1)
				go func() {
					_, err := g.Record(t.Context(), []act{add(first, "hide", "q2")})
					shared <- err
				}()
				synctest.Wait()
				close(g.ledger.record)
				start := time.Now()
				if err := <-shared; err != nil || time.Since(start) > 0 {
					t.Errorf("the write that shared a transaction: %v after %v", err, time.Since(start))
				}
				if _, err := g.view(t.Context(), g.user); dependency(err) != "ledger" {
					t.Errorf("the feed of the bad page: %v", err)
				}
				writes.Wait()
				g.wantOthersServed(t, "r")

				g.ledger.on.Store(false)
				time.Sleep(costlyPause + largeTimeout)
				for _, post := range []string{"before", "p0", "p63", "q1"} {
					g.want(t, g.user, "hide", post, true)
				}
				if len(g.committer.pageQueues) != 0 || g.committer.queuedRows.Load() != 0 || len(g.committer.tail) != 0 {
					t.Errorf("%d queues of %d rows and %d tails are left", len(g.committer.pageQueues), g.committer.queuedRows.Load(), len(g.committer.tail))
				}
			})
		})
	}
}

// A write to a page whose rebuild takes minutes is acknowledged late, without waiting for the
// rebuild.
func TestWriteToALargePageThatHangs(t *testing.T) {
	inBadRig(t, true, func(t *testing.T, g *badRig) {
		g.ledger.large = true
		g.ledger.on.Store(true)
		for i := range 3 {
			start := time.Now()
			g.record(t, true, add(g.user, "hide", fmt.Sprint("p", i)))
			if took := time.Since(start); took > pageTimeout+2*defaultBound {
				t.Errorf("write %d was acknowledged after %v", i, took)
			}
		}
		g.wantOthersServed(t, "p")
		g.ledger.on.Store(false)
	})
}

// A write that comes during the rebuild for an earlier write is acknowledged when the page holds
// it, and not before.
func TestWriteBehindARebuild(t *testing.T) {
	// With this bound no write is acknowledged late during the test.
	inBadRigOn(t, false, &pageStore{}, time.Minute, func(t *testing.T, g *badRig) {
		g.ledger.gate = make(chan struct{})
		g.ledger.on.Store(true)
		var done atomic.Int64
		var writes sync.WaitGroup
		for i := range 3 {
			writes.Go(func() {
				g.record(t, true, add(g.user, "hide", fmt.Sprint("p", i)))
				done.Add(1)
			})
			synctest.Wait() // so that the write has its own group
		}
		time.Sleep(pageTimeout / 2)
		if n := done.Load(); n != 0 {
			t.Errorf("%d writes were acknowledged before their page was rebuilt", n)
		}
		close(g.ledger.gate)
		start := time.Now()
		writes.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("the writes were acknowledged %v after their page was rebuilt", took)
		}
		g.want(t, g.user, "hide", "p2", true)
	})
}

// pageStore is a store in which changes of one page wait or fail.
type pageStore struct {
	favfilter.Store
	page atomic.Pointer[uint32] // nil: no page yet
	gate chan struct{}          // nil: changes fail
}

func (s *pageStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	page := s.page.Load()
	is := func(b favfilter.Batch) bool { return page != nil && b.ID.Number == *page }
	if s.gate != nil && slices.ContainsFunc(batches, is) {
		<-s.gate
	}
	results := s.Store.Apply(ctx, batches)
	for i, b := range batches {
		if s.gate == nil && is(b) {
			results[i] = favfilter.Result{Err: faulttest.ErrInjected}
		}
	}
	return results
}

// of chooses the page of the user as the one whose changes wait or fail.
func (s *pageStore) of(g *badRig, user string) {
	page := g.pageOf(user)
	s.page.Store(&page)
}

// A write changes two pages: one is being rebuilt, the other is slow. The write is acknowledged
// once both pages have it, in either order.
func TestWriteToALaneAndASlowPage(t *testing.T) {
	slow := &pageStore{}
	inBadRigOn(t, false, slow, time.Minute, func(t *testing.T, g *badRig) {
		slow.gate = make(chan struct{})
		slow.of(g, g.others[0])
		g.ledger.gate = make(chan struct{})
		g.ledger.on.Store(true)
		var done atomic.Int64
		var writes sync.WaitGroup
		for _, a := range []act{add(g.user, "hide", "p"), add(g.user, "block", g.others[0])} {
			writes.Go(func() {
				g.record(t, true, a)
				done.Add(1)
			})
			synctest.Wait()
		}
		close(g.ledger.gate)
		synctest.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("%d writes were acknowledged when one of two pages was rebuilt, want 1", n)
		}
		close(slow.gate)
		start := time.Now()
		writes.Wait()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the write was acknowledged %v after both pages had it", took)
		}
		g.want(t, g.user, "block", g.others[0], true)
		g.want(t, g.others[0], "blocked-by", g.user, true)
	})
}

// A write whose page cannot be changed is acknowledged late, even if another write of its
// transaction waits for a rebuild.
func TestFailedWriteBesideARebuild(t *testing.T) {
	failing := &pageStore{}
	inBadRigOn(t, true, failing, 0, func(t *testing.T, g *badRig) {
		other := g.others[0]
		failing.of(g, other)
		g.ledger.on.Store(true)
		g.ledger.record = make(chan struct{})
		start := time.Now()
		var writes sync.WaitGroup
		for i, user := range []string{g.others[1], g.user, other} { // the first has its own group
			writes.Go(func() {
				g.record(t, true, add(user, "hide", "p"))
				if took := time.Since(start); user == other && took < defaultBound {
					t.Errorf("write %d was acknowledged after %v", i, took)
				}
			})
			synctest.Wait()
		}
		close(g.ledger.record)
		writes.Wait()
	})
}

// Rebuilds that hang keep their slots no longer than a rebuild may take, and do not take them
// again.
func TestManyBadPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 64), &favfilter.Memory{}
		bad := &badLedger{hangs: true, bad: make(map[uint32]bool)}
		p := startProcess(t, l.Around(bad.around), store, Config{ScrubRate: 1})
		for page := range uint32(32) {
			bad.bad[page] = true
		}
		var users []string // one user on each page
		for page := range uint32(64) {
			users = append(users, p.userOn(page))
			p.record(t, true, add(users[page], "hide", "before"))
			p.losePages(t, page)
		}
		bad.on.Store(true)
		var feeds sync.WaitGroup
		for _, user := range users[:32] {
			feeds.Go(func() {
				for range 30 { // until after the other users were served
					_, _ = p.view(t.Context(), user)
					time.Sleep(time.Second)
				}
			})
		}
		time.Sleep(10 * pageTimeout)
		for _, user := range users[32:] {
			start := time.Now()
			p.want(t, user, "hide", "before", true)
			if took := time.Since(start); took > time.Second {
				t.Errorf("the feed of a page that can be made took %v", took)
			}
		}
		bad.on.Store(false)
		feeds.Wait()
	})
}

// A page whose rebuild fails is tried again only after pauses. During a pause, feeds and writes get
// the last error at once. If another process has stored the page, or the ledger is back, they are
// served at once.
func TestRebuildsPauseAfterFailures(t *testing.T) {
	inBadRig(t, false, func(t *testing.T, g *badRig) {
		g.ledger.on.Store(true)
		const seconds = 30
		for range seconds * 20 {
			start := time.Now()
			if _, err := g.view(t.Context(), g.user); dependency(err) != "ledger" || !errors.Is(err, faulttest.ErrInjected) {
				t.Fatalf("error %v", err)
			}
			if took := time.Since(start); took > 0 {
				t.Fatalf("error after %v, want at once", took)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n := g.ledger.reads.Load(); n < seconds/3 || n > seconds {
			t.Errorf("%d reads of the bad page in %d s", n, seconds)
		}

		other := startProcess(t, g.whole, g.store, Config{ScrubRate: 1})
		other.want(t, g.user, "hide", "before", true) // stores the page
		other.record(t, true, add(g.user, "hide", "p"))
		time.Sleep(defaultBound)
		g.want(t, g.user, "hide", "p", true)
		for page := range g.ledger.bad {
			g.losePages(t, page)
		}
		other.Close()

		_, err := g.view(t.Context(), g.user)
		if dependency(err) != "ledger" {
			t.Fatalf("error %v", err)
		}
		g.ledger.on.Store(false)
		g.rebuilder.rebuilds.endPauses() // like a poll that succeeds after a failed one
		g.want(t, g.user, "hide", "p", true)
	})
}

// The number of rows that may wait for a bad page is limited. Further writes to that page are
// refused and change nothing. Writes to other pages are not refused.
func TestTooMuchWaitsForABadPage(t *testing.T) {
	inBadRig(t, true, func(t *testing.T, g *badRig) {
		g.ledger.on.Store(true)
		var writes sync.WaitGroup
		batch := make([]act, maxQueuedRows)
		for i := range batch {
			batch[i] = add(g.user, "hide", fmt.Sprint("p", i))
		}
		writes.Go(func() {
			if _, err := g.Record(t.Context(), batch); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 100 {
			start := time.Now()
			if _, err := g.Record(t.Context(), []act{add(g.user, "hide", "refused")}); !errors.Is(err, ErrOverloaded) {
				t.Fatalf("error %v", err)
			}
			if took := time.Since(start); took > 0 {
				t.Fatalf("refused after %v", took)
			}
		}
		g.wantOthersServed(t, "p")
		writes.Wait()
		g.ledger.on.Store(false)
		time.Sleep(costlyPause + largeTimeout)
		g.record(t, true, add(g.user, "hide", "refused"))
		g.want(t, g.user, "hide", "p4095", true)
	})
}

// Close does not wait for a rebuild that hangs.
func TestCloseDuringABadRebuild(t *testing.T) {
	inBadRig(t, true, func(t *testing.T, g *badRig) {
		g.ledger.on.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = g.Record(ctx, []act{add(g.user, "hide", "p")})
		time.Sleep(2 * pageTimeout) // the page is now being read in parts
		_, _ = g.view(ctx, g.user)
		start := time.Now()
		g.Close()
		if took := time.Since(start); took > pageTimeout {
			t.Errorf("closed after %v", took)
		}
	})
}

// TestWritesDuringALongRebuild has a rebuild that takes longer than its writers wait. The page is
// rebuilt once. Writes during the rebuild are applied after it, though they have been acknowledged
// by then.
func TestWritesDuringALongRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		const takes, writes = 3 * pageTimeout, 50 // for which the rebuilt page has room
		var large atomic.Bool
		var reads atomic.Int64
		slow := l.Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
			switch {
			case c.Operation == "keys" && large.Load():
				return ledger.ErrLargePage
			case c.Operation == "each_row":
				reads.Add(1)
				defer time.Sleep(takes)
			}
			return next(ctx)
		})
		p := startProcess(t, slow, store, Config{Passive: true})
		p.record(t, true, add("1", "hide", "before"))
		p.losePages(t, 0)
		large.Store(true)
		var group sync.WaitGroup
		start := time.Now()
		for i := range writes {
			group.Go(func() {
				if _, err := p.Record(t.Context(), []act{add("1", "hide", fmt.Sprint("p", i))}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(takes / (writes / 2)) // some writes before the rebuild ends, some after
		}
		group.Wait()
		if took := time.Since(start); took > 3*takes {
			t.Errorf("the last write was acknowledged after %v", took)
		}
		for i := range writes {
			p.want(t, "1", "hide", fmt.Sprint("p", i), true)
		}
		if n := reads.Load(); n > 2 {
			t.Errorf("the page was read %d times", n)
		}
	})
}

// A page with a queue refuses writes when too many rows wait for it, or for all such pages. Other
// pages still take writes.
func TestCongested(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 64)
	g.Close()
	on := func(users ...string) iter.Seq[ledger.Row] {
		var changes []ledger.Change
		for _, user := range users {
			changes = append(changes, ledger.Change{Rows: []ledger.Row{{Hash: g.hashOf(user), Owner: user, Kind: "hide", Target: "p"}}})
		}
		return newWrite(t.Context(), changes).rows
	}
	page := g.pageOf("1")
	other := "2"
	for i := 3; g.pageOf(other) == page; i++ {
		other = fmt.Sprint(i)
	}
	for _, c := range []struct {
		rows    int
		all     int64
		refused bool
	}{
		{0, 0, false}, {maxQueuedRows - 1, maxQueuedRows - 1, false}, {maxQueuedRows, maxQueuedRows, true},
		{1, maxAllQueuedRows - 1, false}, {1, maxAllQueuedRows, true},
	} {
		g.committer.pageQueues[page] = &pageQueue{rows: c.rows}
		g.committer.queuedRows.Store(c.all)
		if got := g.committer.congested(on("1")); got != c.refused {
			t.Errorf("%d rows wait for the page, %d for all: refused %v, want %v", c.rows, c.all, got, c.refused)
		}
		if g.committer.congested(on(other)) {
			t.Errorf("%d rows wait for a page, %d for all: a write to another is refused", c.rows, c.all)
		}
		if got := g.committer.congested(on(other, "1")); got != c.refused {
			t.Errorf("a write to both: refused %v, want %v", got, c.refused)
		}
	}
}
