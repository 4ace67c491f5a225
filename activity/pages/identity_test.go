package pages

import (
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// FindIdentity finds the pages of a ledger with few users, and those of one that was reshaped.
func TestFindIdentity(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		if found, err := FindIdentity(t.Context(), store); found != nil || err != nil {
			t.Errorf("in an empty store: %+v, %v", found, err)
		}
		for _, id := range []favfilter.PageID{{Number: 12345}, {Part: "p131072"}} {
			want := favfilter.Identity{Seed: 1, Pages: 16384, Incarnation: 7}
			page, err := favfilter.NewPage(favfilter.Header{
				Identity: want, Shape: favfilter.Shape{Bits: 64, Hashes: 3, Region: 4}, Number: id.Number, Sequence: 1, Build: 1,
			})
			must(t, err)
			_, err = store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: page})
			must(t, err)
			if found, err := FindIdentity(t.Context(), store); err != nil || found == nil || *found != want {
				t.Errorf("with page %+v: %+v, %v, want %+v", id, found, err, want)
			}
			loaded, _, err := store.Load(t.Context(), []favfilter.PageID{id})
			must(t, err)
			_, err = store.Replace(t.Context(), favfilter.Replacement{ID: id, Seen: loaded[0].Version})
			must(t, err)
		}
	})
}
