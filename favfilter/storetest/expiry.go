package storetest

import (
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

func expiry(t *testing.T, b Backend) {
	if b.Advance == nil {
		t.Fatal("the backend cannot let time pass")
	}
	empty, filled, many := favfilter.PageID{Number: 14}, favfilter.PageID{Number: 15}, favfilter.PageID{Number: 16}
	unguarded, manyUnguarded := favfilter.PageID{Number: 15, Part: "other"}, favfilter.PageID{Number: 17}
	for _, id := range []favfilter.PageID{empty, filled, many, unguarded, manyUnguarded} {
		page := newPage(t, header(id.Number, 100))
		replace(t, b.Store, favfilter.Replacement{ID: id, Page: page, Expire: Expire}, true)
	}
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: filled, Sequence: 1, Add: hashes(0, 1)}), favfilter.Applied)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: many, Sequence: 1, Add: hashes(0, 60)}), favfilter.Applied)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: unguarded, Add: hashes(0, 1)}), favfilter.Applied)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: manyUnguarded, Add: hashes(0, 60)}), favfilter.Applied)
	b.Advance(t)
	if load(t, b.Store, empty).Page != nil {
		t.Error("an empty page outlived its time")
	}
	if bits, collisions := b.Strings(t, empty); bits != nil || collisions != nil {
		t.Errorf("an empty page left %d bytes of bits string and %d of regions string", len(bits), len(collisions))
	}
	for _, id := range []favfilter.PageID{filled, many, unguarded, manyUnguarded} {
		if p := load(t, b.Store, id).Page; p == nil || !contains(p, keyHash(0)) {
			t.Errorf("page %v expired: a change must end its time to live", id)
		}
	}
	for _, id := range []favfilter.PageID{filled, many} {
		wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(100, 1)}), favfilter.Applied)
	}
}

// expiryOfReplacements checks that each replacement of a page sets or removes its time to live.
func expiryOfReplacements(t *testing.T, b Backend) {
	for i, c := range []struct {
		name    string
		expires [2]time.Duration // of the page, and of the one that replaces it
		stays   bool
	}{
		{"none, given one", [2]time.Duration{0, Expire}, false},
		{"one, ended", [2]time.Duration{Expire, 0}, true},
	} {
		id := favfilter.PageID{Number: uint32(30 + i)}
		var stands favfilter.Version
		for build, expire := range c.expires {
			h := header(id.Number, 100)
			h.Build = uint64(build)
			replace(t, b.Store, favfilter.Replacement{ID: id, Page: newPage(t, h), Seen: stands, Expire: expire}, true)
			stands = load(t, b.Store, id).Version
		}
		b.Advance(t)
		bits, collisions := b.Strings(t, id)
		if (bits != nil) != c.stays || (collisions != nil) != c.stays {
			t.Errorf("%s: %d bytes of bits string and %d of regions string are left", c.name, len(bits), len(collisions))
		}
	}
}
