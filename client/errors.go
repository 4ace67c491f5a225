package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// What errors of calls match, by [errors.Is].
var (
	// ErrUnavailable: there was no answer that says whether the call took effect. It may have, but for those of [ErrOverloaded].
	ErrUnavailable = errors.New("the service does not answer, or needs something that is down")
	// ErrOverloaded: the service has too much to do, or the caller asks too often; nothing was done. It is an ErrUnavailable, too.
	ErrOverloaded = errors.New("too much to do")
	// ErrInvalid: the request can never succeed as it is. Nothing was changed.
	ErrInvalid = errors.New("invalid request")
	// ErrDenied: the token is missing, wrong, or does not allow the call.
	ErrDenied = errors.New("access denied")
	// ErrLimitReached: the user has as many activities of the kind as there may be, Error.Limit.
	ErrLimitReached = errors.New("limit reached")
	// ErrNoLedger: the call needs a ledger, and the service runs without.
	ErrNoLedger = errors.New("no ledger")
	// ErrForeign: what answers is no feedfilter service, or says what this version does not understand.
	ErrForeign = errors.New("not as feedfilter does")
)

// Error is an error that the service answered.
type Error struct {
	Status     int    // of HTTP; 0 for that of a single activity in a batch or stream
	Code       string // such as "invalid_id": see the service's /docs; "" if what answered is a proxy on the way
	Message    string // for people
	Field      string // where in the request, such as "posts[3].author"; "" where there is none
	Limit      uint32 // that was reached
	RetryAfter time.Duration
	RequestID  string // by which the service's log names the request
}

// Error says all there is but the request's id.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Status != 0 {
		fmt.Fprintf(&b, "%d ", e.Status)
	}
	if e.Code != "" {
		b.WriteString(e.Code + ": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Message
}

// Is reports whether the error is of the sort of one of this package's.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return retryable(e.Status) || e.Status == http.StatusInternalServerError || e.Code == "unavailable" ||
			e.Code == "overloaded" || e.Code == "audit_unavailable"
	case ErrOverloaded:
		return e.Status == http.StatusTooManyRequests || e.Code == "overloaded"
	case ErrDenied:
		return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
	case ErrLimitReached:
		return e.Code == "limit_reached"
	case ErrNoLedger:
		return e.Code == "no_ledger"
	case ErrInvalid:
		switch e.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			return true
		}
		switch e.Code { // of an activity in a batch, or a stream, what is not about the request itself
		case "limit_reached", "no_ledger", "stuck", "unavailable", "overloaded", "audit_unavailable", "internal":
			return false
		}
		return e.Status == 0
	default:
		return false
	}
}

// retryable reports whether an answer of the status may be another the next time.
func retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// lostError is that of an attempt without a whole answer.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }

// Unwrap returns what went wrong.
func (e *lostError) Unwrap() error { return e.err }

// Is reports whether target is ErrUnavailable, unless the caller gave up.
func (e *lostError) Is(target error) bool {
	return target == ErrUnavailable && !errors.Is(e.err, context.Canceled)
}
