package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/internal/pause"
)

const (
	// firstPause is the mean of the pause before the second attempt. It doubles with each attempt, up
	// to longPause.
	firstPause = 50 * time.Millisecond
	longPause  = 1500 * time.Millisecond

	// longestWait is the longest Retry-After for which the client waits.
	longestWait = 30 * time.Second

	maxBudget = 10.0 // retries without a successful call
	lowBudget = 5.0  // at this or less, no call is hedged
	refund    = 0.1  // of a retry, for each successful call
)

// budget limits the retries of all calls together.
type budget struct {
	mu   sync.Mutex
	left float64
}

// take takes one retry from the budget if more than reserve is left, and reports whether it did.
func (b *budget) take(reserve float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 1 || b.left <= reserve {
		return false
	}
	b.left--
	return true
}

func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+refund, maxBudget)
}

// again reports whether to retry the call after err, and waits until then. It returns false at once
// if the context would end first.
func (c *Client) again(ctx context.Context, call *call, attempts int, err error) bool {
	if ctx.Err() != nil || attempts >= c.o.MaxAttempts || !mayHelp(err) ||
		call.once && !hadNoEffect(err) {
		return false
	}
	wait := pause.About(pause.Doubled(firstPause, longPause, attempts))
	if answered, ok := errors.AsType[*Error](err); ok && answered.RetryAfter > 0 {
		if answered.RetryAfter > longestWait {
			return false
		}
		wait = answered.RetryAfter + pause.About(firstPause)
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return false
	}
	// The budget comes last, so that only a retry costs something.
	return c.budget.take(0) && pause.Sleep(ctx, wait)
}

// mayHelp reports whether another attempt after err may have another outcome.
func mayHelp(err error) bool {
	if answered, ok := errors.AsType[*Error](err); ok {
		return answered.retryable()
	}
	_, lost := errors.AsType[*lostError](err)
	return lost
}

// hedged makes an attempt, and a second one if the first takes longer than Options.Hedge. It
// returns the first answer and cancels the other attempt. An error that a retry may change counts
// only if both attempts fail.
//
// Only reads are hedged. A feed with record_seen is a write: the later attempt drops all posts that
// the earlier one has recorded as seen, and its answer may arrive first.
func (c *Client) hedged(
	ctx context.Context, fetch func(context.Context) (answer, error),
) (a answer, attempts int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		answer answer
		err    error
	}
	outcomes := make(chan outcome, 2) // leaves room for the outcome of the canceled attempt
	start := func() {
		attempts++
		go func() {
			a, err := fetch(ctx)
			outcomes <- outcome{a, err}
		}()
	}
	start()
	late := time.After(c.o.Hedge)
	for failed := 0; ; {
		select {
		case <-late:
			if c.budget.take(lowBudget) {
				start()
			}
		case o := <-outcomes:
			if o.err == nil || !mayHelp(o.err) {
				return o.answer, attempts, o.err
			}
			failed++
			if failed == attempts {
				return answer{}, attempts, o.err
			}
		}
	}
}

// hadNoEffect reports whether err means that the service has done nothing.
func hadNoEffect(err error) bool {
	if answered, ok := errors.AsType[*Error](err); ok {
		return answered.Code == "not_yet" || errors.Is(err, ErrOverloaded)
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
