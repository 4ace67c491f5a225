package storetest

import (
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// changedByAnother checks a store that has met a page which another process then replaces by one of
// another identity or shape. What the store remembers must not cause an error.
func changedByAnother(t *testing.T, b Backend) {
	if b.Other == nil {
		t.Skip("the store is of one process")
	}
	number := uint32(30)
	for name, c := range map[string]struct {
		change func(*favfilter.Header)
		want   favfilter.State
	}{
		"another build":       {func(h *favfilter.Header) { h.Build++ }, favfilter.Applied},
		"another incarnation": {func(h *favfilter.Header) { h.Incarnation++ }, favfilter.Foreign},
		"another seed":        {func(h *favfilter.Header) { h.Seed++ }, favfilter.Foreign},
		"twice the pages":     {func(h *favfilter.Header) { h.Pages *= 2 }, favfilter.Foreign},
		"more bits":           {func(h *favfilter.Header) { h.Shape.Bits += 8 }, favfilter.Applied},
		"fewer bits":          {func(h *favfilter.Header) { h.Shape.Bits -= 512 }, favfilter.Applied},
		"another hash":        {func(h *favfilter.Header) { h.Shape.Hashes++ }, favfilter.Applied},
		"larger regions":      {func(h *favfilter.Header) { h.Shape.Region *= 2 }, favfilter.Applied},
		"no regions":          {func(h *favfilter.Header) { h.Shape.Region = 0 }, favfilter.Applied},
		"a higher sequence":   {func(h *favfilter.Header) { h.Sequence = 1 }, favfilter.Current},
	} {
		for _, keys := range []int{3, 60} { // by script, and by compare-and-swap
			number++
			id := favfilter.PageID{Number: number}
			create(t, b.Store, id, header(number, 200))
			h := header(number, 200)
			c.change(&h)
			page := newPage(t, h)
			page.Insert(keyHash(1000))
			r := favfilter.Replacement{ID: id, Page: page, Seen: load(t, b.Other, id).Version}
			replace(t, b.Other, r, true)
			batch := favfilter.Batch{ID: id, Identity: testIdentity(), Sequence: 1, Add: hashes(0, keys)}
			if res := apply(t, b.Store, batch); res.State != c.want {
				t.Errorf("%s: %d keys are %v, want %v", name, keys, res.State, c.want)
			}
			page.Apply(batch)
			if c.want == favfilter.Foreign { // a writer that knows of the change succeeds
				batch.Identity = h.Identity
				wantState(t, apply(t, b.Store, batch), favfilter.Applied)
				page.Apply(batch)
			}
			wantBytes(t, b, id, page)
		}
	}
}
