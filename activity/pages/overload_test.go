package pages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// gatedLedger makes reads of pages wait at a gate, and counts them.
type gatedLedger struct {
	gate      chan struct{} // closed: open
	snapshots atomic.Int64
}

func (l *gatedLedger) around() ledger.Around {
	return before(func(context.Context) error {
		l.snapshots.Add(1)
		<-l.gate
		return nil
	}, "keys")
}

// When too many pages wait for the ledger, further feeds are refused at once. The feeds that wait
// are answered eventually.
func TestTooManyRebuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // however long the feeds take
		l := newLedger(t, 1<<14)
		gate := &gatedLedger{gate: make(chan struct{})}
		g := newRigWith(t, &favfilter.Memory{}, l)
		g.open(t, l.Around(gate.around()), g.store)
		var wg sync.WaitGroup
		var refused, answered atomic.Int64
		for i := range 2 * maxFlights {
			wg.Go(func() {
				_, err := g.view(t.Context(), fmt.Sprint("user", i))
				switch {
				case err == nil:
					answered.Add(1)
				case !errors.Is(err, ErrOverloaded):
					t.Error(err)
				default:
					if refused.Add(1) == 100 {
						close(gate.gate)
					}
				}
			})
		}
		wg.Wait()
		if answered.Load() < maxFlights || refused.Load() < 100 {
			t.Errorf("%d answered, %d refused", answered.Load(), refused.Load())
		}
		if n := gate.snapshots.Load(); n > 2*maxFlights {
			t.Errorf("%d snapshots", n)
		}
	})
}

// When too many writes wait, further ones are refused at once, and change nothing.
func TestTooManyWrites(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	gate := make(chan struct{})
	g.open(t, g.ledger.Around(before(func(context.Context) error {
		<-gate
		return nil
	}, "record")), g.store)
	fates := make([]error, maxWaiting+200)
	var refused atomic.Int64
	var wg sync.WaitGroup
	for i := range fates {
		wg.Go(func() {
			_, fates[i] = g.Record(t.Context(), []act{add(fmt.Sprint("u", i), "hide", "p")})
			if fates[i] != nil && refused.Add(1) == 200 {
				close(gate)
			}
		})
	}
	wg.Wait()
	for i, err := range fates {
		want := true
		if err != nil {
			if want = false; !errors.Is(err, ErrOverloaded) {
				t.Fatal(err)
			}
		}
		rows, err := g.ledger.List(t.Context(), ledger.ListQuery{
			Hash: g.hashOf(fmt.Sprint("u", i)), Owner: fmt.Sprint("u", i), Kind: "hide", Limit: 1,
		})
		must(t, err)
		if (len(rows) == 1) != (want) {
			t.Fatalf("write %d: error %v, but %d rows", i, fates[i], len(rows))
		}
	}
	if n := refused.Load(); n != 200 {
		t.Errorf("%d refused, want 200", n)
	}
}

// While the store is down, a viewer's next feed does not read the ledger again, unless the page has
// changed. The memory for such pages is bounded.
func TestHeldWithoutStore(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	open := make(chan struct{})
	close(open)
	counted := &gatedLedger{gate: open}
	g.open(t, g.ledger.Around(counted.around()), faulttest.Down())
	g.record(t, true, add("1", "block", "2"))
	for range 100 {
		g.want(t, "1", "block", "2", true)
		g.want(t, "1", "block", "3", false)
	}
	if n := counted.snapshots.Load(); n > 3 {
		t.Errorf("%d snapshots for one page", n)
	}
	g.record(t, true, undo("1", "block", "2"))
	g.want(t, "1", "block", "2", false)
	if s := g.Stats(); s.FromLedger < 200 || s.HeldBytes == 0 {
		t.Errorf("%d views without the store, %d bytes of held pages", s.FromLedger, s.HeldBytes)
	}
}

func TestHeldPagesAreBounded(t *testing.T) {
	const most = 64 << 20
	held := newHeldPages(most)
	shape, err := favfilter.ShapeFor(100_000, 0.001)
	must(t, err)
	for i := range uint32(2000) {
		page, err := favfilter.NewPage(favfilter.Header{
			Identity: favfilter.Identity{Pages: 2048}, Shape: shape, Number: i, Sequence: 5,
		})
		must(t, err)
		held.put(i, page)
		if held.get(i).page != page || held.get(0).page == nil {
			t.Fatalf("page %d", i)
		}
		if n, bytes := held.pages.Size(); bytes > most {
			t.Fatalf("%d bytes in %d pages", bytes, n)
		}
	}
	if held.get(1).page != nil {
		t.Error("the least recently used page is still there")
	}
}

// A write of nothing is done at once.
func TestWriteNothing(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	if w, err := g.Write(t.Context(), nil); err != nil || len(w.Changed)+len(w.Refused) > 0 {
		t.Errorf("%+v, %v", w, err)
	}
}
