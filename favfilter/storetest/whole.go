package storetest

import (
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// loadedWhole checks that a page includes its collision bits, so that a copy of it can be changed
// like the page in the store.
func loadedWhole(t *testing.T, b Backend) {
	ids := []favfilter.PageID{{Number: 51}, {Number: 52}, {Number: 51, Part: "seen"}, {Number: 53}}
	plain := header(51, 100)
	plain.Shape.Region = 0
	grown, keys := grownPage(t, 53)
	pages := []*favfilter.Page{newPage(t, header(51, 100)), nil, newPage(t, plain), grown}
	for i, page := range pages {
		if page == nil {
			continue
		}
		for _, h := range hashes(1000*i, 40) {
			page.Insert(h)
		}
		put(t, b.Store, ids[i], page)
	}
	loaded, err := b.Store.LoadWhole(t.Context(), ids)
	if err != nil || len(loaded) != len(ids) {
		t.Fatalf("%d pages, %v", len(loaded), err)
	}
	for i, l := range loaded {
		switch {
		case pages[i] == nil:
			if l.Page != nil || l.Version != "" || l.Damage != nil {
				t.Errorf("a missing page loads as %+v", l)
			}
			continue
		case l.Page == nil || l.Damage != nil || l.Page.Header() != pages[i].Header():
			t.Fatalf("page %v: %+v", ids[i], l)
		}
		wantBytes(t, b, ids[i], l.Page)
		batch := favfilter.Batch{ID: ids[i], Identity: testIdentity(), Remove: append(hashes(1000*i, 20), keys[:5]...), Add: hashes(8000, 30)}
		changed := l.Page.Clone()
		changed.Apply(batch)
		wantState(t, apply(t, b.Store, batch), favfilter.Applied)
		wantBytes(t, b, ids[i], changed)
	}
	if l, err := b.Store.LoadWhole(t.Context(), nil); err != nil || len(l) != 0 {
		t.Errorf("loaded nothing: %v, %v", l, err)
	}
}
