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
	empty, filled, window := favfilter.PageID{Number: 14}, favfilter.PageID{Number: 15}, favfilter.PageID{Number: 15, Part: "seen"}
	many := favfilter.PageID{Number: 16}
	for _, id := range []favfilter.PageID{empty, filled, many, window} {
		page := newPage(t, header(id.Number, 100))
		replace(t, b.Store, favfilter.Replacement{ID: id, Page: page, Expire: Expire}, true)
	}
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: filled, Sequence: 1, Add: hashes(0, 1)}), favfilter.Applied)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: many, Sequence: 1, Add: hashes(0, 60)}), favfilter.Applied)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: window, Add: hashes(0, 1)}), favfilter.Applied)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: window, Add: hashes(1, 60)}), favfilter.Applied)
	b.Advance(t)
	if load(t, b.Store, empty).Page != nil {
		t.Error("an empty page outlived its time")
	}
	if bits, collisions := b.Strings(t, empty); bits != nil || collisions != nil {
		t.Errorf("an empty page left %d bytes of bits string and %d of regions string", len(bits), len(collisions))
	}
	if load(t, b.Store, window).Page != nil {
		t.Error("a window outlived its time: a batch without a guard must leave it")
	}
	for _, id := range []favfilter.PageID{filled, many} {
		if p := load(t, b.Store, id).Page; p == nil || !contains(p, keyHash(0)) {
			t.Error("a page with keys expired: a guarded batch must end its time to live")
		}
		wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(100, 1)}), favfilter.Applied)
	}
}

// expiryOfReplacements checks that each replacement of a page sets, removes or keeps its time to
// live.
func expiryOfReplacements(t *testing.T, b Backend) {
	for i, c := range []struct {
		name    string
		expires [2]time.Duration // of the page, and of the one that replaces it
		stays   bool
	}{
		{"none, given one", [2]time.Duration{0, Expire}, false},
		{"one, ended", [2]time.Duration{Expire, 0}, true},
		{"one, left", [2]time.Duration{Expire, favfilter.KeepExpiry}, false},
		{"none, left", [2]time.Duration{0, favfilter.KeepExpiry}, true},
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
