package wire

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/follow"
)

// Codes of errors, in addition to those of [activity.InvalidError].
const (
	CodeMalformedJSON        = "malformed_json"
	CodeUnknownField         = "unknown_field"
	CodeDuplicateKey         = "duplicate_key"
	CodeInvalidType          = "invalid_type"
	CodeMissingField         = "missing_field"
	CodeUnknownOp            = "unknown_op"
	CodeUnexpectedBody       = "unexpected_body"
	CodeUnreadableBody       = "unreadable_body"
	CodeMalformedQuery       = "malformed_query"
	CodeUnknownParameter     = "unknown_parameter"
	CodeRepeatedParameter    = "repeated_parameter"
	CodeUnsupportedMediaType = "unsupported_media_type"
	CodeTooLarge             = "too_large"
	CodeTimeout              = "timeout"
	CodeNotFound             = "not_found"
	CodeNoActivity           = "no_activity"
	CodeMethodNotAllowed     = "method_not_allowed"
	CodeOverloaded           = "overloaded"
	CodeUnavailable          = "unavailable"
	CodeLimitReached         = "limit_reached"
	CodeStuck                = "stuck"
	CodeInternal             = "internal"
	CodeUnauthenticated      = "unauthenticated"
	CodeForbidden            = "forbidden"
	CodeCrossOrigin          = "cross_origin"
	CodeMisdirected          = "misdirected"
	CodeRateLimited          = "rate_limited"
	CodeAuditUnavailable     = "audit_unavailable"
	CodeMalformedMessage     = "malformed_message"
	CodeDeadlineExceeded     = "deadline_exceeded"
	CodeNotYet               = "not_yet"
)

// StatusGone stands in logs for a request whose client left before the answer. It is never sent.
const StatusGone = 499

// ErrGone is wrapped by errors of reading from, or writing to, a client that left or stalled.
var ErrGone = errors.New("the client went away")

// ErrDeadline is wrapped by errors of calls that ended at the client's deadline.
var ErrDeadline error = &Problem{Code: CodeDeadlineExceeded, Message: "the client's deadline has passed"}

// Problem is an error in the form of the API.
type Problem struct { //nolint:errname // what the API calls it
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitzero"`
	Limit   uint32 `json:"limit,omitzero"` // the limit that was reached
}

func (p *Problem) Error() string { return p.Message }

// Status returns the HTTP status of the code. It is the only such table.
func (p *Problem) Status() int {
	switch p.Code {
	case CodeUnauthenticated:
		return http.StatusUnauthorized
	case CodeForbidden, CodeCrossOrigin:
		return http.StatusForbidden
	case CodeMisdirected:
		return http.StatusMisdirectedRequest
	case CodeRateLimited:
		return http.StatusTooManyRequests
	case CodeNotFound, CodeNoActivity:
		return http.StatusNotFound
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case activity.CodeNoLedger:
		return http.StatusNotImplemented
	case CodeLimitReached, CodeStuck, activity.CodeFollowed:
		return http.StatusConflict
	case CodeTimeout:
		return http.StatusRequestTimeout
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeUnsupportedMediaType:
		return http.StatusUnsupportedMediaType
	case activity.CodeUnknownKind, activity.CodeUnknownFacet, activity.CodeSelfBlock, activity.CodeUnsupportedOp,
		activity.CodeWrongEffect, activity.CodeTooManyPages, activity.CodeTooManyIDs, activity.CodeInvalidPosition, activity.CodeNotFollowed,
		CodeUnknownOp, follow.CodeUnknownEvent, follow.CodeIncompleteRow, follow.CodeInvalidRow, follow.CodeSnapshotNeeded:
		return http.StatusUnprocessableEntity
	case CodeUnavailable, CodeOverloaded, CodeAuditUnavailable, CodeNotYet:
		return http.StatusServiceUnavailable
	case CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	case CodeInternal:
		return http.StatusInternalServerError
	default: // malformed, or out of range
		return http.StatusBadRequest
	}
}

// Describe returns what the client may know about an error: every detail of the request, and
// nothing internal.
func Describe(err error) Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return *p
	}
	if invalid, ok := errors.AsType[*activity.InvalidError](err); ok {
		return Problem{Code: invalid.Code, Message: clip(invalid.Message, maxMessage), Field: Clip(invalid.Field)}
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Problem
	}
	if without, ok := errors.AsType[*activity.NoLedgerError](err); ok {
		return Problem{Code: activity.CodeNoLedger, Message: without.Error()}
	}
	if down, ok := errors.AsType[*activity.UnavailableError](err); ok {
		return Problem{Code: CodeUnavailable, Message: "unavailable: " + down.Dependency}
	}
	if e, ok := errors.AsType[*activity.NotYetError](err); ok {
		return Problem{Code: CodeNotYet, Message: e.Error(), Field: e.Field}
	}
	if route, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch route.Code {
		case http.StatusNotFound:
			return Problem{Code: CodeNotFound, Message: "no such path"}
		case http.StatusMethodNotAllowed:
			return Problem{Code: CodeMethodNotAllowed, Message: "method not allowed on this path; see the Allow header"}
		}
	}
	switch {
	case errors.Is(err, pages.ErrNoPage):
		return Problem{Code: CodeNotFound, Message: "there is no such page"}
	case errors.Is(err, activity.ErrOverloaded):
		return Problem{Code: CodeOverloaded, Message: "overloaded: request not processed, retry"}
	case errors.Is(err, activity.ErrClosed):
		return Problem{Code: CodeUnavailable, Message: "the service is shutting down"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Problem{Code: CodeUnavailable, Message: "timed out: not answered in time"}
	default:
		return Problem{Code: CodeInternal, Message: "internal error: see the service's log"}
	}
}

// Gone reports whether err happened because the client left or its deadline passed.
func Gone(ctx context.Context, err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, ErrDeadline) ||
		errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled)
}

// Limits of the client's text that an error repeats, in bytes.
const (
	maxField   = 64
	maxMessage = 200
)

// Clip shortens text of a client, so that an error can repeat it.
func Clip(text string) string { return clip(text, maxField) }

func clip(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD") // the cut may be inside a character
}
