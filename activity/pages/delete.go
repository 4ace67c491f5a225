package pages

import (
	"context"
	"errors"
	"maps"
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
// DeleteUser returns the number of changes, also with an error, and the followed kinds of rows that
// are left to their source. After an error some rows may be left: call DeleteUser again, in any
// process. Rows that are written during the call may stay.
func (p *Pages) DeleteUser(
	ctx context.Context, user string,
) (deleted int, left []string, err error) {
	hash := UserHash(p.storage.identity.Seed, user)
	touched, followed := make(map[uint32]bool), make(map[string]bool)
	for _, read := range []rowReader{{p.ledger.Owned, true}, {p.ledger.Naming, false}} {
		n, err := p.deleteRows(ctx, hash, user, read, touched, followed)
		if deleted += n; err != nil {
			return deleted, nil, decided(deleted, err)
		}
	}
	left = slices.Sorted(maps.Keys(followed))
	return deleted, left, p.deleteBits(ctx, hash, touched)
}

// deleteBits rebuilds the pages of a deleted user, and the touched pages of others, unless a write
// has.
func (p *Pages) deleteBits(ctx context.Context, hash uint64, touched map[uint32]bool) error {
	for page := range touched {
		mark := p.sequences.Of(page)
		// The rebuild after an earlier transaction failed.
		if want := mark.Required.Load(); mark.Stored.Load() < want {
			if err := p.applier.ensure(ctx, page, want); err != nil {
				return err
			}
		}
	}
	// Activities that were undone earlier may have left bits, too.
	if err := p.applier.release(ctx, hash); err != nil {
		return err
	}
	place, err := p.ledger.Place(ctx, hash) // this process may not have heard of a new layout
	if err != nil {
		return Unavailable("ledger", err)
	}
	return p.rebuilder.remake(ctx, place.Page, place.Sequence, "user deleted")
}

// decided returns err. If some rows are deleted already, it turns ErrOverloaded into an
// [*UnavailableError], because ErrOverloaded says that nothing was changed.
func decided(deleted int, err error) error {
	if deleted > 0 && errors.Is(err, ErrOverloaded) {
		return &UnavailableError{Dependency: "ledger", Err: err}
	}
	return err
}

// rowReader reads rows of a user.
type rowReader struct {
	// read is [ledger.Ledger.Owned], or a method like it.
	read func(
		ctx context.Context, hash uint64, user string, after *ledger.Row, limit int,
	) ([]ledger.Row, error)
	byKind bool // rows are in order of kind
}

// deleteRows calls read until it returns none, with the last row before. It removes the returned
// rows and their other sides, and adds the pages that held them to touched. It leaves rows that a
// source alone may remove, and adds their kinds to followed.
func (p *Pages) deleteRows(
	ctx context.Context, hash uint64, user string, from rowReader,
	touched map[uint32]bool, followed map[string]bool,
) (deleted int, err error) {
	var after *ledger.Row
	for {
		found, err := from.read(ctx, hash, user, after, deleteBatch)
		if err != nil {
			return deleted, Unavailable("ledger", err)
		}
		if len(found) == 0 {
			return deleted, nil
		}
		after = new(found[len(found)-1])
		if err := p.rebuilder.learnKinds(ctx); err != nil { // a kind may be followed since
			return deleted, Unavailable("ledger", err)
		}
		kinds := *p.rebuilder.declared.Load()
		if from.byKind && kinds[after.Kind].stays(followed) {
			after = ledger.AfterKind(after.Kind) // there may be hundreds of thousands of such rows
		}
		found = slices.DeleteFunc(found, func(row ledger.Row) bool {
			return kinds[row.Kind].stays(followed)
		})
		if len(found) == 0 {
			continue
		}
		changes := make([]ledger.Change, len(found))
		for i, row := range found {
			changes[i] = p.removal(row, kinds[row.Kind])
		}
		w := newWrite(ctx, changes)
		w.deletes, w.hash = true, hash
		if err := p.committer.write(ctx, w); err != nil {
			return deleted, err
		}
		p.committer.pagesOf(w, w.receipt, func(page uint32) {
			if !p.layout.Owns(hash, page) {
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

// stays reports whether rows of the kind are not deleted with the user. A source alone writes it:
// then it is added to followed. Or others did that with a domain or a tag of the same id.
func (k RowKind) stays(followed map[string]bool) bool {
	if k.Owner != "" && k.Owner != ledger.User {
		return true
	}
	if k.Followed {
		followed[k.Of] = true
	}
	return k.Followed
}

// removal returns the change that removes a row and its other side.
func (p *Pages) removal(row ledger.Row, k RowKind) ledger.Change {
	c := ledger.Change{Remove: true, Rows: []ledger.Row{row}}
	if k.Mirror != "" {
		other := RowKind{Owner: k.Target, Phrases: k.Phrases}
		c.Rows = append(c.Rows, ledger.Row{
			Hash:   other.OwnerHash(p.storage.identity.Seed, row.Target),
			Owner:  row.Target,
			Kind:   k.Mirror,
			Target: row.Owner,
		})
	}
	return c
}
