package activity

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// exportBatch is the number of rows that an export reads at a time.
	exportBatch = 1000
	// deleteBatch is the number of rows removed at a time. Other writes wait for the transaction,
	// and the page of each row may have to be rebuilt, within pageTimeout.
	deleteBatch = 1000
)

// Export calls each for every activity of user that the ledger keeps, in the order of kind and
// target. An empty user stands for all users, in no particular order. Export reads the ledger in
// parts, not as one snapshot.
//
// Activities of others with the user belong to the others, and are left out. Windows cannot be
// exported, because a filter cannot list its keys. Errors are an [*InvalidError], an
// [*UnavailableError], or what each returned.
func (r *Recorder) Export(ctx context.Context, user string, each func(Activity) error) error {
	if user == "" {
		return r.exportInParts(ctx, each, func(last *ledger.Row) ([]ledger.Row, error) {
			return r.ledger.All(ctx, last, exportBatch)
		})
	}
	if err := CheckID(user, "user"); err != nil {
		return err
	}
	hash := userHash(r.identity.Seed, user)
	return r.exportInParts(ctx, each, func(last *ledger.Row) ([]ledger.Row, error) {
		var after *ledger.Item
		if last != nil {
			after = &ledger.Item{Kind: last.Kind, Target: last.Target}
		}
		return r.ledger.Owned(ctx, hash, user, after, exportBatch)
	})
}

// exportInParts exports the rows that read returns, until it returns few.
func (r *Recorder) exportInParts(
	ctx context.Context, each func(Activity) error, read func(last *ledger.Row) ([]ledger.Row, error),
) error {
	for last := (*ledger.Row)(nil); ; {
		rows, err := read(last)
		if err != nil {
			return fmt.Errorf("export: %w", unavailable("ledger", err))
		}
		if err := r.exportRows(ctx, rows, each); err != nil || len(rows) < exportBatch {
			return err
		}
		last = &rows[len(rows)-1]
	}
}

func (r *Recorder) exportRows(ctx context.Context, rows []ledger.Row, each func(Activity) error) error {
	kinds, err := r.rowKinds(ctx, rows)
	if err != nil {
		return fmt.Errorf("export: %w", unavailable("ledger", err))
	}
	now := r.now()
	for _, row := range rows {
		k := kinds[row.Kind]
		if k.of != "" && k.of != row.Kind || !row.Until.IsZero() && !row.Until.After(now) {
			continue // the other side of an activity, or ended
		}
		if err := each(Activity{User: row.Owner, Kind: row.Kind, Target: row.Target, Since: row.Since, Until: row.Until}); err != nil {
			return err
		}
	}
	return nil
}

// DeleteUser removes every trace of user from the ledger, the pages and the windows: the user's
// activities, and those of others with the user. It rebuilds each page that held any, so that not a
// bit of them remains. A page that could not be rebuilt is stale, and is not used before a rebuild.
//
// DeleteUser returns the number of activities removed, also with an error. After an error some are
// left: call DeleteUser again, of any Recorder. Activities recorded with the user meanwhile may
// stay.
//
// Some windows stay until they end: those cached in the process of another Recorder, and those of
// kinds that this Recorder does not have, or had with another length or number of parts.
func (r *Recorder) DeleteUser(ctx context.Context, user string) (deleted int, err error) {
	if err := CheckID(user, "user"); err != nil {
		return 0, err
	}
	hash := userHash(r.identity.Seed, user)
	touched := make(map[uint32]bool)
	for _, rows := range []func() ([]ledger.Row, error){
		r.ownedInTurn(ctx, hash, user),
		func() ([]ledger.Row, error) { return r.ledger.Naming(ctx, hash, user, deleteBatch) },
	} {
		n, err := r.deleteRows(ctx, hash, rows, touched)
		if deleted += n; err != nil {
			return deleted, fmt.Errorf("delete a user: %w", decided(deleted, err))
		}
	}
	if err := r.seen.Forget(ctx, hash, r.now()); err != nil {
		return deleted, fmt.Errorf("delete a user: %w", unavailable("pages", err))
	}
	for page := range touched {
		mark := r.sequences.of(page)
		// The rebuild failed.
		if want := mark.required.Load(); mark.stood.Load() < want {
			if err := r.stand(ctx, page, want); err != nil {
				return deleted, fmt.Errorf("delete a user: %w", err)
			}
		}
	}
	// Activities that were undone earlier have left bits as well.
	if err := r.release(ctx, hash); err != nil {
		return deleted, fmt.Errorf("delete a user: %w", err)
	}
	place, err := r.ledger.Place(ctx, hash) // this process may not have heard of another layout
	if err != nil {
		return deleted, fmt.Errorf("delete a user: %w", unavailable("ledger", err))
	}
	if err := r.remake(ctx, place.Page, place.Sequence, "user deleted"); err != nil {
		return deleted, fmt.Errorf("delete a user: %w", err)
	}
	if err := r.persist(ctx); err != nil {
		return deleted, fmt.Errorf("delete a user: %w", unavailable("pages", err))
	}
	r.outwait(r.elapsed()) // once for all transactions
	return deleted, nil
}

// ownedInTurn returns a function that returns the next rows of a user on each call. It does not go
// through removed rows again.
func (r *Recorder) ownedInTurn(ctx context.Context, hash uint64, user string) func() ([]ledger.Row, error) {
	var after *ledger.Item
	return func() ([]ledger.Row, error) {
		rows, err := r.ledger.Owned(ctx, hash, user, after, deleteBatch)
		if n := len(rows); n > 0 {
			after = &ledger.Item{Kind: rows[n-1].Kind, Target: rows[n-1].Target}
		}
		return rows, err
	}
}

// decided returns err. If some rows were deleted already, an ErrOverloaded becomes an
// [*UnavailableError], because the former says that nothing was changed.
func decided(deleted int, err error) error {
	if deleted > 0 && errors.Is(err, ErrOverloaded) {
		return unavailable("ledger", err)
	}
	return err
}

// deleteRows calls rows until it returns none, and removes what it returned, with the rows on the
// other side. It adds the pages that held any to touched.
func (r *Recorder) deleteRows(
	ctx context.Context, hash uint64, rows func() ([]ledger.Row, error), touched map[uint32]bool,
) (deleted int, err error) {
	for {
		found, err := rows()
		if err != nil {
			return deleted, unavailable("ledger", err)
		}
		if len(found) == 0 {
			return deleted, nil
		}
		kinds, err := r.rowKinds(ctx, found)
		if err != nil {
			return deleted, unavailable("ledger", err)
		}
		w := &write{ctx: ctx, done: make(chan struct{}), changes: make([]ledger.Change, len(found)), deletes: true, hash: hash}
		for i, row := range found {
			w.changes[i] = r.removal(row, kinds[row.Kind])
		}
		if err := r.write(ctx, w); err != nil {
			return deleted, err
		}
		r.pagesOf(w, w.receipt, func(page uint32) {
			if !r.layout.owns(hash, page) {
				touched[page] = true
			}
		})
		deleted += count(w.outcomes, Changed)
	}
}

// removal returns the change that removes a row and the one on the other side.
func (r *Recorder) removal(row ledger.Row, k rowKind) ledger.Change {
	c := ledger.Change{Remove: true, Rows: []ledger.Row{row}}
	if k.mirror != "" {
		c.Rows = append(c.Rows, ledger.Row{
			Hash: userHash(r.identity.Seed, row.Target), Owner: row.Target, Kind: k.mirror, Target: row.Owner,
		})
	}
	return c
}

func count(outcomes []Outcome, of Outcome) (n int) {
	for _, o := range outcomes {
		if o == of {
			n++
		}
	}
	return n
}
