package redisstore

import (
	"log/slog"
	"math/rand/v2"
	"sync/atomic"

	"github.com/sony/gobreaker/v2"
)

// circuit is one circuit breaker.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	fails   func(error) bool
	cause   atomic.Pointer[error] // the last failure
}

// newCircuit returns a closed circuit breaker. It logs one message when it opens, and the other
// when it closes.
func newCircuit(log *slog.Logger, fails func(error) bool, opened, closed string) *circuit {
	c := &circuit{fails: fails}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      guardPause*4/5 + rand.N(guardPause*2/5), //nolint:gosec // the pause may be predictable
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= guardFailures },
		IsSuccessful: func(err error) bool { return !fails(err) },
		IsExcluded:   saysNothing,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				log.Info(closed) //nolint:sloglint // a constant of newGuard
			case from == gobreaker.StateClosed:
				log.Warn(opened, "error", c.lastFailure()) //nolint:sloglint // a constant of newGuard
			}
		},
	})
	return c
}

func (c *circuit) isOpen() bool { return c.breaker.State() != gobreaker.StateClosed }

// done records the outcome of a command, and reports whether it was a failure.
func (c *circuit) done(tell func(error), err error) bool {
	failed := c.fails(err) && !saysNothing(err)
	if failed {
		c.cause.Store(&err)
	}
	tell(err)
	return failed
}

func (c *circuit) lastFailure() error {
	if cause := c.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}
