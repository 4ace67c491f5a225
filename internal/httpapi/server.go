package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi/grpc"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/ops"
	"github.com/feedfilter/feedfilter/internal/httpapi/rest"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// Config configures a handler. Activities is required; the rest has defaults.
type Config struct {
	_ struct{} // fields are named

	Activities activity.Activities // the caller closes it after the last request
	Logger     *slog.Logger        // default: discards
	Sampler    *sampler.Sampler    // closed by the caller before Activities; default: samples none

	Trace echo.MiddlewareFunc // wraps every request; may be nil

	// Sources returns what the process knows of sources. Nil: nothing.
	Sources func() []follow.Status

	// MaxBodyBytes is the maximum length of a JSON body or a Protobuf message, in bytes. A longer
	// one is answered 413. It does not limit NDJSON streams. Default 1 MiB, enough for 10,000
	// activities of the built-in kinds with ids of 20 bytes.
	MaxBodyBytes int64

	// Timeout is how long a request, or a chunk of a stream, may wait for the ledger and the pages
	// before it is answered 503. Default 10 s.
	Timeout time.Duration

	// MaxRequests is the maximum number of requests in progress, without probes. Further requests
	// are answered 503 at once, before their body is read. Default 512. Of this limit and of the
	// two below, one token gets seven eighths at most.
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

	// Events receives events of a source. Nil: no source sends any.
	Events *follow.Receiver

	// Access configures who may make which calls. The zero value allows all calls.
	Access limits.Access

	// Metrics is the registry that GET /metrics answers with. The service adds its own metrics and
	// those of the Recorder. Default: a new registry.
	Metrics *metrics.Registry

	// Background runs a function in the background, with a context that ends when the function must
	// return. The handler keeps its history with it. Nil: there is no history.
	Background func(do func(ctx context.Context))

	About ops.About
}

const metricsPath = "/metrics"

// Handler answers all routes. Its limit on requests can be changed at any time.
type Handler struct {
	http.Handler

	limits  *limits.Limits
	reports *operations.Reports
	endLong func()
}

// Unread counts a request whose header the server did not read in time, and returns the answer of
// HTTP/1.1 to it. No handler gets such a request; its connection notices. late says that this
// process read too late, because of overload. Otherwise the client sent too slowly.
func (h *Handler) Unread(late bool) (answer []byte) { return h.reports.Unread(late) }

// SetMaxRequests changes [Config.MaxRequests], 1 or more. It does not affect requests in progress.
func (h *Handler) SetMaxRequests(n int) { h.limits.BoundRequests(n) }

// EndWatches ends the health watches of gRPC clients, and tells them that the service shuts down.
// It also ends a profile. Pass it to [http.Server.RegisterOnShutdown]: Shutdown waits for all
// requests, and a watch does not end by itself.
func (h *Handler) EndWatches() { h.endLong() }

// New returns the handler of all routes, for an [http.Server] that the caller runs. It is safe for
// concurrent use.
//
// The kinds determine the routes of activities. A kind in the ledger has GET, PUT and DELETE
// /v1/users/{user}/{plural}/{target}, and a list at GET /v1/users/{user}/{plural}. If it targets
// users, it also has GET /v1/targets/{user}/{plural}. A kind with a window has POST
// /v1/users/{user}/{plural}. The kind's name works in place of its plural.
//
// The server's read and write timeouts apply to all requests, with three exceptions. Streams and
// exports extend them while they progress. DELETE /v1/users/{user} may take five minutes. Health
// watches have no limit: see [Handler.EndWatches]. Every request ends with its context.
func New(c Config) *Handler {
	f := newFront(c)
	if c.Background != nil {
		c.Background(f.history.Run)
	}
	e := echo.New()
	e.Pre(routed(c.Activities.Kinds()))
	if c.Trace != nil {
		e.Use(c.Trace)
	}
	e.Use(f.observe)
	f.addRoutes(e)
	endLong := func() {
		f.procedures.EndWatches()
		f.profiles.End()
	}
	return &Handler{
		Handler: e, limits: f.operations.Limits, reports: f.operations.Reports, endLong: endLong,
	}
}

// NewMonitor returns the handler of a process that is watched but answers no calls, such as a
// follower of a source. It has GET /metrics, /healthz and /readyz, under the access control of the
// service.
func NewMonitor(c Config) *Handler {
	f := newFront(c)
	f.routes = slices.DeleteFunc(f.routes, func(r wire.Route) bool {
		return !slices.Contains([]string{metricsPath, "/healthz", "/readyz"}, r.Path)
	})
	f.procedures.Routes = nil
	e := echo.New()
	e.Use(f.observe)
	f.addRoutes(e)
	return &Handler{
		Handler: e, limits: f.operations.Limits, reports: f.operations.Reports,
		endLong: f.procedures.EndWatches,
	}
}

// front joins the packages that answer calls.
type front struct {
	operations *operations.Operations
	procedures grpc.Handler
	paths      map[string]bool // of the procedures
	history    *ops.History
	profiles   *ops.Profiles
	routes     []wire.Route
	meters     meters
}

func newFront(c Config) *front {
	registry := c.Metrics
	if registry == nil {
		registry = metrics.New(metrics.Settings{})
	}
	o := operationsOf(c, registry)
	measure(o, registry)
	f := &front{operations: o, procedures: grpc.New(o), paths: make(map[string]bool)}
	for _, r := range f.procedures.Routes {
		f.paths[r.Path] = true
	}
	f.history, f.profiles = ops.NewHistory(o, f.meters.feedDurations), ops.NewProfiles(o)
	read := []access.Scope{access.OpsRead}
	all := [][]wire.Route{ops.Documents(o.Activities.Kinds()), rest.Routes(o), ops.Routes(o, c.About), f.profiles.Routes()}
	f.routes = append(slices.Concat(all...), []wire.Route{
		{Method: http.MethodGet, Path: metricsPath, Handle: ops.Scrape(registry.Handler()), Scopes: read, Free: true},
		{Method: http.MethodGet, Path: "/v1/ops/history", Handle: f.history.Answer, Scopes: read, Free: true},
	}...)
	f.meters = newMeters(registry, append(f.routes, f.procedures.Routes...))
	return f
}

// operationsOf returns the calls that the configuration describes.
func operationsOf(c Config, registry *metrics.Registry) *operations.Operations {
	return operations.New(c.Activities, registry, operations.Config{
		Logger: c.Logger, Sampler: c.Sampler, Sources: c.Sources, Events: c.Events, Access: c.Access,
		Limits: limits.Config{
			MaxBody: c.MaxBodyBytes, Timeout: c.Timeout, Idle: c.StreamIdle,
			Requests: c.MaxRequests, Streams: c.MaxStreams, Bodies: c.MaxBodiesBytes,
		},
	})
}

// addRoutes adds all routes to e. Each GET route also answers HEAD.
func (f *front) addRoutes(e *echo.Echo) {
	o, below := f.operations, make(map[string]bool)
	for _, r := range append(f.routes, f.procedures.Routes...) {
		handle := func(c echo.Context) error {
			k := wire.CallOf(c)
			if err := o.Access.Admit(r, k); err != nil {
				return err
			}
			return o.Limits.Limited(r, k)
		}
		e.Add(r.Method, r.Path, handle)
		if r.Method == http.MethodGet {
			e.HEAD(r.Path, handle)
		}
		below[r.Path] = true
	}
	e.RouteNotFound(ops.KeyPath+"/*", echo.NotFoundHandler)
	for _, k := range o.Activities.Kinds().All() {
		// Without this route, the last parameter would match the rest of the path, slashes
		// included.
		if one := "/v1/users/:user/" + k.Plural + "/:target"; below[one] {
			e.RouteNotFound(one+"/*", echo.NotFoundHandler)
		}
	}
}

// routed makes Echo match the path as the client escaped it, with the plural of a kind in place of
// its name. Otherwise Echo often matches the unescaped path, and would unescape "%252F" twice.
func routed(kinds *activity.Kinds) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			u := c.Request().URL
			if u.RawPath == "" {
				u.RawPath = u.EscapedPath()
			}
			for _, of := range [...]string{"/v1/users/", "/v1/targets/"} {
				below, ok := strings.CutPrefix(u.RawPath, of)
				user, rest, _ := strings.Cut(below, "/")
				name, _, _ := strings.Cut(rest, "/")
				if k, known := kinds.Named(name); ok && known && name != k.Plural {
					u.RawPath = of + user + "/" + k.Plural + rest[len(name):]
				}
			}
			return next(c)
		}
	}
}
