package pages

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// startProcess opens pages as a service does, with their background work, until the test ends.
func startProcess(t *testing.T, l *ledger.Ledger, s favfilter.Store, c Config) *rig {
	t.Helper()
	c.Ledger, c.Store = l, s
	r, err := openPages(t.Context(), c)
	must(t, err)
	t.Cleanup(r.Close)
	return &rig{Pages: r, store: s}
}

// A page has lost a write that another process acknowledged. A reader notices once it has polled,
// within the bound.
func TestBound(t *testing.T) {
	for _, bound := range []time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second} {
		t.Run(bound.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, store := newLedger(t, 1), &favfilter.Memory{}
				slow := Config{StalenessBound: bound, ScrubRate: 1} // one scrub step a second
				a, b := startProcess(t, l, store, slow), startProcess(t, l, store, slow)
				a.record(t, true, add("1", "hide", "before"))
				b.want(t, "1", "hide", "before", true)
				time.Sleep(bound / 4) // between two polls of b
				lose := setBack(t, store, favfilter.PageID{})
				a.record(t, true, add("1", "hide", "p"))
				lose()
				a.want(t, "1", "hide", "before", true)
				lose() // again, because a has repaired the page
				b.want(t, "1", "hide", "p", false)
				time.Sleep(bound)
				b.want(t, "1", "hide", "p", true)
			})
		})
	}
}

// slowLedger answers polls late, and can fail them.
type slowLedger struct {
	delay      time.Duration
	fails      atomic.Bool
	unreadable atomic.Bool // pages and sequences cannot be read
	polls      atomic.Int64
}

func (l *slowLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	switch c.Operation {
	case "keys", "sequence", "place", "ping":
		if l.unreadable.Load() {
			return faulttest.ErrInjected
		}
	case "changed":
		if l.polls.Add(1) == 1 { // at Open
			break
		}
		err := next(ctx)
		time.Sleep(l.delay) // the answer is that old when it arrives
		if l.fails.Load() {
			return faulttest.ErrInjected
		}
		return err
	}
	return next(ctx)
}

// If polls take longer than the bound, feeds wait for one that is young enough.
func TestBoundWithSlowPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		slow := &slowLedger{delay: 700 * time.Millisecond}
		const bound = 200 * time.Millisecond
		a := startProcess(t, l, store, Config{StalenessBound: bound, ScrubRate: 1})
		b := startProcess(t, l.Around(slow.around), store, Config{StalenessBound: bound, ScrubRate: 1})
		a.record(t, true, add("1", "hide", "p0"))
		for i := range 40 {
			lose := setBack(t, store, favfilter.PageID{})
			target := fmt.Sprint("q", i)
			a.record(t, true, add("1", "hide", target))
			lose()
			time.Sleep(bound + time.Duration(i)*17*time.Millisecond)
			b.want(t, "1", "hide", target, true)
		}
		if n := slow.polls.Load(); n < 40 {
			t.Errorf("%d polls", n)
		}
	})
}

// While the ledger is unavailable, feeds do not wait for it, and trust pages.
func TestPollsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		down := &slowLedger{delay: 100 * time.Millisecond}
		down.fails.Store(true)
		p := startProcess(t, l.Around(down.around), store, Config{})
		p.record(t, true, add("1", "hide", "p"))
		time.Sleep(10 * time.Second)
		for range 100 {
			start := time.Now()
			p.want(t, "1", "hide", "p", true)
			if took := time.Since(start); took > 0 {
				t.Fatalf("a view took %v", took)
			}
		}
		if s := p.Stats(); s.PollsFailed < 10 || s.Polls != 1 {
			t.Errorf("%d polls failed, %d did not", s.PollsFailed, s.Polls)
		}
		down.fails.Store(false)
		time.Sleep(time.Second)
		lose := setBack(t, store, favfilter.PageID{})
		_, err := l.Record(t.Context(), time.Now(), []ledger.Change{changeOf(p.Pages, add("1", "hide", "other"), time.Now())})
		must(t, err)
		lose()
		time.Sleep(time.Second)
		p.want(t, "1", "hide", "other", true)
	})
}

// Each process has its own store. Each View asks the ledger first, and sees everything that other
// processes acknowledged before the View began.
func TestOwnStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 2)
		c := Config{StalenessBound: -1}
		a, b := startProcess(t, l, &favfilter.Memory{}, c), startProcess(t, l, &favfilter.Memory{}, c)
		for i := range 100 {
			writer, reader := a, b
			if i%3 == 0 {
				writer, reader = b, a
			}
			target := fmt.Sprint("q", i)
			writer.record(t, true, add("1", "block", target))
			reader.want(t, "1", "block", target, true)
			reader.want(t, target, "blocked-by", "1", true)
			reader.record(t, true, undo("1", "block", target))
			writer.want(t, "1", "block", target, false)
			writer.want(t, target, "block", "1", false)
		}
	})
}

// A poll reads only what changed since the previous one.
func TestPollsGoOn(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 256)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	var counted atomic.Int64 // pages that polls return
	g.open(t, g.ledger.Around(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		each := c.Each
		c.Each = func(page uint32, s ledger.PageState) error {
			counted.Add(1)
			return each(page, s)
		}
		return next(ctx)
	}), g.store)
	if n := counted.Swap(0); n < 50 {
		t.Fatalf("%d pages at the start", n)
	}
	for i := range 20 {
		_ = g.known.PollSince(t.Context(), g.life.Elapsed())
		g.record(t, true, add("1", "hide", fmt.Sprint("another", i)))
	}
	if n := counted.Load(); n > 40 {
		t.Errorf("%d pages in polls about 20 changes", n)
	}
}

// A View sees what another process acknowledged, even while this process has a write in flight to
// the same page with a higher sequence.
func TestOwnWriteOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		c := Config{StalenessBound: -1, ScrubRate: 1}
		a, b := startProcess(t, l, &favfilter.Memory{}, c), startProcess(t, l, &favfilter.Memory{}, c)
		a.record(t, true, add("1", "hide", "p0"))
		b.record(t, true, add("1", "hide", "p1"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.record(t, true, add("1", "hide", "p2"))
		}()
		synctest.Wait() // a's page lacks p1, so p2 has to wait
		a.want(t, "1", "hide", "p1", true)
		<-done
		a.want(t, "1", "hide", "p1", true)
		a.want(t, "1", "hide", "p2", true)
	})
}

// Where each View has to ask the ledger, Views still ask after a poll has failed.
func TestOwnStoreAfterAFailedPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		cut := &slowLedger{}
		c := Config{StalenessBound: -1, ScrubRate: 1}
		a, b := startProcess(t, l.Around(cut.around), &favfilter.Memory{}, c), startProcess(t, l, &favfilter.Memory{}, c)
		a.record(t, true, add("1", "hide", "p0"))
		cut.fails.Store(true)
		a.want(t, "1", "hide", "p0", true)
		cut.fails.Store(false)
		b.record(t, true, add("1", "hide", "p1"))
		a.want(t, "1", "hide", "p1", true)
	})
}
