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
// Pools and Close ask no database, and are not such calls. Closing one of the two ledgers closes
// both.
func (l *Ledger) Around(around Around) *Ledger {
	wrapped := *l
	wrapped.around = slices.Concat(l.around, []Around{around})
	return &wrapped
}

// ask runs do while it keeps the ledger open, and returns its value. An error gets the prefix what.
// It wraps ctx's error if ctx has ended, unless a commit failed.
//
//nolint:ireturn // T is no interface
func ask[T any](
	ctx context.Context, l *Ledger, c *Call, what string, do func(ctx context.Context) (T, error),
) (T, error) {
	var value, none T
	next := func(ctx context.Context) (err error) {
		l.common.RLock()
		defer l.common.RUnlock()
		if l.common.closed {
			return fs.ErrClosed
		}
		value, err = do(ctx)
		return interrupted(ctx, err)
	}
	for _, around := range l.around {
		inner := next
		next = func(ctx context.Context) error { return around(ctx, c, inner) }
	}
	if err := next(ctx); err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return value, nil
}

// run is ask for a call that returns no value.
func run(
	ctx context.Context, l *Ledger, operation, what string, do func(ctx context.Context) error,
) error {
	c := &Call{Operation: operation}
	_, err := ask(ctx, l, c, what, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, do(ctx)
	})
	return err
}

// interrupted makes err wrap ctx's error if ctx has ended. The driver itself only reports an
// interrupted statement or a finished transaction. The error of a commit stays as it is.
func interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil // finished before ctx ended
	}
	_, undecided := errors.AsType[*undecidedError](err)
	cause := ctx.Err()
	if cause == nil || undecided || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
