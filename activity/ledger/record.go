package ledger

import (
	"context"
	"fmt"
	"time"
)

// Record makes the changes, in order, in one transaction: all of them or
// none. When it returns without error they are durable: no crash of the
// process or of the machine undoes them.
//
// A row that is there keeps its Since when it is recorded again, and takes the
// new Until; that changes something only if the Until is another one. Removing
// a row that is not there changes nothing. A row removed and recorded again in
// the same call gets the new Since.
//
// A row whose Until is not after now has ended, and so is not there: recording
// it gives it a new Since and Until and is a change, removing it is none. Its
// page holds the key all the same: recording it anew does not alter the page,
// and a removal takes the key out.
//
// A change with a Limit counts the rows as the changes before it leave them: a
// removal makes room, an addition takes it. It is refused only for what it adds:
// not for a row that is there already, whatever its new Until, nor because a limit
// was lowered. Limits are exact, whoever else records meanwhile.
//
// An error that wraps ctx's error means that nothing was changed: ctx is
// honoured until the commit begins, and no longer. So does an error that
// names an invalid row. After any other error assume neither: a commit that
// failed can still turn out to have happened. Repeating the call is safe: it
// leads to the same rows either way.
//
// Concurrent calls that touch the same page take turns. No changes at all give
// an empty Receipt.
func (l *Ledger) Record(ctx context.Context, now time.Time, changes []Change) (receipt Receipt, err error) {
	p, err := newPlan(l.id, changes)
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: record: %w", err)
	}
	if len(changes) == 0 {
		return Receipt{}, nil
	}
	err = l.use(func() error {
		receipt, err = l.db.record(ctx, p, now)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: record %d changes: %w", len(changes), err)
	}
	return receipt, nil
}
