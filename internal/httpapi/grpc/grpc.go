// Package grpc answers the procedures over gRPC, gRPC-Web and Connect with Protobuf. They share the
// limits, tokens, metrics, audit log and errors of the JSON routes.
package grpc

import (
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/core"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// maxReflection is the maximum length of a reflection or health request, in bytes.
const maxReflection = 4 << 10

// Handler has the routes of the procedures.
type Handler struct {
	Routes []core.Route

	// Fail answers a request of these routes that reached no procedure with err.
	Fail func(k *core.Call, err error)
	// EndWatches ends the health watches, and tells their clients that the service shuts down.
	EndWatches func()
}

// procedures serves the API over gRPC, gRPC-Web and Connect with Protobuf.
type procedures struct {
	operations *core.Operations
	limits     *core.Limits
	health     *core.Health
	buffers    core.Buffers
	errors     *connect.ErrorWriter // writes the errors of requests that reach no procedure
	watches    *healthWatches
}

// New returns the handler of the procedures.
func New(o *core.Operations, health *core.Health) Handler {
	p := &procedures{
		operations: o, limits: o.Limits, health: health, watches: newHealthWatches(),
		errors: connect.NewErrorWriter(connect.WithCodec(codec{})),
	}
	return Handler{Routes: append(p.standardRoutes(), p.routes()...), Fail: p.fail, EndWatches: p.watches.end}
}

func (p *procedures) routes() []core.Route {
	read, write := []access.Scope{access.FeedRead}, []access.Scope{access.ActivityWrite}
	o := p.operations
	list := unary(p, feedfilterv1connect.ActivityServiceListProcedure, p.list, read, core.AuditReads)
	list.Handle = o.WithLedger("a list", list.Handle)
	count := unary(p, feedfilterv1connect.ActivityServiceCountProcedure, p.count, read, core.AuditReads)
	count.Handle = o.WithLedger("a count", count.Handle)
	return []core.Route{
		list, count,
		unary(p, feedfilterv1connect.FeedServiceFilterProcedure, p.filter, read, 0),
		unary(p, feedfilterv1connect.FeedServiceExplainProcedure, p.explain, []access.Scope{access.FeedRead, access.OpsRead}, core.AuditAlways),
		unary(p, feedfilterv1connect.FeedServiceFanoutProcedure, p.fanout, read, core.AuditReads),
		unary(p, feedfilterv1connect.ActivityServiceRecordProcedure, p.record, write, 0),
		unary(p, feedfilterv1connect.ActivityServiceRecordPostsProcedure, p.recordPosts, write, 0),
		unary(p, feedfilterv1connect.ActivityServiceRecordBatchProcedure, p.recordBatch, write, 0),
		{
			Method: http.MethodPost, Path: feedfilterv1connect.ActivityServiceRecordStreamProcedure,
			Handle: p.recordStream(), Scopes: write,
		},
	}
}

// standardRoutes returns the procedures that gRPC clients expect of any service: health checks and
// reflection.
func (p *procedures) standardRoutes() []core.Route {
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxReflection), withoutGzip()}
	names := []string{feedfilterv1connect.FeedServiceName, feedfilterv1connect.ActivityServiceName, grpchealth.HealthV1ServiceName}
	reflector := grpcreflect.NewStaticReflector(names...)
	checker := healthChecker{p.health, names}
	health, healthHandler := grpchealth.NewHandler(checker, options...) // it does not implement Watch
	v1, v1Handler := grpcreflect.NewHandlerV1(reflector, options...)
	alpha, alphaHandler := grpcreflect.NewHandlerV1Alpha(reflector, options...)
	post := func(path string, handle core.Handler) core.Route {
		return core.Route{Method: http.MethodPost, Path: path, Handle: handle, Free: true}
	}
	return []core.Route{
		post(health+"Check", standard(healthHandler)),
		post(health+"Watch", p.watchProcedure(health+"Watch", checker)),
		post(v1+"ServerReflectionInfo", overHTTP2(standard(v1Handler))),
		post(alpha+"ServerReflectionInfo", overHTTP2(standard(alphaHandler))),
	}
}

// standard returns a route's handler that calls h, which belongs to a library.
func standard(h http.Handler) core.Handler {
	return func(k *core.Call) error {
		h.ServeHTTP(k.Response(), k.Request())
		return nil
	}
}
