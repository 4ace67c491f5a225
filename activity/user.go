package activity

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// userBatch is how many rows of a user are read at a time, to be exported.
	userBatch = 1000
	// deleteBatch is how many are removed at a time. Writes of others wait for the transaction, and the page of each row may
	// have to be made anew, within pageTimeout.
	deleteBatch = 1000
)

// Export calls each for every activity of user that the ledger keeps, by kind and target, as they
// stand while it goes on; an empty user stands for all, in no particular order. What others did with the user is
// theirs, and is left out. Windows cannot be exported: nobody can tell what a
// filter holds. Errors are an [*InvalidError], an [*UnavailableError], or what each returned.
func (r *Recorder) Export(ctx context.Context, user string, each func(Activity) error) error {
	if user == "" {
		return r.exportAll(ctx, each)
	}
	if err := CheckID(user, "user"); err != nil {
		return err
	}
	hash := userHash(r.identity.Seed, user)
	var after *ledger.Item
	for {
		rows, err := r.ledger.Owned(ctx, hash, user, after, userBatch)
		if err != nil {
			return fmt.Errorf("export a user: %w", unavailable("ledger", err))
		}
		if err := r.exportRows(ctx, rows, each); err != nil {
			return err
		}
		if len(rows) < userBatch {
			return nil
		}
		last := rows[len(rows)-1]
		after = &ledger.Item{Kind: last.Kind, Target: last.Target}
	}
}

// exportAll goes from home to home, so that nobody is missed who moves meanwhile; they may be met twice.
func (r *Recorder) exportAll(ctx context.Context, each func(Activity) error) error {
	if err := r.learnHomes(ctx); err != nil {
		return fmt.Errorf("export all users: %w", unavailable("ledger", err))
	}
	var last exported
	for home := range r.identity.Pages {
		if err := r.exportHome(ctx, home, &last, each); err != nil {
			return err
		}
	}
	return nil
}

// exported is a page that several homes may have.
type exported struct {
	page, moves uint32
	rows        []ledger.Row // nil: no page
}

// exportHome looks again for users who have moved since it was learned where they are.
func (r *Recorder) exportHome(ctx context.Context, home uint32, last *exported, each func(Activity) error) error {
	for range maxMoves {
		placed := r.placements.of(home)
		if placed != nil {
			// Before the pages that are shared: who comes back to one of these is met here.
			for hash := range placed.own {
				if err := r.exportHash(ctx, hash, each); err != nil {
					return fmt.Errorf("export all users: %w", err)
				}
			}
		}
		rows, whole, err := r.sharedRows(ctx, home, placed, last)
		if err == nil && whole {
			return r.exportRows(ctx, rows, each)
		}
		if err == nil {
			err = r.learnHomes(ctx, home)
		}
		if err != nil {
			return fmt.Errorf("export all users: %w", unavailable("ledger", err))
		}
	}
	return unavailable("ledger", fmt.Errorf("export all users: those of home %d moved between pages %d times meanwhile", home, maxMoves))
}

// exportHash reads the rows of a user who has a page of their own, which may be very many, some at a time.
func (r *Recorder) exportHash(ctx context.Context, hash uint64, each func(Activity) error) error {
	for after := (*ledger.Row)(nil); ; {
		rows, err := r.ledger.OfHash(ctx, hash, after, userBatch)
		if err != nil {
			return unavailable("ledger", err)
		}
		if err := r.exportRows(ctx, rows, each); err != nil || len(rows) < userBatch {
			return err
		}
		after = &rows[len(rows)-1]
	}
}

// sharedRows returns the rows of those users of a home who have no page of their own, and whether that is all of them: none
// of the pages knows of more moves than placed.
func (r *Recorder) sharedRows(
	ctx context.Context, home uint32, placed *placement, last *exported,
) (rows []ledger.Row, whole bool, err error) {
	pages := []uint32{home}
	if placed != nil && len(placed.ranges) > 0 {
		pages = pages[:0]
		for _, rg := range placed.ranges {
			pages = append(pages, rg.Page)
		}
	}
	for _, page := range pages {
		if last.rows == nil || last.page != page || last.moves != placed.movesOf(page) {
			all, s, err := r.ledger.Snapshot(ctx, page)
			if err != nil {
				return nil, false, err
			}
			*last = exported{page: page, moves: s.Moves, rows: all}
		}
		if last.moves != placed.movesOf(page) {
			return nil, false, nil
		}
		for _, row := range last.rows {
			if r.homeOf(row.Hash) == home {
				rows = append(rows, row)
			}
		}
	}
	return rows, true, nil
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
			continue // the other side of somebody's activity, or over
		}
		if err := each(Activity{User: row.Owner, Kind: row.Kind, Target: row.Target, Since: row.Since, Until: row.Until}); err != nil {
			return err
		}
	}
	return nil
}

// DeleteUser removes every trace of user: their activities, those of others with them, from the
// ledger, the pages and the windows. Pages that held any are not changed but made anew, so that not a bit of them is
// left; what could not be made anew is behind the ledger, and nobody uses it before it has been. It returns how many activities
// were removed, also with an error: then some are left, and it may be called again, of any Recorder. What is
// recorded of the user meanwhile may stay.
//
// Windows of kinds that the Recorder does not have, or had with another length or other parts, stay until they
// end; so do those in the process of another Recorder.
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
		if want := mark.required.Load(); mark.stood.Load() < want { // making it anew failed
			if err := r.stand(ctx, page, want); err != nil {
				return deleted, fmt.Errorf("delete a user: %w", err)
			}
		}
	}
	// What was undone before has left bits as well.
	if err := r.move(ctx, hash, r.ledger.MoveIn); err != nil {
		return deleted, fmt.Errorf("delete a user: %w", err)
	}
	page := r.pageOf(hash)
	if err := r.remake(ctx, page, r.sequences.of(page).required.Load(), "user deleted"); err != nil {
		return deleted, fmt.Errorf("delete a user: %w", err)
	}
	if err := r.persist(ctx); err != nil {
		return deleted, fmt.Errorf("delete a user: %w", unavailable("pages", err))
	}
	r.outwait(r.elapsed()) // once for all transactions
	return deleted, nil
}

// ownedInTurn returns some rows of a user, and the next ones when it is called again: it does not pass those again that were removed.
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

// decided is err, but not that nothing was done, where something was.
func decided(deleted int, err error) error {
	if deleted > 0 && errors.Is(err, ErrOverloaded) {
		return unavailable("ledger", err)
	}
	return err
}

// deleteRows removes what rows returns, again and again until that is nothing, with the rows on the
// other side, and adds the pages that held any to touched.
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
			for _, of := range w.changes[i].Rows {
				touched[r.homeOf(of.Hash)] = true
				if page := r.pageOf(of.Hash); !r.ownsPage(hash, page) {
					touched[page] = true
				}
			}
		}
		if err := r.write(ctx, w); err != nil {
			return deleted, err
		}
		deleted += count(w.outcomes, Changed)
	}
}

// removal takes a row out, with the one on the other side.
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
