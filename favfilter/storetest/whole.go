package storetest

import (
	"errors"
	"slices"
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
		if done, err := b.Store.Replace(t.Context(), favfilter.Replacement{ID: ids[i], Page: page}); err != nil || !done {
			t.Fatalf("replace: %v, %v", done, err)
		}
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

func loadedWholeDamaged(t *testing.T, b Backend) {
	if b.Overwrite == nil {
		t.Skip("a page of this store cannot be damaged")
	}
	id, sound := favfilter.PageID{Number: 54}, favfilter.PageID{Number: 55}
	create(t, b.Store, id, header(54, 100))
	create(t, b.Store, sound, header(55, 100))
	bits, collisions := b.Strings(t, id)
	other := slices.Clone(collisions)
	other[3] ^= 1
	for _, c := range []struct {
		which string
		value []byte
	}{{"bits", bits[:70]}, {"bits", bits[:10]}, {"regions", nil}, {"regions", collisions[:9]}, {"regions", other}} {
		b.Overwrite(t, id, c.which, c.value)
		loaded, err := b.Store.LoadWhole(t.Context(), []favfilter.PageID{id, sound})
		if err != nil || loaded[0].Page != nil || !errors.Is(loaded[0].Damage, favfilter.ErrDamaged) || loaded[1].Page == nil {
			t.Errorf("%s of %d bytes: %+v, %v", c.which, len(c.value), loaded, err)
		}
		now, _ := b.Strings(t, id)
		if string(loaded[0].Version) != string(now[:min(len(now), favfilter.HeaderBytes)]) {
			t.Errorf("version %x", loaded[0].Version)
		}
		b.Overwrite(t, id, "bits", bits)
		b.Overwrite(t, id, "regions", collisions)
	}
}
