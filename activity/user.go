package activity

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// exportBatch is the number of rows that an export reads at a time.
const exportBatch = 1000

// Export calls each for every activity of user that the ledger keeps, in the order of kind and
// target. An empty user stands for all users, in order of a hash. Export reads the ledger in parts,
// not as one snapshot.
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
	hash := r.userHash(user)
	return r.exportInParts(ctx, each, func(last *ledger.Row) ([]ledger.Row, error) {
		return r.ledger.Owned(ctx, hash, user, last, exportBatch)
	})
}

// exportInParts exports the rows that read returns, until it returns few.
func (r *Recorder) exportInParts(
	ctx context.Context, each func(Activity) error, read func(last *ledger.Row) ([]ledger.Row, error),
) error {
	for last := (*ledger.Row)(nil); ; {
		rows, err := ask(r, func() ([]ledger.Row, error) { return read(last) })
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if last, err = r.exportRows(ctx, rows, each); err != nil || len(rows) < exportBatch {
			return err
		}
	}
}

// exportRows exports some rows, and returns the row after which the next ones are read.
func (r *Recorder) exportRows(
	ctx context.Context, rows []ledger.Row, each func(Activity) error,
) (last *ledger.Row, err error) {
	kinds, err := r.pages.RowKinds(ctx, rows)
	if err != nil {
		return nil, fmt.Errorf("export: %w", pages.Unavailable("ledger", err))
	}
	now, mirrored := r.pages.Now(), false
	for i := range rows {
		row := &rows[i]
		last = row
		k := kinds[row.Kind]
		mirrored = k.Of != "" && k.Of != row.Kind
		ended := !row.Until.IsZero() && !row.Until.After(now)
		if mirrored || ended {
			continue
		}
		a := Activity{
			User:   row.Owner,
			Kind:   row.Kind,
			Target: row.Target,
			Since:  row.Since,
			Until:  row.Until,
		}
		if err := each(a); err != nil {
			return nil, err
		}
	}
	if mirrored { // hundreds of thousands of others may have the activity with the owner
		after := ledger.AfterKind(last.Kind)
		after.Hash, after.Owner = last.Hash, last.Owner
		last = after
	}
	return last, nil
}

// DeleteUser removes every trace of user from the ledger, the pages and the windows: the user's
// activities, and those of others with the user. It rebuilds each page that held any, so that not a
// bit of them remains. A page that could not be rebuilt is stale, and is not used before a rebuild.
//
// DeleteUser returns the number of activities removed, also with an error, and the kinds whose
// activities it left, because a source alone writes them. After an error some are left: call
// DeleteUser again, of any Recorder. Activities recorded with the user meanwhile may stay.
//
// Windows of kinds that this Recorder does not have stay until they end.
func (r *Recorder) DeleteUser(
	ctx context.Context, user string,
) (deleted int, left []string, err error) {
	if err := CheckID(user, "user"); err != nil {
		return 0, nil, err
	}
	deleted, left, err = r.pages.DeleteUser(ctx, user)
	for _, windows := range r.windows {
		if err == nil {
			err = pages.Unavailable("pages", windows.Forget(ctx, user))
		}
	}
	if err == nil {
		err = pages.Unavailable("pages", r.persist(ctx))
	}
	if err != nil {
		return deleted, nil, fmt.Errorf("delete a user: %w", err)
	}
	return deleted, left, nil
}
