package httpapi

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/access"
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
func (s *service) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		s.limits.total.Add(1)
		id := requestID(c.Request().Header.Get(echo.HeaderXRequestID))
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		secure(c.Response().Header(), c.Request())
		k := &call{Context: c, procedure: s.procedures.paths[c.Path()]}
		noteWork(c.Request().Context(), 0)
		defer func() { s.limits.guests.leave(k.guest) }()
		err := s.rightHost(k)
		if err == nil {
			err = guarded(next, k)
		}
		begun := err != nil && c.Response().Committed
		if err != nil && !begun {
			if k.guest == nil {
				k.guest = s.limits.guests.enter(c.Response().Writer)
			}
			s.fail(k, err)
		}
		if s.access.Tokens != nil && k.token == nil && c.Request().ProtoMajor >= 2 {
			// Otherwise the answer is sent when the handler has returned, and nothing limits those that
			// are never read.
			_ = http.NewResponseController(c.Response().Writer).Flush()
		}
		if err == nil {
			err = k.failed
		}
		status, took := statusOf(k, err), time.Since(start)
		if k.failed != nil {
			c.Set(statusKey, status)
		}
		s.meters.of(c).Done(status, took)
		s.logRequest(k, id, status, took, err)
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
func statusOf(k *call, err error) int {
	status := k.Response().Status
	switch {
	case err == nil:
		return status
	case gone(k.Request().Context(), err):
		return statusGone
	case k.procedure:
		return describe(err).status()
	case status < http.StatusBadRequest:
		return http.StatusInternalServerError
	default:
		return status
	}
}

func (s *service) logRequest(c *call, id string, status int, took time.Duration, err error) {
	ctx := c.Request().Context()
	suppressed, loud := s.countRefused(c, status, err)
	s.writeAudit(c, id, status, suppressed, loud, err)
	level := slog.LevelDebug
	switch {
	case !loud:
	case err != nil && describe(err).Code == codeOverloaded: // countShed logs it
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		level = slog.LevelError
	case status >= http.StatusBadRequest:
		level = slog.LevelInfo
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 11),
		slog.String("method", methodOf(c.Request())),
		slog.String("route", c.Path()),
		slog.Int("status", status),
		slog.Int64("bytes", c.Response().Size),
		slog.Float64("took_ms", float64(took.Microseconds())/1000),
		slog.String("request_id", id),
	)
	if c.token != nil {
		attrs = append(attrs, slog.String("token", c.token.Name))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", suppressed))
	}
	s.log.LogAttrs(ctx, level, "request", append(attrs, errorAttrs(status, err)...)...)
}

// methodOf returns the method of a request for logs, or "OTHER" for unknown methods, which can be
// any text.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return r.Method
	default:
		return "OTHER"
	}
}

// errorAttrs returns the log attributes of an error: only the code if the client caused it, all
// details if the service did.
func errorAttrs(status int, err error) []slog.Attr {
	if err == nil {
		return nil
	}
	attrs := []slog.Attr{slog.String("code", describe(err).Code)}
	if status >= statusGone {
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

// requestAttrs returns log attributes that identify the request, for log lines after its end.
func requestAttrs(c echo.Context) []slog.Attr {
	return []slog.Attr{slog.String("request_id", c.Response().Header().Get(echo.HeaderXRequestID))}
}

// logError logs an error in a part of a request, if there have not been too many such lines. The
// request continues.
func (s *service) logError(c echo.Context, lines *access.Throttle, part string, err error) {
	suppressed, loud := lines.Pass(time.Now())
	if !loud {
		return
	}
	s.log.LogAttrs(c.Request().Context(), slog.LevelError, "part of a request failed",
		slog.Uint64("suppressed", suppressed),
		slog.String("part", part),
		slog.String("route", c.Path()),
		slog.String("request_id", c.Response().Header().Get(echo.HeaderXRequestID)),
		slog.Any("error", err))
}
