package ledger

import (
	"context"
	"fmt"
)

// OwnPages is the number of the first page that is no home page; those below
// Identity.Pages are. A page from OwnPages on is of one user alone, or of a range of them.
const OwnPages = 1 << 24

// Owner is a user who has a page of their own: all rows of the hash are in it.
type Owner struct {
	Hash uint64
	Page uint32 // OwnPages or more
}

// Standing is where a page has to stand.
type Standing struct {
	Sequence uint64 // 0: it never changed
	// Moves is how often users were moved out of the page, or to one that was there already; of a home page also
	// how often users of the home were moved at all. (Several in one transaction are one.)
	Moves uint32
}

// MoveOut gives the user of that hash a page of their own, which has all rows of the hash
// from then on, and a number that no page ever had. The Receipt is that of a Record which changes nothing of theirs:
// the home page, the one that they shared with others if that is another, and their own were raised, unless the user has
// one already. For errors see Record, and repeat the call likewise.
func (l *Ledger) MoveOut(ctx context.Context, hash uint64) (Receipt, error) {
	receipt, err := l.move(ctx, move{hash: hash, home: l.id.Page(hash), out: true})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: move a user of home %d out: %w", l.id.Page(hash), err)
	}
	return receipt, nil
}

// MoveIn takes back what MoveOut gave: the rows of the hash are where those of others of the range
// are, and the other page is empty for good. The Receipt has that one, too, among what the user has left, if there was one: then it,
// the home page, and the one that they share with others from now on were raised. For errors see Record,
// and repeat the call likewise.
func (l *Ledger) MoveIn(ctx context.Context, hash uint64) (Receipt, error) {
	receipt, err := l.move(ctx, move{hash: hash, home: l.id.Page(hash)})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: move a user of home %d back in: %w", l.id.Page(hash), err)
	}
	return receipt, nil
}

func (l *Ledger) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = l.use(func() error {
		receipt, err = l.db.move(ctx, m)
		return err
	})
	return receipt, err
}
