// Package tracing traces requests through the service, Redis and PostgreSQL, and sends the traces
// to a collector.
//
// A trace begins with a request; background work is not traced. Spans contain no ids of users or
// posts. They have the route of a request instead of its path, the name of a Redis command, and the
// text of a SQL statement without its parameters.
//
// The package has no global state: Tracers are independent.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// name identifies the source of request spans.
	name        = "github.com/feedfilter/feedfilter/internal/tracing"
	serviceName = "feedfilter"

	// maxQueued is how many spans, a few KiB each, may wait to be sent. Further spans are dropped.
	maxQueued = 2048
	// maxBatch is how many spans are sent at once. Fewer are sent after sendInterval.
	maxBatch     = 512
	sendInterval = 2 * time.Second
	// sendTimeout is how long sending a batch may take.
	sendTimeout = 5 * time.Second
	// closeTimeout is how long Close may take.
	closeTimeout = 3 * time.Second
)

// Config configures a [Tracer].
type Config struct {
	_ struct{} // fields are named

	// Endpoint is the URL of a collector for OTLP over HTTP, such as http://127.0.0.1:4318. The
	// default path is /v1/traces.
	Endpoint string

	// Ratio is the share of requests, 0 to 1, that are traced. It applies to requests without a
	// trace. A request with one is traced if its caller is trusted and has sampled the trace.
	Ratio float64

	Version string       // of the service
	Logger  *slog.Logger // logs whether the collector is reachable; default: discards
}

// Check returns an error if [Open] would refuse the endpoint or the ratio.
func (c *Config) Check() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		// The error leaves out the URL, which may contain a password.
		return errors.New("the endpoint is not http://<host>:<port> or https://<host>:<port>")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the endpoint has more than a host and a path")
	case !(c.Ratio >= 0 && c.Ratio <= 1):
		return fmt.Errorf("a ratio of %g is not in 0 to 1", c.Ratio)
	default:
		return nil
	}
}

// Tracer traces requests. A nil Tracer traces none, and costs nothing. It is safe for concurrent
// use.
type Tracer struct {
	provider  *sdktrace.TracerProvider
	requests  trace.Tracer
	propagate propagation.TraceContext
}

// Open returns a Tracer that sends to a collector. The collector may be down or slow: that delays
// no request, but spans are dropped.
func Open(ctx context.Context, c Config) (*Tracer, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("open tracer: %w", err)
	}
	u, _ := url.Parse(c.Endpoint)
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	//nolint:forcetypeassert // the library says so
	transport := http.DefaultTransport.(*http.Transport).Clone()
	log := cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	exporter, err := otlptrace.New(ctx, &uploader{
		url:    u.String(),
		client: &http.Client{Transport: transport},
		log:    log,
	})
	if err != nil {
		return nil, fmt.Errorf("open tracer: %w", err)
	}
	return newTracer(c, sdktrace.WithBatcher(exporter,
		sdktrace.WithMaxQueueSize(maxQueued),
		sdktrace.WithMaxExportBatchSize(maxBatch),
		sdktrace.WithBatchTimeout(sendInterval),
		sdktrace.WithExportTimeout(sendTimeout))), nil
}

// newTracer returns a Tracer that sends its spans to out.
func newTracer(c Config, out sdktrace.TracerProviderOption) *Tracer {
	// Take nothing from the environment or the machine: a trace must not contain their names.
	about := resource.NewSchemaless(
		semconv.ServiceName(serviceName), semconv.ServiceVersion(c.Version),
	)
	provider := sdktrace.NewTracerProvider(out,
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(requestsOnly{sdktrace.TraceIDRatioBased(c.Ratio)})))
	return &Tracer{provider: provider, requests: provider.Tracer(name)}
}

// Close sends the remaining spans. It returns after at most 3 s, or when ctx ends. Call it after
// the last request.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// Redis traces the commands of a client, by name, without keys and values. Call it before the
// client is used.
func (t *Tracer) Redis(client redis.UniversalClient) error {
	if t == nil || client == nil {
		return nil
	}
	err := redisotel.InstrumentTracing(client,
		redisotel.WithTracerProvider(t.provider), redisotel.WithDBStatement(false),
		redisotel.WithCallerEnabled(false))
	if err != nil {
		return fmt.Errorf("trace Redis: %w", err)
	}
	return nil
}

// Postgres returns a tracer of the statements of requests, without the values of their parameters;
// nil for a nil Tracer.
func (t *Tracer) Postgres() pgx.QueryTracer { //nolint:ireturn // pgx's own interface
	if t == nil {
		return nil
	}
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(noop.NewMeterProvider()),
		otelpgx.WithDisableAcquireTracer(), otelpgx.WithDisableConnectionDetailsInAttributes())
}

// requestsOnly samples only requests among spans without a parent. Otherwise most traces would be
// scrubs and polls, which no caller waits for.
type requestsOnly struct{ sdktrace.Sampler }

// ShouldSample implements [sdktrace.Sampler].
func (s requestsOnly) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Kind != trace.SpanKindServer {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return s.Sampler.ShouldSample(p)
}
