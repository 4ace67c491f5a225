package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// Codes of errors, in addition to those of [activity.InvalidError].
const (
	codeMalformedJSON        = "malformed_json"
	codeUnknownField         = "unknown_field"
	codeDuplicateKey         = "duplicate_key"
	codeInvalidType          = "invalid_type"
	codeMissingField         = "missing_field"
	codeUnknownOp            = "unknown_op"
	codeUnexpectedBody       = "unexpected_body"
	codeUnreadableBody       = "unreadable_body"
	codeMalformedQuery       = "malformed_query"
	codeUnknownParameter     = "unknown_parameter"
	codeRepeatedParameter    = "repeated_parameter"
	codeUnsupportedMediaType = "unsupported_media_type"
	codeTooLarge             = "too_large"
	codeTimeout              = "timeout"
	codeNotFound             = "not_found"
	codeMethodNotAllowed     = "method_not_allowed"
	codeOverloaded           = "overloaded"
	codeUnavailable          = "unavailable"
	codeLimitReached         = "limit_reached"
	codeStuck                = "stuck"
	codeInternal             = "internal"
	codeUnauthenticated      = "unauthenticated"
	codeForbidden            = "forbidden"
	codeCrossOrigin          = "cross_origin"
	codeMisdirected          = "misdirected"
	codeRateLimited          = "rate_limited"
	codeAuditUnavailable     = "audit_unavailable"
	codeMalformedMessage     = "malformed_message"
	codeDeadlineExceeded     = "deadline_exceeded"
)

// statusGone stands in logs for a request whose client left before the answer. It is never sent.
const statusGone = 499

// errGone is wrapped by errors of reading from, or writing to, a client that left or stalled.
var errGone = errors.New("the client went away")

// errDeadline is wrapped by errors of calls that ended at the client's deadline.
var errDeadline = errors.New("the client's deadline has passed")

// problem is an error in the form of the API.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitzero"`
	Limit   uint32 `json:"limit,omitzero"` // the limit that was reached
}

// errStuck is the error of an activity that cannot be undone.
var errStuck = errors.New("cannot be undone without a ledger: all bits of its key are shared with other keys")

// limitError is the error of a user who has reached the limit of a kind.
type limitError struct{ kind activity.Kind }

func (e *limitError) Error() string {
	return fmt.Sprintf("limit of %d %s reached", e.kind.Limit, e.kind.Plural)
}

// errorAnswer is the body of every error.
type errorAnswer struct {
	Error problem `json:"error"`
}

// status returns the HTTP status of the code. It is the only such table.
func (p problem) status() int {
	switch p.Code {
	case codeUnauthenticated:
		return http.StatusUnauthorized
	case codeForbidden, codeCrossOrigin:
		return http.StatusForbidden
	case codeMisdirected:
		return http.StatusMisdirectedRequest
	case codeRateLimited:
		return http.StatusTooManyRequests
	case codeNotFound:
		return http.StatusNotFound
	case codeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case activity.CodeNoLedger:
		return http.StatusNotImplemented
	case codeLimitReached, codeStuck:
		return http.StatusConflict
	case codeTimeout:
		return http.StatusRequestTimeout
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeUnsupportedMediaType:
		return http.StatusUnsupportedMediaType
	case activity.CodeUnknownKind, activity.CodeUnknownFacet, activity.CodeSelfBlock, activity.CodeUnsupportedOp,
		activity.CodeWrongEffect, activity.CodeTooManyPages, activity.CodeTooManyIDs, codeUnknownOp:
		return http.StatusUnprocessableEntity
	case codeUnavailable, codeOverloaded, codeAuditUnavailable:
		return http.StatusServiceUnavailable
	case codeDeadlineExceeded:
		return http.StatusGatewayTimeout
	case codeInternal:
		return http.StatusInternalServerError
	default: // malformed, or out of range
		return http.StatusBadRequest
	}
}

// refuse returns the error of a request that can never succeed.
func refuse(code, field, message string) error {
	return &activity.InvalidError{Code: code, Field: field, Message: message}
}

// describe returns what the client may know about an error: every detail of the request, and
// nothing internal.
func describe(err error) problem {
	if errors.Is(err, errDeadline) {
		return problem{Code: codeDeadlineExceeded, Message: errDeadline.Error()}
	}
	if invalid, ok := errors.AsType[*activity.InvalidError](err); ok {
		return problem{Code: invalid.Code, Message: clip(invalid.Message, maxMessage), Field: clip(invalid.Field, maxField)}
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.problem
	}
	if full, ok := errors.AsType[*limitError](err); ok {
		return problem{Code: codeLimitReached, Message: full.Error(), Limit: full.kind.Limit}
	}
	if without, ok := errors.AsType[*activity.NoLedgerError](err); ok {
		return problem{Code: activity.CodeNoLedger, Message: without.Error()}
	}
	if down, ok := errors.AsType[*activity.UnavailableError](err); ok {
		return problem{Code: codeUnavailable, Message: "unavailable: " + down.Dependency}
	}
	if route, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch route.Code {
		case http.StatusNotFound:
			return problem{Code: codeNotFound, Message: "no such path"}
		case http.StatusMethodNotAllowed:
			return problem{Code: codeMethodNotAllowed, Message: "method not allowed on this path; see the Allow header"}
		}
	}
	switch {
	case errors.Is(err, pages.ErrNoPage):
		return problem{Code: codeNotFound, Message: "there is no such page"}
	case errors.Is(err, errStuck):
		return problem{Code: codeStuck, Message: errStuck.Error()}
	case errors.Is(err, activity.ErrOverloaded):
		return problem{Code: codeOverloaded, Message: "overloaded: request not processed, retry"}
	case errors.Is(err, activity.ErrClosed):
		return problem{Code: codeUnavailable, Message: "the service is shutting down"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problem{Code: codeUnavailable, Message: "timed out: not answered in time"}
	default:
		return problem{Code: codeInternal, Message: "internal error: see the service's log"}
	}
}

// gone reports whether err happened because the client left or its deadline passed.
func gone(ctx context.Context, err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, errDeadline) ||
		errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled)
}

// fail answers the request with err.
func (s *service) fail(k *call, err error) {
	if k.procedure {
		s.procedures.fail(k, err)
		return
	}
	p := s.tell(k, k.Response().Header(), err)
	if err := respond(k, p.status(), errorAnswer{p}); err != nil {
		s.log.DebugContext(k.Request().Context(), "error answer not sent", "error", err)
	}
}

// tell counts the error of a request, sets its headers in h, and returns the body of the answer.
func (s *service) tell(k *call, h http.Header, err error) problem {
	p := describe(err)
	switch p.Code {
	case codeOverloaded:
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(retryAfter()))
		s.countShed(k.Request().Context(), err)
	case codeUnavailable:
		h.Set(echo.HeaderRetryAfter, "1")
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		refused.headers(h)
	}
	fault := p.status() >= http.StatusInternalServerError && p.status() != http.StatusNotImplemented && p.Code != codeOverloaded
	if fault && !gone(k.Request().Context(), err) {
		s.failed.Add(1)
	}
	return p
}
