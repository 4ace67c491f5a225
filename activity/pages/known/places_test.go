package known

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// While a poll moves a user, no reader gets the old page with the sequence of the move. The reader
// would take that page for the user's, without the user's keys.
func TestPlaceDuringMove(t *testing.T) {
	k := newKnown(t, newLedger(t, 4), time.Minute)
	k.poller.polls.start.Store(1 << 62) // no poll is due
	// The hash of the user who moves, on page 0. The sequence of the move is the same number.
	var user atomic.Uint64
	user.Store(1)
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for !done.Load() {
				at := Position{User: user.Load()}
				k.KeepUp(t.Context(), 0, &at)
				if at.Page == 0 && at.Left >= at.User {
					t.Errorf("user %d on page 0, left at %d", at.User, at.Left)
					return
				}
			}
		})
	}
	for n := uint64(1); n < 150_000 && !t.Failed(); n++ {
		user.Store(n)
		k.poller.takePlaces(ledger.Progress{
			Layouts: k.layout.Now(),
			Owners:  map[uint64]uint32{n: ledger.DedicatedPages + uint32(n)},
		}, map[uint32]uint64{0: n})
	}
	done.Store(true)
	readers.Wait()
}

// When a layout is gone, the sequences of its pages stay until the next poll. A reader may just
// have looked up one of them.
func TestSequencesOfALayoutThatIsGone(t *testing.T) {
	k := newKnown(t, newLedger(t, 4), time.Minute)
	k.sequences.Of(0).Learn(7)
	for i, want := range []uint64{7, 0} {
		k.poller.takePlaces(ledger.Progress{Layouts: ledger.Layouts{Current: 8}}, nil)
		if got := k.sequences.Of(0).Required.Load(); got != want {
			t.Errorf("poll %d without the layout: its page needs sequence %d, want %d", i, got, want)
		}
	}
}

// blocked starts a poll, and stops it just before it applies which users are on which pages. free
// lets the poll continue.
func (k *Ledger) blocked() (p *poll, free func()) {
	k.layout.mu.RLock()
	p = k.poller.poll()
	for k.layout.mu.TryRLock() { // until the poll waits for the lock
		k.layout.mu.RUnlock()
		runtime.Gosched()
	}
	return p, k.layout.mu.RUnlock
}

// A poll first applies the sequences that pages must have, then which users have dedicated pages,
// and then the sequences with which users left shared pages. Only after all of it does it count as
// done. In any other order, a reader in between would trust a page that it must not.
func TestOrderOfAPoll(t *testing.T) {
	l := newLedger(t, 1)
	record(t, l, 7, "p")
	k := newKnown(t, l, time.Minute)
	record(t, l, 7, "q")
	receipt, err := l.Move(t.Context(), 7, true)
	must(t, err)
	required, age := receipt.Pages[0].Sequence, k.poller.polls.start.Load()
	poll, free := k.blocked()
	page := k.sequences.Of(0)
	if got := page.Required.Load(); got != required {
		t.Errorf("before the moves are applied, page 0 must have sequence %d, want %d", got, required)
	}
	if left := page.left.Load(); left != 0 {
		t.Errorf("the sequence %d of the last leave is applied before the moves", left)
	}
	if k.poller.polls.start.Load() != age {
		t.Error("the poll counts as done before all of it is applied")
	}
	free()
	<-poll.done
	must(t, poll.err)
	if left := page.left.Load(); left != required {
		t.Errorf("page 0 was left with sequence %d, want %d", left, required)
	}
	at := Position{User: 7}
	k.KeepUp(t.Context(), k.Recent(), &at)
	if at != (Position{User: 7, Page: receipt.Owners[7], Known: true}) || at.Page < ledger.DedicatedPages {
		t.Errorf("the user is at %+v, want page %d", at, receipt.Owners[7])
	}
}
