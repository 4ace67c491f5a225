package storetest

import (
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// grownPage returns a page of three layers with keys in each, and the keys.
func grownPage(t testing.TB, number uint32) (*favfilter.Page, []favfilter.Hash) {
	t.Helper()
	page := newPage(t, growingHeader(t, number))
	batch := favfilter.Batch{ID: favfilter.PageID{Number: number}, Identity: testIdentity(), Rate: growingRate}
	var keys []favfilter.Hash
	for i := 0; page.Header().Grown < 2 && i < 10_000; i++ {
		batch.Add = hashes(i, 1)
		if page.Apply(batch).Outcomes[0] == favfilter.Added {
			keys = append(keys, batch.Add...)
		}
	}
	return page, keys
}

// growingRate is the false-positive rate of pages that grow.
const growingRate = 0.01

// growingHeader returns the header of a page for 20 keys before it grows.
func growingHeader(t testing.TB, number uint32) favfilter.Header {
	t.Helper()
	h := header(number, 0)
	var err error
	if h.Shape, err = favfilter.ShapeFor(20, growingRate/2); err != nil {
		t.Fatal(err)
	}
	return h
}

// grownReplaced checks that a grown page is stored, loaded and peeked at like any other page. A
// page of one layer that replaces it can be changed as usual.
func grownReplaced(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 48}
	page, keys := grownPage(t, 48)
	put(t, b.Store, id, page)
	wantBytes(t, b, id, page)
	l := load(t, b.Store, id)
	if l.Page == nil || l.Page.Header() != page.Header() || !contains(l.Page, keys...) {
		t.Fatalf("loaded %+v", l)
	}
	if got := peek(t, b.Store, id)[0]; got != page.Status() || got != standing(t, b, id) || got.Collided == 0 {
		t.Errorf("peeked at %+v, want %+v", got, standing(t, b, id))
	}
	h := header(48, 100)
	h.Build = 5
	replace(t, b.Store, favfilter.Replacement{ID: id, Page: newPage(t, h), Seen: l.Version}, true)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 1)}), favfilter.Applied)
}

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

// racingGrowth checks that no key is lost when concurrent writers, each with its own keys, make one
// page grow.
func racingGrowth(t *testing.T, b Backend) {
	const writers, rate = 6, 0.001
	rounds := b.rounds(40)
	id := favfilter.PageID{Number: 46}
	create(t, b.Store, id, header(46, 50))
	added := make([][]favfilter.Hash, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				keys := hashes((w*rounds+r)*100, 1+(r%3)*6)
				res := applyContext(t.Context(), t, b.one(w), favfilter.Batch{ID: id, Rate: rate, Add: keys})
				for i, o := range res.Outcomes {
					if o == favfilter.Added {
						added[w] = append(added[w], keys[i])
					}
				}
			}
		})
	}
	wg.Wait()
	page := load(t, b.Store, id).Page
	total := 0
	for w, keys := range added {
		total += len(keys)
		if !contains(page, keys...) {
			t.Errorf("writer %d lost a key", w)
		}
	}
	h := page.Header()
	if int(h.Count) != total || total < writers*rounds || page.FalsePositiveRate() > rate {
		t.Errorf("%+v, rate %g, %d keys were added", h, page.FalsePositiveRate(), total)
	}
	if total > 500 && h.Grown == 0 {
		t.Error("the page did not grow")
	}
}

// removes checks that a page is removed if it has the version that the caller saw, with both of its
// strings.
func removes(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 50}
	remove := func(seen favfilter.Version, want bool) {
		t.Helper()
		replace(t, b.Store, favfilter.Replacement{ID: id, Seen: seen, Newer: true, Expire: Expire}, want)
	}
	wantNothing := func() {
		t.Helper()
		bits, collisions := b.Strings(t, id)
		if bits != nil || collisions != nil || load(t, b.Store, id).Version != "" {
			t.Error("something is left of a page that was removed")
		}
	}
	remove("", true)
	remove("other", true)
	create(t, b.Store, id, header(50, 100))
	seen := load(t, b.Store, id).Version
	remove("", false)
	remove("other", false)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 1)}), favfilter.Applied)
	remove(seen, false)
	if !contains(load(t, b.Store, id).Page, keyHash(0)) {
		t.Error("a page that was not as seen has gone")
	}
	remove(load(t, b.Store, id).Version, true)
	wantNothing()
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(0, 1)}), favfilter.Missing)
	h := header(50, 3000) // as good as new
	create(t, b.Store, id, h)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 1)}), favfilter.Applied)
	if b.Overwrite == nil {
		return
	}
	b.Overwrite(t, id, "bits", []byte("damaged"))
	remove("damage", false)
	remove("damaged", true)
	wantNothing()
	create(t, b.Store, id, h)
	b.Overwrite(t, id, "bits", nil)
	remove("", true) // the other string of it
	wantNothing()
}
