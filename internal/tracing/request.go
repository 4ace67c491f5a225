package tracing

import (
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// statusKey is the key of a request's status, an int, in Echo's context. Package httpapi sets it
// for requests whose error is not in the status of HTTP, as those of gRPC.
const statusKey = "feedfilter.status"

// Requests returns what has Echo's requests followed, each as a span named for its method and
// route, with its status and id; nil if there is nothing to follow. It is to stand before whatever
// answers errors and makes ids.
func (t *Tracer) Requests() echo.MiddlewareFunc {
	if t == nil {
		return nil
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			ctx := t.propagate.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			route := c.Path()
			if route == "" {
				route = "unknown"
			}
			ctx, span := t.requests.Start(ctx, methodName(r.Method)+" "+route, trace.WithSpanKind(trace.SpanKindServer))
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

// methodName is a method as a name: one that is none of HTTP's may hold anything.
func methodName(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return method
	default:
		return "_OTHER"
	}
}
