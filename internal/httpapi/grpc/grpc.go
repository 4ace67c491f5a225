// Package grpc answers the procedures over gRPC, gRPC-Web and Connect with Protobuf. They share the
// limits, tokens, metrics, audit log and errors of the JSON routes.
package grpc

import (
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// maxReflection is the maximum length of a reflection or health request, in bytes.
const maxReflection = 4 << 10

// Handler has the routes of the procedures.
type Handler struct {
	Routes []wire.Route

	// Fail answers a request of these routes that reached no procedure with err.
	Fail func(k *wire.Call, err error)
	// EndWatches ends the health watches, and tells their clients that the service shuts down.
	EndWatches func()
}

// procedures serves the API over gRPC, gRPC-Web and Connect with Protobuf.
type procedures struct {
	operations *operations.Operations
	limits     *limits.Limits
	buffers    wire.Buffers
	errors     *connect.ErrorWriter // writes the errors of requests that reach no procedure
	watches    *healthWatches
}

// New returns the handler of the procedures.
func New(o *operations.Operations) Handler {
	p := newProcedures(o)
	return Handler{Routes: append(p.standardRoutes(), p.routes()...), Fail: p.fail, EndWatches: p.watches.end}
}

func newProcedures(o *operations.Operations) *procedures {
	return &procedures{
		operations: o, limits: o.Limits, watches: newHealthWatches(),
		errors: connect.NewErrorWriter(connect.WithCodec(codec{})),
	}
}

func (p *procedures) routes() []wire.Route {
	read, write := []access.Scope{access.FeedRead}, []access.Scope{access.ActivityWrite}
	o := p.operations
	list := unary(p, feedfilterv1connect.ActivityServiceListProcedure, p.list, read, wire.AuditReads)
	list.Handle = o.WithLedger("a list", list.Handle)
	count := unary(p, feedfilterv1connect.ActivityServiceCountProcedure, p.count, read, wire.AuditReads)
	count.Handle = o.WithLedger("a count", count.Handle)
	return []wire.Route{
		list, count,
		unary(p, feedfilterv1connect.FeedServiceFilterProcedure, p.filter, read, 0),
		unary(p, feedfilterv1connect.FeedServiceExplainProcedure, p.explain, []access.Scope{access.FeedRead, access.OpsRead}, wire.AuditAlways),
		unary(p, feedfilterv1connect.FeedServiceFanoutProcedure, p.fanout, read, wire.AuditReads),
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
func (p *procedures) standardRoutes() []wire.Route {
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxReflection), withoutGzip()}
	names := []string{feedfilterv1connect.FeedServiceName, feedfilterv1connect.ActivityServiceName, grpchealth.HealthV1ServiceName}
	reflector := grpcreflect.NewStaticReflector(names...)
	checker := healthChecker{p.operations.Health, names}
	health, healthHandler := grpchealth.NewHandler(checker, options...) // it does not implement Watch
	v1, v1Handler := grpcreflect.NewHandlerV1(reflector, options...)
	alpha, alphaHandler := grpcreflect.NewHandlerV1Alpha(reflector, options...)
	post := func(path string, handle wire.Handler) wire.Route {
		return wire.Route{Method: http.MethodPost, Path: path, Handle: handle, Free: true}
	}
	return []wire.Route{
		post(health+"Check", standard(healthHandler)),
		post(health+"Watch", p.watchProcedure(health+"Watch", checker)),
		post(v1+"ServerReflectionInfo", overHTTP2(standard(v1Handler))),
		post(alpha+"ServerReflectionInfo", overHTTP2(standard(alphaHandler))),
	}
}

// standard returns a route's handler that calls h, which belongs to a library.
func standard(h http.Handler) wire.Handler {
	return func(k *wire.Call) error {
		h.ServeHTTP(k.Response(), k.Request())
		return nil
	}
}
