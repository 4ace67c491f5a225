package ledger

import (
	"context"
	"fmt"
	"time"
)

// Record applies the changes, in order, in one transaction: all of them or none. When Record
// returns without error, the changes are durable. They survive a crash of the process or the
// machine.
//
// A row that exists keeps its Since when it is recorded again, and takes the new Until. This is
// a change only if the Until differs. Removing a row that does not exist is a no-op. A row that
// one call removes and records again gets the new Since.
//
// A row whose Until is not after now has ended, and counts as absent. Recording it gives it a
// new Since and Until, and is a change. Removing it is not a change. The page still holds the
// key of an ended row. So recording the row again does not alter the page, while removing it
// takes the key out.
//
// A change with a Limit counts the rows that the changes before it leave. A removal makes room,
// an addition takes it. Record refuses a change only for rows that it adds. It never refuses a
// row that exists, whatever its new Until, even after a limit was lowered. Limits are exact,
// also with concurrent writers.
//
// An error that wraps ctx's error, or that names an invalid row, means that nothing changed.
// Record observes ctx until the commit begins, and not during the commit. After any other error
// the changes may or may not have happened. Repeat the call: repeating is safe, and leads to the
// same rows in both cases.
//
// Concurrent calls that touch the same page run one after another. A call without changes
// returns an empty Receipt.
func (l *Ledger) Record(ctx context.Context, now time.Time, changes []Change) (Receipt, error) {
	if len(changes) == 0 {
		return Receipt{}, nil
	}
	what := fmt.Sprintf("ledger: record %d changes", len(changes))
	return ask(ctx, l, &Call{Operation: "record"}, what, func(ctx context.Context) (Receipt, error) {
		p, err := newPlan(l.id, changes)
		if err != nil {
			return Receipt{}, err
		}
		return record(ctx, l.db, p, now)
	})
}
