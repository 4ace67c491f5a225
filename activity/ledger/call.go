package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Call is a call of a method of [Ledger] that asks the database.
type Call struct {
	Operation string // the method in snake case: "record", "each_row", ...
	Page      uint32 // the page that is read, if it is one

	// Since and Each are the arguments of Changed. An Around may replace them.
	Since Cursor
	Each  func(page uint32, s PageState) error
}

// Around is called in place of a call. It goes on with next, and may measure that, or fail before
// or after it. If it returns an error, the method returns that error, with context. Calls of one
// ledger run concurrently.
type Around func(ctx context.Context, c *Call, next func(ctx context.Context) error) error

// Around returns the same ledger, with around in place of each call. The methods Identity, Shared,
// Prepare, Pools and Close ask no database, and are not such calls. Closing one of the two ledgers
// closes both.
func (l *Ledger) Around(around Around) *Ledger {
	wrapped := *l
	wrapped.around = slices.Concat(l.around, []Around{around})
	return &wrapped
}

// call runs do while it keeps the ledger open.
func (l *Ledger) call(ctx context.Context, c *Call, do func(ctx context.Context) error) error {
	next := func(ctx context.Context) error {
		l.using.RLock()
		defer l.using.RUnlock()
		if l.using.closed {
			return fs.ErrClosed
		}
		return do(ctx)
	}
	for _, around := range l.around {
		inner := next
		next = func(ctx context.Context) error { return around(ctx, c, inner) }
	}
	return next(ctx)
}

// read is call for reads, and for changes that callers repeat even after an error that wraps ctx's.
func (l *Ledger) read(ctx context.Context, c *Call, do func(ctx context.Context) error) error {
	return l.call(ctx, c, func(ctx context.Context) error { return interrupted(ctx, do(ctx)) })
}

// ask is read for a call that returns a value. what completes an error's text.
//
//nolint:ireturn // T is no interface
func ask[T any](ctx context.Context, l *Ledger, c *Call, what string, do func(ctx context.Context) (T, error)) (T, error) {
	var value, none T
	err := l.read(ctx, c, func(ctx context.Context) (err error) {
		value, err = do(ctx)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("ledger: %s: %w", what, err)
	}
	return value, nil
}

// change is call for a call that returns a Receipt. what completes an error's text.
func (l *Ledger) change(
	ctx context.Context, operation, what string, do func(ctx context.Context) (Receipt, error),
) (receipt Receipt, err error) {
	err = l.call(ctx, &Call{Operation: operation}, func(ctx context.Context) error {
		receipt, err = do(ctx)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: %s: %w", what, err)
	}
	return receipt, nil
}

// interrupted makes err wrap ctx's error if ctx has ended. The driver itself only reports an
// interrupted statement or a finished transaction.
func interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil // finished before ctx ended
	}
	cause := ctx.Err()
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
