package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	// firstPause bounds the random pause before the second attempt; each further pause doubles it.
	firstPause = 100 * time.Millisecond
	// longPause bounds every random pause.
	longPause = 3 * time.Second

	// longestWait is the longest Retry-After that the client waits for. The caller may wait longer.
	longestWait = 30 * time.Second

	maxBudget = 10.0 // retries while no call succeeds
	refund    = 0.1  // of a retry, for each call that succeeds
)

// budget bounds the retries of all calls together.
type budget struct {
	mu   sync.Mutex
	left float64
}

// take takes one retry from the budget, and reports whether there was one.
func (b *budget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 1 {
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

// again reports whether to retry the call after err, and waits until it is time to. If the context
// would end before that, it returns false at once.
func (c *Client) again(ctx context.Context, call *call, attempt int, err error) bool {
	var answered *Error
	isAnswer := errors.As(err, &answered)
	switch {
	case ctx.Err() != nil || attempt >= c.most:
		return false
	case isAnswer && !retryable(answered.Status):
		return false
	case !isAnswer && !isLost(err):
		return false
	case call.once && !errors.Is(err, ErrOverloaded) && !unsent(err):
		return false
	case isAnswer && answered.RetryAfter > longestWait:
		return false
	case !c.budget.take():
		return false
	}
	pause := rand.N(min(firstPause<<(attempt-1), longPause)) //nolint:gosec // spreads load, guards nothing
	if isAnswer && answered.RetryAfter > 0 {
		pause = answered.RetryAfter + rand.N(firstPause) //nolint:gosec // the same
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isLost(err error) bool {
	_, lost := errors.AsType[*lostError](err)
	return lost
}

// unsent reports whether err means that no connection was made.
func unsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
