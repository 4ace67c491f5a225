package activity

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// userBatch is the number of a user's rows that an export reads at a time.
	userBatch = 1000
	// deleteBatch is the number of rows removed at a time. Other writes wait for the transaction,
	// and the page of each row may have to be rebuilt, within pageTimeout.
	deleteBatch = 1000
)

// Export calls each for every activity of user that the ledger keeps, in the order of kind and
// target. An empty user stands for all users, in no particular order; a user who moves between
// pages meanwhile may be met twice. Export reads the ledger in parts, not as one snapshot.
//
// Activities of others with the user belong to the others, and are left out. Windows cannot be
// exported, because a filter cannot list its keys. Errors are an [*InvalidError], an
// [*UnavailableError], or what each returned.
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

// exportAll goes from home page to home page. So it misses no user who moves meanwhile, but may
// meet one twice.
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

// exported is a page that several homes may share.
type exported struct {
	page, moves uint32
	rows        []ledger.Row // nil: no page
}

// exportHome exports the users of one home. It starts again if users moved since their pages were
// read from the ledger.
func (r *Recorder) exportHome(ctx context.Context, home uint32, last *exported, each func(Activity) error) error {
	for range maxMoves {
		placed := r.placements.of(home)
		if placed != nil {
			// Before the shared pages: a user who moves back to one of these is met here.
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

// exportHash reads the rows of a user with a dedicated page. These may be very many, so it reads
// them in parts.
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

// sharedRows returns the rows of a home's users who have no dedicated page. whole reports whether
// these are all: no page knows of more moves than placed.
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
