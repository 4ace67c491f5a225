package pages

import (
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
