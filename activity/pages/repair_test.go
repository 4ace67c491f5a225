package pages

import (
	"fmt"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// TestRepairDespiteWrites rebuilds a page that lacks a key although its sequence is
// right. The new page must be stored even if a write changes the incomplete page first.
func TestRepairDespiteWrites(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, g *rig){
		"repair": func(t *testing.T, g *rig) { must(t, g.Repair(t.Context(), PageAt{Page: 0, Sequence: 1})) },
		"verify": func(_ *testing.T, g *rig) { g.scrubber.verify(0) },
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, store favfilter.Store) {
				g := newRig(t, store, 1)
				g.record(t, true, add("1", "hide", "lost"))
				g.emptyPage(t, 0)
				g.want(t, "1", "hide", "lost", false)
				write := sync.OnceFunc(func() { g.record(t, true, add("1", "hide", "new")) })
				g.storage.store = beforeReplace{g.store, write}
				mend(t, g)
				g.want(t, "1", "hide", "lost", true)
				g.want(t, "1", "hide", "new", true)
				if n := g.reasons(); n["sampled"]+n["corrupt"] != 2 {
					t.Errorf("rebuilds %v, want two: a write overtook the first", n)
				}
			})
		})
	}
}

// A repair that does not put a page in its place says so. A page that has no users is not missed.
func TestRepairFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.open(t, Config{}), w.open(t, Config{})
		user := a.usersOn(t, 0, 1)[0]
		at := PageAt{Page: 0, Sequence: 1}
		b.way.places.Store(true)
		if err := b.Repair(t.Context(), at); dependency(err) != "ledger" {
			t.Errorf("without the ledger: %v", err)
		}
		b.way.places.Store(false)
		b.steps.down.Store(true)
		if err := b.Repair(t.Context(), at); dependency(err) != "pages" {
			t.Errorf("without the store: %v", err)
		}
		b.steps.down.Store(false)
		n := 0
		b.useStore(beforeReplace{b.steps, func() {
			n++
			a.record(t, true, add(user, "hide", fmt.Sprint("p", n)))
		}})
		if err := b.Repair(t.Context(), at); err == nil || dependency(err) != "" {
			t.Errorf("of a page that changes each time: %v", err)
		}
		b.useStore(b.steps)
		must(t, b.Repair(t.Context(), at))

		w.build(t)
		w.change(t)
		w.leave(t)
		if err := b.Repair(t.Context(), at); err != nil {
			t.Errorf("of a page that has no users any more: %v", err)
		}
	})
}
