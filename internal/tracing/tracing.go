// Package tracing follows requests through the service, to Redis and to PostgreSQL, and sends what it finds to a
// collector of traces.
//
// Spans begin with a request: what the service does of its own accord is not followed. They hold no ids of users or
// posts: a request has its route, and not its path, a command of Redis its name, a statement of SQL its text
// without what it is about. There is no state of the process: two Tracers do not know of each other.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
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
	// name is that of what makes the spans of requests.
	name        = "github.com/feedfilter/feedfilter/internal/tracing"
	serviceName = "feedfilter"

	// maxQueued is how many spans may wait to be sent, some KiB each; those beyond it are dropped.
	maxQueued = 2048
	// maxBatch is how many are sent at once, and sendInterval how often, if there are fewer.
	maxBatch     = 512
	sendInterval = 2 * time.Second
	// sendTimeout is how long sending them may take, repetitions included.
	sendTimeout = 5 * time.Second
	// closeTimeout is how long Close may take.
	closeTimeout = 3 * time.Second
)

// Config is what a [Tracer] is made of.
type Config struct {
	_ struct{} // fields are named

	// Endpoint is the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; without a path,
	// /v1/traces is meant.
	Endpoint string

	// Ratio is the share of requests that are followed, 0 to 1, of those that come without a trace of their own. One that
	// comes with one is followed if its caller's is.
	Ratio float64

	Version string       // of the service
	Logger  *slog.Logger // is told when the collector cannot be reached, and when it can again; default: discards
}

// Check returns an error unless the endpoint and the ratio are such as [Open] takes.
func (c *Config) Check() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the endpoint is not http://<host>:<port> or https://<host>:<port>") // it may hold a password
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the endpoint has more than a host and a path")
	case !(c.Ratio >= 0 && c.Ratio <= 1):
		return fmt.Errorf("a ratio of %g is not in 0 to 1", c.Ratio)
	default:
		return nil
	}
}

// Tracer follows requests. Nil is one that follows none, and costs nothing. It is safe for concurrent use.
type Tracer struct {
	provider  *sdktrace.TracerProvider
	requests  trace.Tracer
	propagate propagation.TraceContext
}

// Open returns a Tracer that sends to a collector, which need not be up. A collector that is down, or slow, delays no
// request: what it does not take is dropped.
func Open(ctx context.Context, c Config) (*Tracer, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("open tracer: %w", err)
	}
	u, _ := url.Parse(c.Endpoint)
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the library says so
	exporter, err := otlptrace.New(ctx, &uploader{u.String(), &http.Client{Transport: transport}})
	if err != nil {
		return nil, fmt.Errorf("open tracer: %w", err)
	}
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return newTracer(c, sdktrace.WithBatcher(&quiet{SpanExporter: exporter, log: log},
		sdktrace.WithMaxQueueSize(maxQueued),
		sdktrace.WithMaxExportBatchSize(maxBatch),
		sdktrace.WithBatchTimeout(sendInterval),
		sdktrace.WithExportTimeout(sendTimeout))), nil
}

// newTracer returns a Tracer with another way out for spans.
func newTracer(c Config, out sdktrace.TracerProviderOption) *Tracer {
	// Nothing is taken from the environment or the machine: its names are nobody's business.
	about := resource.NewSchemaless(semconv.ServiceName(serviceName), semconv.ServiceVersion(c.Version))
	provider := sdktrace.NewTracerProvider(out,
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(requestsOnly{sdktrace.TraceIDRatioBased(c.Ratio)})))
	return &Tracer{provider: provider, requests: provider.Tracer(name)}
}

// Close sends what is left, and returns when that is done, or ctx ends, or it has taken 3 s. It is for when the last
// request is over.
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

// Redis has the commands of a client followed, which was not used yet: their names, without keys and values.
func (t *Tracer) Redis(client redis.UniversalClient) error {
	if t == nil || client == nil {
		return nil
	}
	err := redisotel.InstrumentTracing(client,
		redisotel.WithTracerProvider(t.provider), redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false))
	if err != nil {
		return fmt.Errorf("trace Redis: %w", err)
	}
	return nil
}

// Postgres has statements followed that are part of a request, without the values of their parameters; nil if there
// is nothing to follow.
func (t *Tracer) Postgres() pgx.QueryTracer { //nolint:ireturn // it is pgx' own
	if t == nil {
		return nil
	}
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(noop.NewMeterProvider()),
		otelpgx.WithDisableAcquireTracer(), otelpgx.WithDisableConnectionDetailsInAttributes())
}

// requestsOnly samples, of what has no parent, requests alone: scrubs and polls would be most of all traces, and tell
// of nothing that somebody waited for.
type requestsOnly struct{ sdktrace.Sampler }

// ShouldSample implements [sdktrace.Sampler].
func (s requestsOnly) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Kind != trace.SpanKindServer {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return s.Sampler.ShouldSample(p)
}

// quiet is an exporter whose failures are logged once, and not each time.
type quiet struct {
	sdktrace.SpanExporter

	log  *slog.Logger
	down atomic.Bool
}

// ExportSpans implements [sdktrace.SpanExporter]. It never fails: whoever calls it would write that to standard error.
func (q *quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if down := err != nil; q.down.Swap(down) != down {
		if down {
			q.log.WarnContext(ctx, "traces cannot be sent, and are dropped", "error", err)
		} else {
			q.log.InfoContext(ctx, "traces can be sent again")
		}
	}
	return nil
}
