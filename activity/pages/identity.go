package pages

import (
	"context"
	"slices"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
)

// identityChunk is the number of pages that a search for any page reads at once.
const identityChunk = 512

// FindIdentity returns the identity in a sound page of the store, of whatever ledger or filter; nil
// if there is none. It looks at the first page of every layout, and then at as many pages
// as a filter has by default. An error says that the store cannot be read, or that all pages found
// are damaged.
func FindIdentity(ctx context.Context, store favfilter.Store) (*favfilter.Identity, error) {
	ids := make([]favfilter.PageID, 0, ledger.DefaultPages)
	// After a reshape, the pages of the first layout are closed and expire.
	for pages := uint32(ledger.MaxPages); pages > 1; pages /= 2 {
		ids = append(ids, favfilter.PageID{Part: known.LaterPart(pages)})
	}
	return identityIn(ctx, store, append(ids, firstIDs(ledger.DefaultPages)...))
}

// firstIDs returns the first pages of the first layout.
func firstIDs(pages uint32) []favfilter.PageID {
	ids := make([]favfilter.PageID, pages)
	for n := range pages {
		ids[n].Number = n
	}
	return ids
}

// identityIn returns the identity in the first sound page found; nil if no page is found.
func identityIn(
	ctx context.Context, store favfilter.Store, ids []favfilter.PageID,
) (*favfilter.Identity, error) {
	var damage error
	for some := range slices.Chunk(ids, identityChunk) {
		statuses, err := store.Peek(ctx, some)
		if err != nil {
			return nil, Unavailable("pages", err)
		}
		for _, st := range statuses {
			switch {
			case st.Err != nil:
				return nil, Unavailable("pages", st.Err)
			case st.Damage != nil:
				damage = st.Damage
			case !st.Missing:
				return &st.Header.Identity, nil
			}
		}
	}
	return nil, damage
}
