package pages

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// TestLongPageFollowsLoad checks the page after every acknowledged write: it keeps its rate, and is
// not far too large.
func TestLongPageFollowsLoad(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.rebuilder.maxSharedKeys = math.MaxInt // keep the user on the shared page
	rng := rand.New(rand.NewPCG(1, 1))
	var live []string
	step := func(grow bool) {
		var batch []act
		for range 1 + rng.IntN(40) {
			if grow || len(live) == 0 {
				live = append(live, fmt.Sprint("p", rng.Uint64()))
				batch = append(batch, add("1", "hide", live[len(live)-1]))
			} else {
				i := rng.IntN(len(live))
				batch = append(batch, undo("1", "hide", live[i]))
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			}
		}
		_, err := g.Record(t.Context(), batch)
		must(t, err)
		h := g.header(t, 0)
		fit, err := g.rebuilder.shapeFor(len(live))
		must(t, err)
		switch {
		case int(h.Count) != len(live):
			t.Fatalf("page counts %d keys, ledger has %d", h.Count, len(live))
		case h.Grown > 0 || h.Set > h.Shape.Limit(g.storage.keyRate):
			t.Fatalf("%d bits are set of %d for %d keys, more than the rate %g allows", h.Set, h.Shape.Bits, h.Count, g.storage.keyRate)
		case h.Shape.Bits > 4*fit.Bits:
			t.Fatalf("%d bits for %d keys, %d would do", h.Shape.Bits, len(live), fit.Bits)
		}
	}
	for len(live) < 6000 {
		step(true)
	}
	for len(live) > 10 {
		step(false)
	}
	t.Logf("rebuilds %v", g.reasons())
}

// onAnotherPage returns a user of another page.
func (g *rig) onAnotherPage(user string) string {
	for i := 0; ; i++ {
		other := fmt.Sprint("other", i)
		if g.pageOf(other) != g.pageOf(user) {
			return other
		}
	}
}

// TestEmptyPagesExpire checks that a page made for a viewer without activities expires, and that a
// page with activities does not.
func TestEmptyPagesExpire(t *testing.T) {
	store := &favfilter.Memory{}
	g := newRig(t, store, 2)
	store.Now = func() time.Time { return time.Unix(0, g.now.Load()) }
	exists := func(user string) bool {
		l, _, err := store.Load(t.Context(), []favfilter.PageID{{Number: g.pageOf(user)}})
		must(t, err)
		return l[0].Page != nil
	}
	idle := "0"
	busy := g.onAnotherPage(idle)
	g.want(t, idle, "hide", "p", false)
	g.want(t, busy, "hide", "p", false)
	g.record(t, true, add(busy, "hide", "p"))
	if !exists(idle) || !exists(busy) {
		t.Fatal("a page that a View needed was not stored")
	}
	g.now.Add(int64(emptyExpiry))
	if exists(idle) || !exists(busy) {
		t.Errorf("an hour later: idle page %v, page with a key %v", exists(idle), exists(busy))
	}
}

// TestRepeatWaitsForThePage repeats a write whose page still lacks it. The repeated write is not
// acknowledged while other processes may not know of the first.
func TestRepeatWaitsForThePage(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	unpolled := &slowLedger{}
	g.open(t, g.ledger.Around(unpolled.around), g.store)
	unpolled.fails.Store(true)
	g.record(t, true, add("1", "hide", "p"))
	failing := &faulttest.Faults{At: 1}
	g.storage.store = faulttest.Store{Store: g.store, Faults: failing}
	if _, err := g.Record(t.Context(), []act{add("1", "hide", "q")}); dependency(err) != "pages" {
		t.Fatalf("record: %v", err)
	}
	if h := g.header(t, 0); h.Sequence != 1 {
		t.Fatalf("sequence %d, want 1: the write failed", h.Sequence)
	}
	// The repeated write finds the page behind, reads it again and rebuilds it. The last step of
	// the rebuild fails.
	g.storage.store = faulttest.Store{Store: g.store, Faults: &faulttest.Faults{At: 3}}
	if _, err := g.Record(t.Context(), []act{add("1", "hide", "q")}); dependency(err) != "pages" {
		t.Errorf("acknowledged though the page could not be stored: %v", err)
	}
	g.record(t, false, add("1", "hide", "q"))
	if h := g.header(t, 0); h.Sequence != 2 || h.Count != 2 {
		t.Errorf("acknowledged while the page is at sequence %d with %d keys", h.Sequence, h.Count)
	}
	g.storage.store = faulttest.Store{Store: g.store, Faults: &faulttest.Faults{At: 1, After: true}}
	if _, err := g.Record(t.Context(), []act{add("1", "hide", "r")}); err == nil {
		t.Fatal("no error")
	}
	unpolled.fails.Store(false)
	g.open(t, g.ledger.Around(unpolled.around), g.store) // the new Recorder does not know which sequences pages have
	unpolled.fails.Store(true)
	g.storage.store = faulttest.Down()
	if _, err := g.Record(t.Context(), []act{add("1", "hide", "r")}); dependency(err) != "pages" {
		t.Errorf("acknowledged without a look at the page: %v", err)
	}
}

// TestRebuildsAreShared checks that readers of a missing page share a rebuild.
func TestRebuildsAreShared(t *testing.T) {
	store := &favfilter.Memory{}
	g := newRig(t, store, 1)
	g.recordAll(t, "1", posts("p"), 500, false)
	before := g.reasons()["missing"]
	lost := &favfilter.Memory{}
	g.store, g.storage.store = lost, lost
	const readers = 64
	start := make(chan struct{})
	done := make(chan error, readers)
	for range readers {
		go func() {
			<-start
			v, err := g.view(t.Context(), "1")
			if err == nil && !v.has("hide", "p7") {
				err = fmt.Errorf("p7 is missed")
			}
			done <- err
		}()
	}
	close(start)
	for range readers {
		must(t, <-done)
	}
	// A reader may find the page missing just before the rebuild ends, and start another.
	if n := g.reasons()["missing"] - before; n < 1 || n > readers/2 {
		t.Errorf("%d rebuilds for %d readers", n, readers)
	}
}
