package known

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/admission"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
	"github.com/feedfilter/feedfilter/internal/pause"
)

var (
	errUnread      = errors.New("it did not answer the last poll")
	errUnreachable = errors.New("it cannot be reached")
	errSlow        = fmt.Errorf("no answer within %v, although it answers pings", QuestionTimeout)
)

// ask reads something small from the ledger for a reader, within QuestionTimeout. The error is
//
//   - errUnreachable if the ledger cannot be reached. The next readers do not ask; the next poll
//     tries again.
//   - [ErrOverloaded] if too many requests wait for the ledger,
//   - an [*UnavailableError] if the ledger answers pings, but not the question, asked twice if it
//     failed,
//   - lifecycle.ErrClosed, that of ctx, or one that wraps ledger.ErrGone.
//
//nolint:ireturn // T is no interface
func ask[T any](
	ctx context.Context, k *Ledger, read func(ctx context.Context) (T, error),
) (value T, err error) {
	if k.life.IsClosed() {
		return value, lifecycle.ErrClosed
	}
	resume, ok := admission.PauseForLedger(ctx)
	if !ok {
		return value, fmt.Errorf("%w: too many requests wait for the ledger", ErrOverloaded)
	}
	defer resume()
	err = pause.Within(ctx, QuestionTimeout, func(limited context.Context) error {
		value, err = question(ctx, limited, k, read)
		return err
	})
	return value, err
}

// question is a try of ask within the time of limited, whose parent is ctx.
//
//nolint:ireturn // T is no interface
func question[T any](
	ctx, limited context.Context, k *Ledger, read func(ctx context.Context) (T, error),
) (value T, err error) {
	pinged, stop := k.available.pinged(limited)
	defer stop()
	for range 2 { // a ledger that restarts refuses a question, and may answer the next one
		value, err = read(pinged)
		switch {
		case err == nil || errors.Is(err, ledger.ErrGone):
			k.available.hear()
			return value, err
		case ctx.Err() != nil:
			return value, ctx.Err()
		}
		// A process that was starved may not have pinged a ledger that hangs before the time was up.
		if errors.Is(context.Cause(pinged), errUnreachable) || k.available.lost(ctx, err) {
			return value, errUnreachable
		}
		if limited.Err() != nil {
			return value, Unavailable("ledger", errSlow)
		}
	}
	return value, Unavailable("ledger", err)
}

// WhileReachable calls read, which reads more from the ledger than a question does. Its context
// ends if the ledger cannot be reached: a ledger that hangs is then like one that refuses.
func (k *Ledger) WhileReachable(ctx context.Context, read func(ctx context.Context) error) error {
	pinged, stop := k.available.pinged(ctx)
	defer stop()
	err := read(pinged)
	switch {
	case err == nil || errors.Is(err, ledger.ErrGone):
		k.available.hear()
	case errors.Is(context.Cause(pinged), errUnreachable):
		return errUnreachable
	}
	return err
}

// Ahead reports whether a page has a sequence that the ledger never had, as after a restore of the
// ledger from a backup. If the ledger cannot be reached, the page counts as valid. Errors are those
// of [Ledger.KeepUp].
func (k *Ledger) Ahead(ctx context.Context, page uint32, sequence uint64) (bool, error) {
	if !k.Above(page, sequence) {
		return false, nil
	}
	if k.Access() == Unreachable {
		return false, nil // feeds do not wait for it
	}
	known, err := ask(ctx, k, func(ctx context.Context) (uint64, error) {
		return k.ledger.Sequence(ctx, page)
	})
	switch {
	case errors.Is(err, errUnreachable):
		return false, nil
	case errors.Is(err, ledger.ErrGone):
		// Later writes close the page of a layout that is gone, so an open one has all writes.
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for the sequence of page %d: %w", page, err)
	}
	k.sequences.Of(page).Learn(known)
	return sequence > known, nil
}
