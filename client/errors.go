package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Errors of calls match these variables with [errors.Is].
var (
	// ErrUnavailable: the call has no answer that tells whether it took effect. It may have, unless
	// the error also matches [ErrOverloaded], or has the code "not_yet".
	ErrUnavailable = errors.New("the service, or something that it needs, is unavailable")
	// ErrOverloaded: the service is overloaded, or the caller exceeds its rate. The call had no
	// effect. Such an error also matches ErrUnavailable.
	ErrOverloaded = errors.New("overloaded: request not processed, retry")
	// ErrInvalid: the request can never succeed unchanged. It had no effect.
	ErrInvalid = errors.New("invalid request")
	// ErrDenied: the token is missing, wrong, or does not allow the call.
	ErrDenied = errors.New("access denied")
	// ErrLimitReached: the user has reached the limit of the kind, Error.Limit.
	ErrLimitReached = errors.New("limit reached")
	// ErrNoLedger: the call needs a ledger, and the service runs without one.
	ErrNoLedger = errors.New("no ledger")
	// ErrForeign: the answer is not from a feedfilter service, or this version does not understand
	// it.
	ErrForeign = errors.New("unexpected answer")
)

// Error is an error answer of the service.
type Error struct {
	Status int // HTTP status; 0 for one activity of a batch or a stream
	// Code identifies the error, such as "invalid_id"; the service's /docs lists all codes. "" if
	// something else answered, such as a proxy.
	Code       string
	Message    string // for people
	Field      string // in the request, such as "posts[3].author"; "" if none
	Limit      uint32 // the limit that was reached
	RetryAfter time.Duration
	RequestID  string // the id in the service's log
}

// Error returns the status, code, field and message, without the request id.
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

// Is reports whether the error matches target, one of this package's error variables.
func (e *Error) Is(target error) bool {
	hasCode := func(codes ...string) bool { return slices.Contains(codes, e.Code) }
	switch target {
	case ErrUnavailable:
		return e.retryable() || e.Status == http.StatusInternalServerError ||
			hasCode("unavailable", "overloaded", "rate_limited", "audit_unavailable", "internal")
	case ErrOverloaded:
		return e.Status == http.StatusTooManyRequests || hasCode("overloaded", "rate_limited")
	case ErrDenied:
		return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden ||
			hasCode("unauthenticated", "forbidden")
	case ErrLimitReached:
		return hasCode("limit_reached")
	case ErrNoLedger:
		return hasCode("no_ledger")
	case ErrInvalid:
		switch e.Status {
		case http.StatusBadRequest:
			return e.Code != "" // otherwise it is no answer to the request
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			return true
		case 0: // of a single activity: some codes are not about the request
			return !hasCode(
				"limit_reached", "no_ledger", "stuck", "followed", "not_yet", "unavailable",
				"overloaded", "rate_limited", "audit_unavailable", "internal", "unauthenticated",
				"forbidden",
			)
		}
	}
	return false
}

// retryable reports whether a retry may get another answer.
//
// The service itself never answers 400 without a code. Its HTTP server does, without a look at the
// request, if an overloaded process reads only a part of the header in time.
func (e *Error) retryable() bool {
	switch e.Status {
	case http.StatusBadRequest:
		return e.Code == ""
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// lostError is the error of an attempt without a complete answer.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *lostError) Unwrap() error { return e.err }

// Is reports whether target is ErrUnavailable. It is false if the caller canceled the call.
func (e *lostError) Is(target error) bool {
	return target == ErrUnavailable && !errors.Is(e.err, context.Canceled)
}
