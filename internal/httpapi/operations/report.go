package operations

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

const (
	// shedWarnings is the minimum time between two warnings that requests are refused.
	shedWarnings = 10 * time.Second
	// maxRetryAfter is the maximum of Retry-After, in seconds. Each client gets a random value, so
	// that refused clients do not all return at the same time.
	maxRetryAfter = 3
)

// errorAnswer is the body of every error.
type errorAnswer struct {
	Error wire.Problem `json:"error"`
}

// Reports counts requests that failed, and decides which of them are logged. Only its counters
// change.
type Reports struct {
	Log *slog.Logger

	Total  atomic.Uint64 // all requests
	Failed atomic.Uint64 // requests answered 5xx, except overload, not_yet and clients that left
	NotYet atomic.Uint64 // requests for a position that a source was not followed up to in time
	Shed   atomic.Uint64 // requests refused for overload
	warned atomic.Int64  // time of the last warning about shed requests, in Unix nanoseconds

	tokens  bool // tokens are required
	refused counters
	unread  counters         // requests whose header was not read in time, by the code of their error
	noise   *access.Throttle // throttles log lines of refused requests
	early   *access.Throttle // throttles log lines of not_yet where no token is required
	strays  *access.Throttle // throttles log lines of other errors of callers without a token
	faults  *access.Throttle // throttles log lines of errors of the service
}

// newReports returns counters at 0. tokens says that tokens are required.
func newReports(log *slog.Logger, tokens bool) *Reports {
	r := &Reports{
		Log: log, tokens: tokens, refused: make(counters),
		noise: access.NewThrottle(), early: access.NewThrottle(), strays: access.NewThrottle(), faults: access.NewThrottle(),
	}
	for _, code := range []string{
		wire.CodeUnauthenticated, wire.CodeForbidden, wire.CodeRateLimited,
		wire.CodeMisdirected, wire.CodeCrossOrigin, wire.CodeAuditUnavailable,
	} {
		r.refused[code] = new(atomic.Uint64)
	}
	r.unread = counters{wire.CodeOverloaded: new(atomic.Uint64), wire.CodeTimeout: new(atomic.Uint64)}
	return r
}

// Unread counts a request whose header was not read in time, and returns the answer of HTTP/1.1 to
// it. late says that this process read too late, because of overload. Otherwise the client sent too
// slowly.
func (r *Reports) Unread(late bool) (answer []byte) {
	err := wire.Refuse(wire.CodeTimeout, "", "the header took too long to arrive")
	h := http.Header{
		echo.HeaderContentType: {wire.TypeJSON}, echo.HeaderConnection: {"close"}, echo.HeaderXContentTypeOptions: {"nosniff"},
		echo.HeaderCacheControl: {"no-store"}, echo.HeaderXRequestID: {rand.Text()},
	}
	if late {
		err = fmt.Errorf("the header was read too late: %w", activity.ErrOverloaded)
		h.Set(echo.HeaderRetryAfter, retryAfter())
		r.countShed(context.Background(), err)
	}
	p := wire.Describe(err)
	r.unread[p.Code].Add(1)
	body, err := json.Marshal(errorAnswer{p}, json.Deterministic(true))
	if err != nil { // it never fails: the text is valid UTF-8
		return nil
	}
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", p.Status(), http.StatusText(p.Status()))
	_ = h.Write(&b) // a buffer never fails
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// UnreadCounts returns how many headers were not read in time, by the code of their error.
func (r *Reports) UnreadCounts() map[string]uint64 { return r.unread.read() }

// retryAfter returns the value of Retry-After for a request that was refused for overload.
func retryAfter() string {
	return strconv.Itoa(1 + mathrand.IntN(maxRetryAfter)) //nolint:gosec // spreads load, guards nothing
}

// Refused returns how many requests access control refused, by the code of their error.
func (r *Reports) Refused() map[string]uint64 { return r.refused.read() }

// Fault reports whether a request that was answered with a status failed because of the service.
// A caller who asks for a position that is far ahead causes not_yet.
func Fault(status int, err error) bool {
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented && !notYet(err)
}

func notYet(err error) bool { return err != nil && wire.Describe(err).Code == wire.CodeNotYet }

// Loud counts a request that failed with err. loud reports whether to log it. suppressed is the
// number of earlier requests that were not logged.
//
// Refusals are throttled. Where tokens are required, so are errors of the service, and other errors
// of each token and of callers without one, each on their own. So nobody can fill the log, or hide
// the errors of others. A not_yet is an error of its token.
func (r *Reports) Loud(k *wire.Call, status int, err error) (suppressed uint64, loud bool) {
	lines := r.strays
	refused, ok := errors.AsType[*wire.RefusedError](err)
	switch {
	case ok:
		r.refused[refused.Code].Add(1)
		lines = r.noise
	case !r.tokens && notYet(err):
		lines = r.early
	case !r.tokens || status < http.StatusBadRequest || err != nil && wire.Describe(err).Code == wire.CodeOverloaded: // countShed logs it
		return 0, true
	case k.Token == nil: // a stranger hides nobody's errors
	case Fault(status, err):
		lines = r.faults
	default:
		lines = k.Token.Errors
	}
	return lines.Pass(time.Now())
}

// Tell counts the error of a request, sets the headers of the answer, and returns its body.
func (r *Reports) Tell(k *wire.Call, err error) wire.Problem {
	p, h := wire.Describe(err), k.Response().Header()
	switch p.Code {
	case wire.CodeOverloaded:
		h.Set(echo.HeaderRetryAfter, retryAfter())
		r.countShed(k.Request().Context(), err)
	case wire.CodeNotYet:
		r.NotYet.Add(1)
		h.Set(echo.HeaderRetryAfter, "1")
	case wire.CodeUnavailable:
		h.Set(echo.HeaderRetryAfter, "1")
	}
	if refused, ok := errors.AsType[*wire.RefusedError](err); ok {
		refused.SetHeaders(h)
	}
	if Fault(p.Status(), err) && p.Code != wire.CodeOverloaded && !wire.Gone(k.Request().Context(), err) {
		r.Failed.Add(1)
	}
	return p
}

// Answer answers a request with err, as JSON.
func (r *Reports) Answer(k *wire.Call, err error) {
	p := r.Tell(k, err)
	if err := wire.RespondAs(k, p.Status(), errorAnswer{p}); err != nil {
		r.NotSent(k, err)
	}
}

// NotSent logs why an error answer was not sent.
func (r *Reports) NotSent(k *wire.Call, err error) {
	r.Log.DebugContext(k.Request().Context(), "error answer not sent", "error", err)
}

// countShed counts a request that was refused because of err. It logs at most one warning in
// shedWarnings: a line for each request would add to the load.
func (r *Reports) countShed(ctx context.Context, err error) {
	shed := r.Shed.Add(1)
	now, last := time.Now().UnixNano(), r.warned.Load()
	if now-last < int64(shedWarnings) || !r.warned.CompareAndSwap(last, now) {
		return
	}
	r.Log.WarnContext(ctx, "overloaded, requests refused", "error", err, "shed", shed)
}

// LogPart logs an error in a part of a request, if there have not been too many such lines. The
// request continues.
func (r *Reports) LogPart(k *wire.Call, lines *access.Throttle, part string, err error) {
	suppressed, loud := lines.Pass(time.Now())
	if !loud {
		return
	}
	r.Log.LogAttrs(k.Request().Context(), slog.LevelError, "part of a request failed",
		slog.Uint64("suppressed", suppressed),
		slog.String("part", part),
		slog.String("route", k.Path()),
		slog.String("request_id", k.RequestID()),
		slog.Any("error", err))
}
