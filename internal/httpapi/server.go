package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

// Config is what a handler is made of. Activities are needed; the rest has defaults.
type Config struct {
	_ struct{} // fields are named

	Activities activity.Activities // closed by the caller, after the last request
	Logger     *slog.Logger        // default: discards
	Sampler    *feed.Sampler       // of their feeds; closed by the caller, before that; default: samples none

	Trace echo.MiddlewareFunc // stands around every request; nil: nothing does

	// MaxBodyBytes is the length of the longest JSON body, in bytes; a longer one
	// is answered 413. Streams of NDJSON are not limited by it. Default 1 MiB:
	// room for 10,000 activities of the built-in kinds with ids of 20 bytes.
	MaxBodyBytes int64

	// Timeout is how long a request, or a chunk of a stream, may wait for the
	// ledger and the pages; 503 after it. Default 10 s.
	Timeout time.Duration

	// MaxRequests is the number of requests in progress at a time, probes not counted;
	// one more is answered 503 at once, before its body is read. Default 512.
	MaxRequests int

	// MaxStreams is how many of those may be streams of NDJSON. Default 64.
	MaxStreams int

	// MaxBodiesBytes is how much of JSON bodies is held at a time, in bytes; a request
	// that would exceed it is answered 503 before its body is read. A body counts with
	// its length, or with MaxBodyBytes where that is not known, until its request is
	// done. Default 64 MiB; at least MaxBodyBytes.
	MaxBodiesBytes int64

	// StreamIdle is how long a stream of NDJSON may stand still, in either
	// direction, before it is cut off. Default 1 min.
	StreamIdle time.Duration

	// Access says who may call what; as its zero value is, anybody may call everything.
	Access Access

	// Metrics is what GET /metrics answers with; the service adds its own, and the Recorder's. Default: a new one.
	Metrics *metrics.Registry

	// Background runs what the handler does beside requests, a history of itself, until the context that it gives ends.
	// Nil: there is no history.
	Background func(do func(ctx context.Context))

	About About
}

// About is what the service is made of, in words for people: no addresses, nothing secret.
type About struct {
	Version   string // of the program
	Ledger    string // "sqlite", "postgres" or "none"
	PageStore string // "memory", "redis", "redis+cluster", ...
}

// service holds what the handlers share. But for limits, counts, rooms and the history, it does not change.
type service struct {
	started    time.Time
	limits     limits
	feeds      *feedCounts
	activities activity.Activities
	sampler    *feed.Sampler
	log        *slog.Logger
	maxBody    int64
	timeout    time.Duration
	idle       time.Duration
	strict     json.Options
	rooms      rooms
	access     Access
	origins    *http.CrossOriginProtection
	refused    refusals
	noise      *access.Throttle // of refused requests in logs
	strays     *access.Throttle // of what else goes wrong for strangers
	downs      *access.Throttle // of dependencies that are down for who asks whether they are
	asking     singleflight.Group
	metrics    *metrics.Registry
	meters     meters
	procedures *procedures
	scrapes    chan struct{} // holds one for each that is being answered
	history    *history
	failed     atomic.Uint64 // requests answered 5xx, but for those refused for overload, and those whose client has left
	about      About

	description func() ([]byte, error) // as GET /openapi.json answers it; made once
}

// Handler answers all routes. Its limit on requests may change while it does.
type Handler struct {
	http.Handler

	limits  *limits
	watches *healthWatches
}

// SetMaxRequests changes [Config.MaxRequests], 1 or more, for the requests to come; those in progress go on.
func (h *Handler) SetMaxRequests(n int) { h.limits.requests.bound(int64(n)) }

// New returns the handler of all routes, for an [http.Server] that the caller
// runs. It is safe for concurrent use.
//
// Routes of activities follow from the kinds: one that the ledger keeps has
// PUT and DELETE /v1/users/{user}/{plural}/{target} and a list at GET
// /v1/users/{user}/{plural}; one with a window has POST /v1/users/{user}/{plural}.
//
// The server's read and write timeouts hold for all requests but streams of
// NDJSON, which extend them as they go on, and DELETE /v1/users/{user}, which may take five
// minutes. All of them end when the request's context does. Watches of the health have no limit:
// see [Handler.EndWatches].
func New(c Config) *Handler {
	s := newService(c)
	if c.Background != nil {
		c.Background(s.history.run)
	}
	return &Handler{Handler: s.handler(c.Trace), limits: &s.limits, watches: s.procedures.watches}
}

func newService(c Config) *service {
	s := &service{
		activities: c.Activities,
		sampler:    c.Sampler,
		log:        c.Logger,
		maxBody:    cmp.Or(c.MaxBodyBytes, 1<<20),
		timeout:    cmp.Or(c.Timeout, 10*time.Second),
		idle:       cmp.Or(c.StreamIdle, time.Minute),
		strict:     strict(),
		started:    time.Now(),
		feeds:      newFeedCounts(c.Activities.Kinds()),
		access:     c.Access,
		origins:    http.NewCrossOriginProtection(),
		refused:    newRefusals(),
		noise:      access.NewThrottle(),
		strays:     access.NewThrottle(),
		downs:      access.NewThrottle(),
		about:      c.About,
		scrapes:    make(chan struct{}, maxScrapes),
	}
	s.access.IDs = cmp.Or(s.access.IDs, access.NewIDs())
	s.history = newHistory(s)
	s.limits.requests.limit = int64(cmp.Or(c.MaxRequests, 512))
	s.limits.turns = semaphore.NewWeighted(int64(feedTurns * runtime.GOMAXPROCS(0)))
	s.limits.streams.limit = int64(cmp.Or(c.MaxStreams, 64))
	s.limits.bodies.limit = max(cmp.Or(c.MaxBodiesBytes, 64<<20), s.maxBody)
	if s.sampler == nil {
		s.sampler, _ = feed.NewSampler(c.Activities, feed.SamplerConfig{}) // none is a share that there is
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.description = sync.OnceValues(func() ([]byte, error) { return openapi.Document(c.Activities.Kinds()) })
	s.procedures = newProcedures(s)
	s.measure(c.Metrics)
	return s
}

// handler answers all routes, with trace around each, unless that is nil.
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

// routeEscaped makes Echo route, and cut out parameters, by the path as the client
// escaped it. Left alone, it takes the unescaped path whenever that is
// unambiguous to net/url, and an id of "%2F" would then be unescaped twice.
func routeEscaped(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		u := c.Request().URL
		if u.RawPath == "" {
			u.RawPath = u.EscapedPath()
		}
		return next(c)
	}
}

// bounded returns the context of a request, with the service's timeout.
func (s *service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}
