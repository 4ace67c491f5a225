package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// circuit is one circuit breaker.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	fails   func(error) bool
	cause   atomic.Pointer[error] // the last failure
}

func newCircuit(fails func(error) bool, opened func(error), closed func()) *circuit {
	c := &circuit{fails: fails}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      guardPause*4/5 + rand.N(guardPause*2/5), //nolint:gosec // the pause may be predictable
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= guardFailures },
		IsSuccessful: func(err error) bool { return !fails(err) },
		IsExcluded:   saysNothing,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				closed()
			case from == gobreaker.StateClosed:
				opened(c.lastFailure())
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

// isFailure reports whether err is a failure of the node, as opposed to an answer.
func isFailure(err error) bool {
	return err != nil && (!isReplyItself(err) || shutOut(err))
}

// isReplyItself reports whether err is one reply of the node, and not an error that joins several
// replies. If no Sentinel knows the primary, the error wraps the replies of all Sentinels.
func isReplyItself(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(redis.Error); ok { //nolint:errorlint // errors.As looks into joined errors
			return true
		}
	}
	return false
}

// shutOut reports whether err means that the node accepts no command at all from this client.
func shutOut(err error) bool {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	for _, prefix := range [...]string{"WRONGPASS ", "NOAUTH ", "ERR max number of clients "} {
		if strings.HasPrefix(reply.Error(), prefix) {
			return true
		}
	}
	return false
}

// isRefusal reports whether a node answers every command of the same kind with err while its state
// lasts, and whether clients resend commands after err.
func isRefusal(err error) bool {
	if redis.HasErrorPrefix(err, unserved) {
		return false // the node serves other slots
	}
	for _, prefix := range [...]string{
		"LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ",
	} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return inScript(err, "READONLY ") || inScript(err, "NOREPLICAS ")
}

// inScript reports whether err is an error with that prefix from a command in a script, in the form
// that versions before 7 report it.
func inScript(err error, prefix string) bool {
	if !isReply(err) {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, "ERR Error running script ") && strings.Contains(text, ": -"+prefix)
}

// saysNothing reports whether err leaves it open whether the node works.
func saysNothing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}
