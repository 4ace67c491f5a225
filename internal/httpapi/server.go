package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/openapi"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// Config configures a handler. Activities is required; the rest has defaults.
type Config struct {
	_ struct{} // fields are named

	Activities activity.Activities // the caller closes it after the last request
	Logger     *slog.Logger        // default: discards
	Sampler    *sampler.Sampler    // closed by the caller before Activities; default: samples none

	Trace echo.MiddlewareFunc // wraps every request; may be nil

	// MaxBodyBytes is the maximum length of a JSON body or a Protobuf message, in bytes. A longer
	// one is answered 413. It does not limit NDJSON streams. Default 1 MiB, enough for 10,000
	// activities of the built-in kinds with ids of 20 bytes.
	MaxBodyBytes int64

	// Timeout is how long a request, or a chunk of a stream, may wait for the ledger and the pages
	// before it is answered 503. Default 10 s.
	Timeout time.Duration

	// MaxRequests is the maximum number of requests in progress, without probes. Further requests
	// are answered 503 at once, before their body is read. Default 512. Of this limit and of the two
	// below, one token gets seven eighths at most.
	MaxRequests int

	// MaxStreams is how many of those requests may be streams: of NDJSON, of gRPC, or exports.
	// Default 64.
	MaxStreams int

	// MaxBodiesBytes is the maximum total length of the bodies and messages of all requests in
	// progress, without NDJSON, in bytes. They count as they arrive. A request that would exceed it
	// is answered 503. Default 64 MiB; at least MaxBodyBytes.
	MaxBodiesBytes int64

	// StreamIdle is how long a stream may stall, in either direction, before it is closed. Default
	// 1 min.
	StreamIdle time.Duration

	// Access configures who may make which calls. The zero value allows all calls.
	Access Access

	// Metrics is the registry that GET /metrics answers with. The service adds its own metrics and
	// those of the Recorder. Default: a new registry.
	Metrics *metrics.Registry

	// Background runs a function in the background, with a context that ends when the function must
	// return. The handler keeps its history with it. Nil: there is no history.
	Background func(do func(ctx context.Context))

	About About
}

// About describes the service for people. It must not contain addresses or secrets.
type About struct {
	Version   string // of the program
	Ledger    string // "sqlite", "postgres" or "none"
	PageStore string // "memory", "redis", "redis+cluster", ...
}

// service holds what the handlers share. Only counts, limits, rooms and the history change.
type service struct {
	*gate
	*intake

	started    time.Time
	feeds      *feedCounts
	activities activity.Activities
	recorder   *activity.Recorder // the activities; nil without a ledger
	sampler    *sampler.Sampler
	log        *slog.Logger
	timeout    time.Duration
	idle       time.Duration
	downs      *access.Throttle // throttles log lines of failed readiness checks
	asking     singleflight.Group
	metrics    *metrics.Registry
	meters     meters
	procedures *procedures
	scrapes    chan struct{} // has a value for each scrape that gathers metrics
	scraped    guests        // scrapes whose clients read
	history    *history
	failed     atomic.Uint64 // requests answered 5xx, except overload and clients that left
	about      About

	description func() ([]byte, error)                  // the answer to GET /openapi.json; built once
	docs        func() (map[string]openapi.File, error) // of the page that shows it; read once
}

// Handler answers all routes. Its limit on requests can be changed at any time.
type Handler struct {
	http.Handler

	limits  *limits
	watches *healthWatches
}

// SetMaxRequests changes [Config.MaxRequests], 1 or more. It does not affect requests in progress.
func (h *Handler) SetMaxRequests(n int) { h.limits.boundRequests(n) }

// New returns the handler of all routes, for an [http.Server] that the caller runs. It is safe for
// concurrent use.
//
// The kinds determine the routes of activities. A kind in the ledger has PUT and DELETE
// /v1/users/{user}/{plural}/{target}, and a list at GET /v1/users/{user}/{plural}. A kind with a
// window has POST /v1/users/{user}/{plural}.
//
// The server's read and write timeouts apply to all requests, with three exceptions. Streams and
// exports extend them while they progress. DELETE /v1/users/{user} may take five minutes. Health
// watches have no limit: see [Handler.EndWatches]. Every request ends with its context.
func New(c Config) *Handler {
	s := newService(c)
	if c.Background != nil {
		c.Background(s.history.run)
	}
	return &Handler{Handler: s.handler(c.Trace), limits: &s.limits, watches: s.procedures.watches}
}

func newService(c Config) *service {
	s := &service{
		gate:       newGate(c.Access),
		intake:     newIntake(c),
		activities: c.Activities,
		sampler:    c.Sampler,
		log:        c.Logger,
		timeout:    cmp.Or(c.Timeout, 10*time.Second),
		idle:       cmp.Or(c.StreamIdle, time.Minute),
		started:    time.Now(),
		feeds:      newFeedCounts(c.Activities.Kinds()),
		downs:      access.NewThrottle(),
		about:      c.About,
		scrapes:    make(chan struct{}, maxScrapes),
	}
	s.recorder, _ = c.Activities.(*activity.Recorder) // nothing else asks for the type
	s.scraped.limit = maxScraped
	s.history = newHistory(s)
	if s.sampler == nil {
		// A rate of 0 is always valid.
		s.sampler, _ = sampler.New(nil, sampler.Config{})
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.description = sync.OnceValues(func() ([]byte, error) { return openapi.Document(c.Activities.Kinds()) })
	s.docs = sync.OnceValues(openapi.Page)
	s.procedures = newProcedures(s)
	s.measure(c.Metrics)
	return s
}

// handler returns a handler of all routes. trace, if not nil, wraps each request.
func (s *service) handler(trace echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Pre(routeEscaped)
	if trace != nil {
		e.Use(trace)
	}
	e.Use(s.observe)
	s.addRoutes(e)
	return e
}

// routeEscaped makes Echo match the path as the client escaped it. Otherwise Echo often matches the
// unescaped path, and would unescape "%252F" twice.
func routeEscaped(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		u := c.Request().URL
		if u.RawPath == "" {
			u.RawPath = u.EscapedPath()
		}
		return next(c)
	}
}

// bounded returns a context for the work of a request, which ends after the service's timeout.
func (s *service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.limits.work.Begin(ctx), s.timeout)
}
