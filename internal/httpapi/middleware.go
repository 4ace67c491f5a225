package httpapi

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/opspage"
)

// maxRequestID is the maximum length of a request id from a client, in bytes.
const maxRequestID = 64

// statusKey is the key of a failed procedure's status in Echo's context. Traces use it, because the
// HTTP status may be 200.
const statusKey = "feedfilter.status"

// panicError is a panic of a handler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// observe gives the request an id, answers its error, and logs it. The log has the route instead of
// the path, because paths contain ids of users.
func (f *front) observe(next echo.HandlerFunc) echo.HandlerFunc {
	o := f.operations
	return func(c echo.Context) error {
		start := time.Now()
		o.Reports.Total.Add(1)
		c.Response().Header().Set(echo.HeaderXRequestID, requestID(c.Request().Header.Get(echo.HeaderXRequestID)))
		secure(c.Response().Header(), c.Request())
		k, procedure := &wire.Call{Context: c}, f.paths[c.Path()]
		limits.NoteWork(c.Request().Context(), 0)
		defer o.Limits.Leave(k)
		err := o.Access.RightHost(k)
		if err == nil {
			err = guarded(next, k)
		}
		if errors.Is(err, echo.ErrNotFound) {
			err = f.unknownPath(c.Request().URL.EscapedPath())
		}
		begun := err != nil && c.Response().Committed
		if err != nil && !begun {
			o.Limits.Visit(k)
			if procedure {
				f.procedures.Fail(k, err)
			} else {
				o.Reports.Answer(k, err)
			}
		}
		if o.Access.Tokens != nil && k.Token == nil && c.Request().ProtoMajor >= 2 {
			// Otherwise the answer is sent when the handler has returned, and nothing limits those that
			// are never read.
			_ = http.NewResponseController(c.Response().Writer).Flush()
		}
		if err == nil {
			err = k.Failed
		}
		status, took := statusOf(k, procedure, err), time.Since(start)
		if k.Failed != nil {
			c.Set(statusKey, status)
		}
		f.meters.of(c).Done(status, took)
		f.logRequest(k, status, took, err)
		if begun {
			// Break the connection, so that the client does not take the answer for complete.
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// guarded runs the handler and returns its panic as a [*panicError].
func guarded(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default:
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return next(c)
}

// statusOf returns the final status of a request, even if the answer began with another one. For a
// procedure it is the status that the JSON API has for the same error, because gRPC always answers
// 200.
func statusOf(k *wire.Call, procedure bool, err error) int {
	status := k.Response().Status
	switch {
	case err == nil:
		return status
	case wire.Gone(k.Request().Context(), err):
		return wire.StatusGone
	case procedure:
		p := wire.Describe(err)
		return p.Status()
	case status < http.StatusBadRequest:
		return http.StatusInternalServerError
	default:
		return status
	}
}

func (f *front) logRequest(k *wire.Call, status int, took time.Duration, err error) {
	ctx, reports := k.Request().Context(), f.operations.Reports
	suppressed, loud := reports.Loud(k, status, err)
	f.operations.Access.WriteAudit(k, status, suppressed, loud, err)
	level := slog.LevelDebug
	switch {
	case !loud:
	case err != nil && wire.Describe(err).Code == wire.CodeOverloaded: // one warning stands for many
	case operations.Fault(status, err):
		level = slog.LevelError
	case status >= http.StatusBadRequest:
		level = slog.LevelInfo
	}
	if !reports.Log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 11),
		slog.String("method", k.Method()),
		slog.String("route", k.Path()),
		slog.Int("status", status),
		slog.Int64("bytes", k.Response().Size),
		slog.Float64("took_ms", float64(took.Microseconds())/1000),
		slog.String("request_id", k.RequestID()),
	)
	if k.Token != nil {
		attrs = append(attrs, slog.String("token", k.Token.Name))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", suppressed))
	}
	reports.Log.LogAttrs(ctx, level, "request", append(attrs, errorAttrs(status, err)...)...)
}

// errorAttrs returns the log attributes of an error: only the code if the client caused it, all
// details if the service did.
func errorAttrs(status int, err error) []slog.Attr {
	if err == nil {
		return nil
	}
	code := wire.Describe(err).Code
	attrs := []slog.Attr{slog.String("code", code)}
	if status >= wire.StatusGone && code != wire.CodeNotYet {
		attrs = append(attrs, slog.Any("error", err))
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	return attrs
}

// requestID returns the client's id, if it has up to maxRequestID letters, digits and "-_.", which
// are safe in logs. Otherwise it returns a random id.
func requestID(given string) string {
	foreign := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	}
	if given == "" || len(given) > maxRequestID || strings.ContainsFunc(given, foreign) {
		return rand.Text()
	}
	return given
}

// secure sets the headers that every answer has. No cache may store an answer, because it shows
// what a user does and sees.
func secure(h http.Header, r *http.Request) {
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderCacheControl, "no-store")
	if r.TLS != nil {
		h.Set(echo.HeaderStrictTransportSecurity, "max-age=31536000")
	}
}

// unknownPath returns the error of a request whose path no route has. It names what may be meant: a
// kind that is not configured, or a page for people.
func (f *front) unknownPath(path string) error {
	kinds := f.operations.Activities.Kinds()
	message := "no such path"
	below, ofUser := strings.CutPrefix(path, "/v1/users/")
	if !ofUser {
		below, ofUser = strings.CutPrefix(path, "/v1/targets/")
	}
	_, rest, _ := strings.Cut(below, "/")
	name, _, _ := strings.Cut(rest, "/")
	if _, known := kinds.Named(name); ofUser && !known && !slices.Contains([]string{"", "preview", "export"}, name) {
		message += fmt.Sprintf(": the service has no kind %q; GET /v1/kinds lists its kinds", wire.Clip(name))
	}
	if path == "/" && slices.ContainsFunc(f.routes, func(r wire.Route) bool { return r.Path == opspage.Path }) {
		message += ": /ops is for operators, /docs describes all paths, /openapi.json does so for programs"
	}
	return &wire.Problem{Code: wire.CodeNotFound, Message: message}
}
