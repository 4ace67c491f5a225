package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// OwnPages is the number of the first page of one user alone; those below
// Identity.Pages are shared.
const OwnPages = 1 << 24

// Owner is a user who has a page of their own: all rows of the hash are in it.
type Owner struct {
	Hash uint64
	Page uint32 // OwnPages or more
}

// Standing is where a page has to stand.
type Standing struct {
	Sequence uint64 // 0: it never changed
	Moves    uint32 // how often users moved out of the page or back into it
}

// Owners returns the users who have a page of their own and whose shared page is one
// of pages, or all of them if no page is named, in order of hash. With them come the Moves of
// these shared pages that are not 0: both as of one moment. A page that is not one of the shared is an error.
//
// As long as the Moves of a shared page are what they were, so are its Owners.
func (l *Ledger) Owners(ctx context.Context, pages ...uint32) (owners []Owner, moves map[uint32]uint32, err error) {
	for _, page := range pages {
		if err := l.checkShared(page); err != nil {
			return nil, nil, fmt.Errorf("ledger: read users with pages of their own: page %d: %w", page, err)
		}
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(pages)))
	err = l.use(func() error {
		owners, moves, err = l.db.owners(ctx, wanted)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("ledger: read users with pages of their own: %w", interrupted(ctx, err))
	}
	slices.SortFunc(owners, func(a, b Owner) int { return cmp.Compare(a.Hash, b.Hash) })
	return owners, moves, nil
}

// MoveOut gives the user of that hash a page of their own, which has all rows of the hash
// from then on, and a number that no page ever had. The Receipt's Pages are the page
// that they share and their own, both raised; or both as they stand, if the user has one
// already. The rest of it is empty. For errors see Record, and repeat the call likewise.
func (l *Ledger) MoveOut(ctx context.Context, hash uint64) (Receipt, error) {
	receipt, err := l.move(ctx, move{hash: hash, shared: l.id.Page(hash), out: true})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: move a user out of page %d: %w", l.id.Page(hash), err)
	}
	return receipt, nil
}

// MoveIn takes back what MoveOut gave: the rows of the hash are in the shared page
// again, and the other one is empty for good. The Receipt's Pages are these two, both
// raised; or the shared page alone, as it stands, if the user had no other. The rest
// of it is empty. For errors see Record, and repeat the call likewise.
func (l *Ledger) MoveIn(ctx context.Context, hash uint64) (Receipt, error) {
	receipt, err := l.move(ctx, move{hash: hash, shared: l.id.Page(hash)})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: move a user back into page %d: %w", l.id.Page(hash), err)
	}
	return receipt, nil
}

func (l *Ledger) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = l.use(func() error {
		receipt.Pages, err = l.db.move(ctx, m)
		return err
	})
	return receipt, err
}
