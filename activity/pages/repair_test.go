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
				emptyPage(t, g)
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

// emptyPage removes all keys from page 0 and keeps its sequence.
func emptyPage(t *testing.T, g *rig) {
	t.Helper()
	id := favfilter.PageID{Number: 0}
	loaded, err := g.store.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	placed, err := g.store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: emptied(t, g), Seen: loaded[0].Version})
	if err != nil || !placed {
		t.Fatalf("placed %v, %v", placed, err)
	}
}
