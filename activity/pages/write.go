package pages

import (
	"context"
	"iter"
	"slices"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Written holds the results of changes, in their order.
type Written struct {
	Changed []bool // whether the change had an effect
	Refused []bool // whether it was refused because of its Limit
}

// write is what one caller writes. Its results may be read once done is closed.
type write struct {
	ctx     context.Context //nolint:containedctx // of the waiting caller
	changes []ledger.Change
	rows    iter.Seq[ledger.Row] // of the changes, or of those of a source
	done    chan struct{}
	// deletes is set if the user of hash is being deleted. Pages are then rebuilt instead of
	// changed, so that no bit of a removed key remains.
	deletes bool
	hash    uint64

	receipt ledger.Receipt // of the group's transaction
	result  Written
	err     error

	open   int   // number of pages not yet changed
	failed error // errors of its pages
}

func newWrite(ctx context.Context, changes []ledger.Change) *write {
	rows := rowsOf(changes, func(c *ledger.Change) []ledger.Row { return c.Rows })
	return &write{ctx: ctx, changes: changes, rows: rows, done: make(chan struct{})}
}

// rowsOf yields the rows of changes.
func rowsOf[C any](changes []C, of func(c *C) []ledger.Row) iter.Seq[ledger.Row] {
	return func(yield func(ledger.Row) bool) {
		for i := range changes {
			for _, row := range of(&changes[i]) {
				if !yield(row) {
					return
				}
			}
		}
	}
}

func (w *write) finish(err error) {
	w.err = err
	close(w.done)
}

// writes reports whether w has changes of the kind that the ledger refuses if the kind is followed.
func (w *write) writes(kind string) bool {
	return slices.ContainsFunc(w.changes, func(c ledger.Change) bool {
		return !c.Ended && len(c.Rows) > 0 && c.Rows[0].Kind == kind
	})
}
