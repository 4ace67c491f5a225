package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

func loadMissing(t *testing.T, b Backend) {
	l := load(t, b.Store, favfilter.PageID{Number: 3})
	if l.Page != nil || l.Version != "" || l.Damage != nil {
		t.Fatalf("loaded %+v from an empty store", l)
	}
	for _, batch := range []favfilter.Batch{
		{ID: favfilter.PageID{Number: 3}, Sequence: 1, Add: hashes(0, 1)},
		{ID: favfilter.PageID{Number: 3}, Add: hashes(0, 1)},
		{ID: favfilter.PageID{Number: 3}, Add: hashes(0, 100)},
	} {
		wantState(t, apply(t, b.Store, batch), favfilter.Missing)
	}
}

func replaceConditions(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 1}
	at := func(sequence, build, incarnation uint64) *favfilter.Page {
		h := header(1, 100)
		h.Sequence, h.Build, h.Incarnation = sequence, build, incarnation
		return newPage(t, h)
	}
	var stands favfilter.Version
	for _, c := range []struct {
		name string
		page *favfilter.Page
		seen favfilter.Version
		over bool
		done bool
	}{
		{"empty place, something else seen", at(5, 1, 7), "other", false, false},
		{"empty place, newer", at(5, 1, 7), "other", true, true},
		{"same sequence, not as seen", at(5, 2, 7), "other", true, false},
		{"lower sequence, newer", at(4, 3, 7), "", true, false},
		{"higher sequence, but not newer nor as seen", at(6, 4, 7), "", false, false},
		{"as seen, same sequence", at(5, 5, 7), "stands", false, true},
		{"as seen, lower sequence", at(2, 6, 7), "stands", false, true},
		{"higher sequence, newer", at(3, 7, 7), "", true, true},
		{"lower sequence, other incarnation, newer", at(1, 8, 8), "", true, true},
		{"lower sequence, other incarnation, not newer", at(0, 9, 7), "", false, false},
		{"as seen, high sequence", at(1<<32+5, 10, 8), "stands", false, true},
		{"lower sequence, though not in its low bytes", at(1<<32-1, 11, 8), "", true, false},
		{"higher sequence, though not in its low bytes", at(1<<33, 12, 8), "", true, true},
	} {
		seen := c.seen
		if seen == "stands" {
			seen = stands
		}
		t.Log(c.name)
		unchanged := remember(t, b, id)
		replace(t, b.Store, favfilter.Replacement{ID: id, Page: c.page, Seen: seen, Newer: c.over}, c.done)
		if c.done {
			wantBytes(t, b, id, c.page)
		} else {
			unchanged(c.name)
		}
		stands = load(t, b.Store, id).Version
	}
	h := header(1, 100)
	h.Shape.Region = 0
	replace(t, b.Store, favfilter.Replacement{ID: id, Page: newPage(t, h), Seen: stands}, true)
	if _, collisions := b.Strings(t, id); collisions != nil {
		t.Error("a page without regions left the regions string of the previous page")
	}
}

// isolated checks that a loaded page never changes, and that changing a page after it was stored
// does not change the stored page.
func isolated(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 1}
	page := newPage(t, header(1, 200))
	put(t, b.Store, id, page)
	page.Insert(keyHash(0))
	before := load(t, b.Store, id).Page
	if before.Contains(keyHash(0)) || before.Header().Count != 0 {
		t.Error("a change of a page after Replace changed the stored page")
	}
	for i, n := range []int{1, 60} {
		wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: uint64(i + 1), Add: hashes(i*100, n)}), favfilter.Applied)
		if before.Contains(keyHash(i*100)) || before.Header().Count != 0 {
			t.Errorf("a batch of %d keys changed a page that was loaded before", n)
		}
	}
}

func foreignBatch(t *testing.T, b Backend) {
	id, other := favfilter.PageID{Number: 2}, favfilter.PageID{Number: 3}
	h, misplaced := header(2, 100), newPage(t, header(4, 100))
	h.Sequence = 1
	create(t, b.Store, id, h)
	put(t, b.Store, other, misplaced)
	for _, change := range []func(*favfilter.Batch){
		func(b *favfilter.Batch) { b.Identity.Seed++ },
		func(b *favfilter.Batch) { b.Identity.Pages *= 2 },
		func(b *favfilter.Batch) { b.Identity.Incarnation++ },
		func(b *favfilter.Batch) { b.ID = other },
	} {
		for _, n := range []int{1, 100} {
			for sequence := range uint64(4) { // even if the page already has it
				batch := favfilter.Batch{ID: id, Identity: testIdentity(), Sequence: sequence, Add: hashes(0, n)}
				change(&batch)
				wantState(t, apply(t, b.Store, batch), favfilter.Foreign)
			}
		}
	}
	wantBytes(t, b, id, newPage(t, h))
	wantBytes(t, b, other, misplaced)
}

// jamming returns a page in which the key doomed cannot be removed: the page is so full that all
// regions of that key are shared.
func jamming(t testing.TB, number uint32) (page *favfilter.Page, doomed, free favfilter.Hash) {
	t.Helper()
	page = newPage(t, header(number, 100))
	free = keyHash(-1)
	page.Insert(free)
	for i := range 2000 {
		h := keyHash(i)
		page.Insert(h)
		trial := page.Clone()
		if trial.Remove(h) == favfilter.Stuck {
			return page, h, free
		}
	}
	t.Fatal("no key got stuck")
	return nil, doomed, free
}

func jammedBatch(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 4}
	page, doomed, _ := jamming(t, 4)
	put(t, b.Store, id, page)
	unchanged := remember(t, b, id)
	for name, batch := range map[string]favfilter.Batch{
		"stuck":             {Remove: []favfilter.Hash{doomed}},
		"stuck after adds":  {Remove: []favfilter.Hash{doomed}, Add: hashes(5000, 3)},
		"absent":            {Remove: hashes(90000, 1)},
		"stuck, many keys":  {Remove: []favfilter.Hash{doomed}, Add: hashes(5000, 50)},
		"absent, many keys": {Remove: hashes(90000, 1), Add: hashes(5000, 50)},
	} {
		batch.ID, batch.Sequence = id, 1
		wantState(t, apply(t, b.Store, batch), favfilter.Jammed)
		unchanged(name)
	}
	res := apply(t, b.Store, favfilter.Batch{ID: id, Remove: []favfilter.Hash{doomed}})
	wantState(t, res, favfilter.Applied)
	if !slices.Equal(res.Outcomes, []favfilter.Outcome{favfilter.Stuck}) || res.Header.Sequence != 0 {
		t.Errorf("without a guard: %v at %d, want stuck and nothing changed", res.Outcomes, res.Header.Sequence)
	}
}

// overfullBatch adds keys that may set exactly as many bits as the rate allows, or one more. A page
// of several layers takes none.
func overfullBatch(t *testing.T, b Backend) {
	for i, n := range []int{1, 8, 50} { // by script, and by compare-and-swap
		for j, room := range []uint32{0, 1} {
			id := favfilter.PageID{Number: uint32(10*i + j)}
			h := header(id.Number, 0)
			h.Shape = favfilter.Shape{Bits: 1024, Hashes: 5, Region: favfilter.DefaultRegion}
			page := newPage(t, h)
			batch := favfilter.Batch{ID: id, Sequence: 1, Rate: 0.05, Add: hashes(90000, n)}
			batch.Add[0].Extra = uint8(3 * j)
			fill(t, page, uint32(batch.Room(h.Shape))+1-room)
			put(t, b.Store, id, page)
			unchanged := remember(t, b, id)
			res := apply(t, b.Store, batch)
			if room > 0 {
				wantState(t, res, favfilter.Applied)
				continue
			}
			wantState(t, res, favfilter.Overfull)
			unchanged("keys that would fill it")
		}
	}
	grown, _ := grownPage(t, 48)
	id := favfilter.PageID{Number: 48}
	put(t, b.Store, id, grown)
	unchanged := remember(t, b, id)
	next := grown.Header().Sequence + 1
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: next, Rate: growingRate, Add: hashes(0, 1)}), favfilter.Overfull)
	unchanged("a key for a page of several layers")
}

// exactlyFull adds keys of which the last one finds exactly as many bits set as the rate allows.
// Only then the page grows.
func exactlyFull(t *testing.T, b Backend) {
	for i, n := range []int{1, 3, 12} { // by script, and by compare-and-swap
		for j, room := range []uint32{0, 1} {
			id := favfilter.PageID{Number: uint32(10*i + j)}
			batch := favfilter.Batch{ID: id, Rate: 0.02, Add: make([]favfilter.Hash, n)}
			h := header(id.Number, 0)
			h.Shape = favfilter.Shape{Bits: 1024, Hashes: 5, Region: favfilter.DefaultRegion}
			page := newPage(t, h)
			fill(t, page, uint32(batch.Room(h.Shape))-room)
			batch.Add = disjoint(t, page, n)
			put(t, b.Store, id, page)
			res := apply(t, b.Store, batch)
			wantState(t, res, favfilter.Applied)
			want := slices.Repeat([]favfilter.Outcome{favfilter.Added}, n)
			if !slices.Equal(res.Outcomes, want) || (res.Header.Grown == 0) != (room > 0) {
				t.Errorf("room for %d bits: %v with %d more layers, want %v", room, res.Outcomes, res.Header.Grown, want)
			}
		}
	}
}

// fill inserts keys until exactly the given number of bits is set.
func fill(t testing.TB, page *favfilter.Page, set uint32) {
	t.Helper()
	for i := range 10_000 {
		trial := page.Clone()
		trial.Insert(keyHash(i))
		if trial.Header().Set <= set {
			page.Insert(keyHash(i))
		}
		if page.Header().Set == set {
			return
		}
	}
	t.Fatalf("no keys set exactly %d bits", set)
}

// disjoint returns n keys that share no bit with each other or with the keys of page.
func disjoint(t testing.TB, page *favfilter.Page, n int) (keys []favfilter.Hash) {
	t.Helper()
	page = page.Clone()
	for i := 10_000; i < 100_000 && len(keys) < n; i++ {
		trial := page.Clone()
		trial.Insert(keyHash(i))
		if trial.Header().Set == page.Header().Set+uint32(page.Header().Shape.Hashes) {
			page, keys = trial, append(keys, keyHash(i))
		}
	}
	if len(keys) < n {
		t.Fatalf("%d keys that share no bit, want %d", len(keys), n)
	}
	return keys
}

func cancelled(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 9}
	create(t, b.Store, id, header(9, 100))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := b.Store.Load(ctx, []favfilter.PageID{id}); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v", err)
	}
	if _, err := b.Store.LoadWhole(ctx, []favfilter.PageID{id}); !errors.Is(err, context.Canceled) {
		t.Errorf("load whole: %v", err)
	}
	for _, n := range []int{1, 100} {
		res := b.Store.Apply(ctx, []favfilter.Batch{{ID: id, Identity: testIdentity(), Sequence: 1, Add: hashes(0, n)}})
		if !errors.Is(res[0].Err, context.Canceled) {
			t.Errorf("apply of %d: %+v", n, res[0])
		}
	}
	if _, err := b.Store.Replace(ctx, favfilter.Replacement{ID: id, Page: newPage(t, header(9, 100)), Newer: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("replace: %v", err)
	}
	if load(t, b.Store, id).Page.Header().Sequence != 0 {
		t.Error("the page changed")
	}
}
