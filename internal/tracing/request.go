package tracing

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// statusKey is the key of a request's status, an int, in Echo's context. Package httpapi sets it
// for requests whose HTTP status does not show their error, such as those of gRPC.
const statusKey = "feedfilter.status"

// Requests returns a middleware that records a span for each request. The span is named after the
// method and the route, and has the status and the request id. The request continues its caller's
// trace if trusted returns true: other callers must not decide what is sampled. Requests returns
// nil for a nil Tracer. Install it before the middleware that answers errors and assigns ids.
func (t *Tracer) Requests(trusted func(*http.Request) bool) echo.MiddlewareFunc {
	if t == nil {
		return nil
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			ctx := r.Context()
			if r.Header.Get("Traceparent") != "" && trusted(r) {
				ctx = t.propagate.Extract(ctx, propagation.HeaderCarrier(r.Header))
			}
			route := c.Path()
			if route == "" {
				route = "unknown"
			}
			ctx, span := t.requests.Start(
				ctx, methodName(r.Method)+" "+route, trace.WithSpanKind(trace.SpanKindServer),
			)
			defer span.End()
			c.SetRequest(r.WithContext(ctx))
			err := next(c)
			if !span.IsRecording() {
				return err
			}
			status := c.Response().Status
			if told, ok := c.Get(statusKey).(int); ok {
				status = told
			}
			span.SetAttributes(
				semconv.HTTPRequestMethodKey.String(methodName(r.Method)),
				semconv.HTTPRoute(route),
				semconv.HTTPResponseStatusCode(status),
				attribute.String("feedfilter.request_id", c.Response().Header().Get(echo.HeaderXRequestID)))
			if status >= 500 || err != nil {
				span.SetStatus(codes.Error, "")
			}
			return err
		}
	}
}

// methodName returns the method, or "_OTHER" for a method that HTTP does not define, which can be
// any text.
func methodName(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return method
	default:
		return "_OTHER"
	}
}
