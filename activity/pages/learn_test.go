package pages

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// heldStore is a store whose Apply hangs until its context ends, while hold is set.
type heldStore struct {
	favfilter.Store
	hold bool
}

func (s *heldStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	if !s.hold {
		return s.Store.Apply(ctx, batches)
	}
	<-ctx.Done()
	results := make([]favfilter.Result, len(batches))
	for i := range results {
		results[i].Err = ctx.Err()
	}
	return results
}

// A client's write hangs between the ledger and the page of one process. The client repeats it at
// another process, which acknowledges it. Once the bound has passed, the first process reports the
// activity, too: it applies a poll's answer even about its own change, although the page was set
// back.
func TestRepeatedWriteAcknowledgedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 200 * time.Millisecond
		l, store := newLedger(t, 1), &favfilter.Memory{}
		slow := &heldStore{Store: store}
		config := Config{StalenessBound: bound, ScrubRate: 1}
		a := startProcess(t, l, slow, config)
		b := startProcess(t, l, store, config)
		a.record(t, true, add("1", "hide", "before"))
		a.want(t, "1", "hide", "before", true)
		a.want(t, "1", "hide", "p", false)

		lose := setBack(t, store, favfilter.PageID{})
		slow.hold = true
		impatient, cancel := context.WithTimeout(t.Context(), bound/4)
		_, err := a.Record(impatient, []act{add("1", "hide", "p")})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the write that hangs: %v", err)
		}
		b.record(t, false, add("1", "hide", "p"))
		lose()
		time.Sleep(bound)
		a.want(t, "1", "hide", "p", true)
		a.want(t, "1", "hide", "before", true)
	})
}

// A write in flight does not make readers rebuild its page: no process can have acknowledged the
// write before a poll has told of it. That also holds while the next write to the page waits.
func TestWriteOnItsWayCostsNoRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		slow := &heldStore{Store: store}
		p := startProcess(t, l, slow, Config{StalenessBound: time.Minute, ScrubRate: 1})
		p.record(t, true, add("1", "hide", "before"))
		before := p.Stats().Rebuilds["behind"]
		slow.hold = true
		for _, target := range []string{"p", "q"} {
			go func() { _, _ = p.Record(t.Context(), []act{add("1", "hide", target)}) }()
			synctest.Wait()
		}
		p.want(t, "1", "hide", "before", true)
		if n := p.Stats().Rebuilds["behind"]; n != before {
			t.Errorf("%d rebuilds of a page whose writes are in flight", n-before)
		}
	})
}

// newProcess returns a Recorder that polls only when told to.
func newProcess(t *testing.T, l *ledger.Ledger, s favfilter.Store) *rig {
	t.Helper()
	r, err := openPages(t.Context(), Config{Ledger: l, Store: s, StalenessBound: time.Minute, Passive: true})
	must(t, err)
	t.Cleanup(r.Close)
	return &rig{Pages: r, store: s}
}

func (g *rig) pollNow(t *testing.T) {
	t.Helper()
	must(t, g.known.PollSince(t.Context(), g.life.Elapsed()))
}

// sequenceIn returns the sequence of page 0 in the store.
func sequenceIn(t *testing.T, s favfilter.Store) uint64 {
	t.Helper()
	found, err := s.Peek(t.Context(), []favfilter.PageID{{}})
	must(t, err)
	return found[0].Header.Sequence
}

// One write makes the difference between a usable page and one that has lost a key. Neither the
// process that made the write nor the way in which the reader heard of it matters.
func TestPageThatLostOneWrite(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(t *testing.T, a, b *rig)
		news  bool // a learns of the write only by a poll
	}{
		{"own", func(t *testing.T, a, _ *rig) { t.Helper(); a.record(t, true, add("1", "hide", "p")) }, false},
		{"of another, told by a poll", func(t *testing.T, _, b *rig) { t.Helper(); b.record(t, true, add("1", "hide", "p")) }, true},
		{"of another, repeated here", func(t *testing.T, a, b *rig) {
			t.Helper()
			b.record(t, true, add("1", "hide", "p"))
			a.record(t, false, add("1", "hide", "p"))
		}, false},
		{"own, in a bulk", func(t *testing.T, a, _ *rig) {
			t.Helper()
			a.recordInBulk(t, add("1", "hide", "p"))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(t, 1)
			store := &favfilter.Memory{}
			a, b := newProcess(t, l, store), newProcess(t, l, store)
			for range 3 { // so that no sequence is 0 or 1
				a.record(t, true, add("1", "hide", "x"))
				a.record(t, true, undo("1", "hide", "x"))
			}
			b.pollNow(t)
			lose := setBack(t, store, favfilter.PageID{})
			c.write(t, a, b)
			stored := sequenceIn(t, store)
			if stored != 7 {
				t.Fatalf("the page is at sequence %d, want 7", stored)
			}
			if c.news {
				a.pollNow(t)
			}
			if page := a.sequences.Of(0); page.Required.Load() != stored || page.Known.Load() != stored {
				t.Errorf("required %d, known %d: want %d", page.Required.Load(), page.Known.Load(), stored)
			}
			lose()
			a.want(t, "1", "hide", "p", true)
			if rebuilds := a.Stats().Rebuilds["behind"]; rebuilds != 1 {
				t.Errorf("%d rebuilds of a page that is behind by one", rebuilds)
			}
			a.want(t, "1", "hide", "p", true)
			if rebuilds := a.Stats().Rebuilds["behind"]; rebuilds != 1 {
				t.Errorf("a sound page is rebuilt %d times", rebuilds-1)
			}
		})
	}
}

// A repeated write is acknowledged only when the page has it, not already when the page has an
// earlier one.
func TestRepetitionBringsThePage(t *testing.T) {
	l := newLedger(t, 1)
	store := faulttest.Store{Store: &favfilter.Memory{}, Faults: &faulttest.Faults{}}
	a := newProcess(t, l, store)
	for _, target := range []string{"x", "y"} {
		a.record(t, true, add("1", "hide", target))
	}
	change := changeOf(a.Pages, add("1", "hide", "p"), time.Now())
	_, err := l.Record(t.Context(), time.Now(), []ledger.Change{change}) // like a writer that dies
	must(t, err)
	a.record(t, false, add("1", "hide", "p"))
	if at := sequenceIn(t, store); at != 3 {
		t.Errorf("acknowledged with the page at sequence %d, want 3", at)
	}
	before := store.Calls()
	a.record(t, false, add("1", "hide", "p"))
	if n := store.Calls() - before; n != 0 {
		t.Errorf("%d calls of the store for a page known to have the write", n)
	}
}

// A page that is one write ahead of the ledger shows that the ledger was set back.
func TestPageAheadByOne(t *testing.T) {
	l := newLedger(t, 1)
	store := &favfilter.Memory{}
	a := newProcess(t, l, store)
	for _, target := range []string{"x", "y"} {
		a.record(t, true, add("1", "hide", target))
	}
	hash := a.userKey("1", "hide", "lost")
	res := store.Apply(t.Context(), []favfilter.Batch{{
		Identity: a.storage.identity, Sequence: 3, Add: []favfilter.Hash{hash},
	}})
	if res[0].State != favfilter.Applied {
		t.Fatal(res[0].State)
	}
	a.want(t, "1", "hide", "lost", false)
	if n := a.Stats().Rebuilds["ahead"]; n != 1 {
		t.Errorf("%d rebuilds of a page that is ahead", n)
	}
}

// userKey returns the hash of a key.
func (g *rig) userKey(user, kind, target string) favfilter.Hash {
	of := (*g.rebuilder.declared.Load())[kind]
	start := KeyStart(g.storage.identity.Seed, kind, user, of.Target)
	start.Extra = of.Weight
	return start.With(favfilter.HashKey(g.storage.identity.Seed, target))
}

// A process knows up to which sequence its own writes have taken a page. It does not ask the ledger
// whether the page is ahead.
func TestOwnWritesNeedNoQuestion(t *testing.T) {
	l := newLedger(t, 1)
	faults := &faulttest.Faults{}
	a := newProcess(t, l.Around(faults.Around), &favfilter.Memory{})
	bulk := a.NewBulk()
	for _, target := range []string{"x", "y"} {
		_, err := recordBulk(t.Context(), bulk, []act{add("1", "hide", target)})
		must(t, err)
		if at := a.sequences.Of(0).Known.Load(); at != bulk.pages[0].sequence {
			t.Errorf("the ledger's sequence is %d, known %d", bulk.pages[0].sequence, at)
		}
	}
	must(t, bulk.Finish(t.Context()))
	if page := a.sequences.Of(0); page.Required.Load() != 2 || page.Stored.Load() != 2 {
		t.Errorf("after a bulk: required %d, stored %d: want 2", page.Required.Load(), page.Stored.Load())
	}
	looks := func(after string) {
		t.Helper()
		before := faults.Calls()
		a.want(t, "1", "hide", "x", true)
		if n := faults.Calls() - before; n != 0 {
			t.Errorf("after %s a View asks the ledger %d times", after, n)
		}
	}
	looks("a bulk")
	before := faults.Calls()
	a.record(t, true, add("1", "hide", "z"))
	if n := faults.Calls() - before; n != 1 {
		t.Errorf("a write asks the ledger %d times", n)
	}
	looks("a write")
}
