package pages

import (
	"context"
	"errors"
	"slices"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// deleteBatch is the number of rows removed at a time. Other writes wait for the transaction, and
// the page of each row may have to be rebuilt, within pageTimeout.
const deleteBatch = 1000

// DeleteUser removes every trace of user from the ledger and the pages: rows of the user, and rows
// that name the user. It rebuilds each page that held any, so that none of their bits remains. A
// page whose rebuild failed is stale, and is not used until it is rebuilt.
//
// DeleteUser returns the number of changes, also with an error. After an error some rows may be
// left: call DeleteUser again, in any process. Rows that are written during the call may stay.
func (p *Pages) DeleteUser(ctx context.Context, user string) (deleted int, err error) {
	hash := UserHash(p.storage.identity.Seed, user)
	touched := make(map[uint32]bool)
	for _, rows := range []func() ([]ledger.Row, error){
		p.ownedInTurn(ctx, hash, user),
		func() ([]ledger.Row, error) { return p.poller.ledger.Naming(ctx, hash, user, deleteBatch) },
	} {
		n, err := p.deleteRows(ctx, hash, rows, touched)
		if deleted += n; err != nil {
			return deleted, decided(deleted, err)
		}
	}
	for page := range touched {
		mark := p.sequences.of(page)
		// The rebuild after an earlier transaction failed.
		if want := mark.required.Load(); mark.stored.Load() < want {
			if err := p.applier.ensure(ctx, page, want); err != nil {
				return deleted, err
			}
		}
	}
	// Activities that were undone earlier may have left bits, too.
	if err := p.applier.release(ctx, hash); err != nil {
		return deleted, err
	}
	place, err := p.poller.ledger.Place(ctx, hash) // this process may not have heard of a new layout
	if err != nil {
		return deleted, Unavailable("ledger", err)
	}
	return deleted, p.rebuilder.remake(ctx, place.Page, place.Sequence, "user deleted")
}

// ownedInTurn returns a function that returns the next rows of a user on each call. It continues
// after the last row, and so does not read past removed rows again.
func (p *Pages) ownedInTurn(ctx context.Context, hash uint64, user string) func() ([]ledger.Row, error) {
	var after *ledger.Row
	return func() ([]ledger.Row, error) {
		rows, err := p.poller.ledger.Owned(ctx, hash, user, after, deleteBatch)
		if n := len(rows); n > 0 {
			last := rows[n-1] // the caller changes rows
			after = &last
		}
		return rows, err
	}
}

// decided returns err. If some rows are deleted already, it turns ErrOverloaded into an
// [*UnavailableError], because ErrOverloaded says that nothing was changed.
func decided(deleted int, err error) error {
	if deleted > 0 && errors.Is(err, ErrOverloaded) {
		return Unavailable("ledger", err)
	}
	return err
}

// deleteRows calls rows until it returns none. It removes the returned rows and their other sides,
// and adds the pages that held them to touched.
func (p *Pages) deleteRows(
	ctx context.Context, hash uint64, rows func() ([]ledger.Row, error), touched map[uint32]bool,
) (deleted int, err error) {
	for {
		found, err := rows()
		if err != nil {
			return deleted, Unavailable("ledger", err)
		}
		if len(found) == 0 {
			return deleted, nil
		}
		kinds, err := p.RowKinds(ctx, found)
		if err != nil {
			return deleted, Unavailable("ledger", err)
		}
		// What others did with a domain or a tag of the same id is not the user's.
		found = slices.DeleteFunc(found, func(row ledger.Row) bool {
			owner := kinds[row.Kind].Owner
			return owner != "" && owner != ledger.User
		})
		if len(found) == 0 {
			continue
		}
		w := &write{ctx: ctx, done: make(chan struct{}), changes: make([]ledger.Change, len(found)), deletes: true, hash: hash}
		for i, row := range found {
			w.changes[i] = p.removal(row, kinds[row.Kind])
		}
		if err := p.committer.write(ctx, w); err != nil {
			return deleted, err
		}
		p.committer.pagesOf(w, w.receipt, func(page uint32) {
			if !p.layout.owns(hash, page) {
				touched[page] = true
			}
		})
		for _, changed := range w.result.Changed {
			if changed {
				deleted++
			}
		}
	}
}

// removal returns the change that removes a row and its other side.
func (p *Pages) removal(row ledger.Row, k RowKind) ledger.Change {
	c := ledger.Change{Remove: true, Rows: []ledger.Row{row}}
	if k.Mirror != "" {
		c.Rows = append(c.Rows, ledger.Row{
			Hash: UserHash(p.storage.identity.Seed, row.Target), Owner: row.Target, Kind: k.Mirror, Target: row.Owner,
		})
	}
	return c
}
