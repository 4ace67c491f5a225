package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// explainProcedure is the path of the procedure that is audited although it only reads.
const explainProcedure = feedfilterv1connect.FeedServiceExplainProcedure

// maxReflection is the maximum length of a reflection or health request, in bytes.
const maxReflection = 4 << 10

// procedures serves the API over gRPC, gRPC-Web and Connect with Protobuf. Its routes share the
// limits, tokens, metrics, audit log and errors of the JSON routes.
type procedures struct {
	userCalls

	routes  []route
	paths   map[string]bool      // of the routes
	errors  *connect.ErrorWriter // writes the errors of requests that reach no procedure
	watches *healthWatches
}

func newProcedures(of *service) *procedures {
	s := &procedures{
		userCalls: userCalls{of}, paths: make(map[string]bool), watches: newHealthWatches(),
		errors: connect.NewErrorWriter(connect.WithCodec(codec{})),
	}
	s.routes = s.allRoutes()
	for _, r := range s.routes {
		s.paths[r.path] = true
	}
	return s
}

func (s *procedures) allRoutes() []route {
	read := []access.Scope{access.FeedRead}
	write := []access.Scope{access.ActivityWrite}
	explain := []access.Scope{access.FeedRead, access.OpsRead}
	return append(s.standardRoutes(),
		unary(s, feedfilterv1connect.FeedServiceFilterProcedure, s.filterProcedure, read),
		unary(s, explainProcedure, s.explainProcedure, explain),
		unary(s, feedfilterv1connect.FeedServiceFanoutProcedure, s.fanoutProcedure, read),
		unary(s, feedfilterv1connect.ActivityServiceRecordProcedure, s.recordProcedure, write),
		unary(s, feedfilterv1connect.ActivityServiceRecordPostsProcedure, s.recordPostsProcedure, write),
		unary(s, feedfilterv1connect.ActivityServiceRecordBatchProcedure, s.recordBatchProcedure, write),
		s.needsLedger("a list", unary(s, feedfilterv1connect.ActivityServiceListProcedure, s.listProcedure, read)),
		s.needsLedger("a count", unary(s, feedfilterv1connect.ActivityServiceCountProcedure, s.countProcedure, read)),
		route{http.MethodPost, feedfilterv1connect.ActivityServiceRecordStreamProcedure, s.recordStreamProcedure(), write, false})
}

// standardRoutes returns the procedures that gRPC clients expect of any service: health checks and
// reflection.
func (s *procedures) standardRoutes() []route {
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxReflection), withoutGzip()}
	names := []string{feedfilterv1connect.FeedServiceName, feedfilterv1connect.ActivityServiceName, grpchealth.HealthV1ServiceName}
	reflector := grpcreflect.NewStaticReflector(names...)
	checker := healthChecker{s.service, names}
	health, healthHandler := grpchealth.NewHandler(checker, options...) // it does not implement Watch
	v1, v1Handler := grpcreflect.NewHandlerV1(reflector, options...)
	alpha, alphaHandler := grpcreflect.NewHandlerV1Alpha(reflector, options...)
	return []route{
		{http.MethodPost, health + "Check", standard(healthHandler), nil, true},
		{http.MethodPost, health + "Watch", s.watchProcedure(health+"Watch", checker), nil, true},
		{http.MethodPost, v1 + "ServerReflectionInfo", overHTTP2(standard(v1Handler)), nil, true},
		{http.MethodPost, alpha + "ServerReflectionInfo", overHTTP2(standard(alphaHandler)), nil, true},
	}
}

// standard returns a route's handler that calls h, which belongs to a library.
func standard(h http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		h.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}

// overHTTP2 refuses a stream over HTTP/1, where an answer cannot begin before the request ends.
func overHTTP2(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().ProtoMajor < 2 {
			leaveBody(c)
			return refuse(codeMalformedMessage, "", "this stream needs HTTP/2")
		}
		return next(c)
	}
}

// healthChecker answers the health checks of gRPC clients, with the result of GET /readyz.
type healthChecker struct {
	of       *service
	services []string
}

// Check implements [grpchealth.Checker].
func (h healthChecker) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if !h.has(req.Service) {
		return nil, connect.NewError(connect.CodeNotFound, errUnknownService)
	}
	ready, _ := h.of.dependencies(ctx)
	return &grpchealth.CheckResponse{Status: servingStatus(ready)}, nil
}

// has reports whether the service exists. The name "" stands for all services together.
func (h healthChecker) has(service string) bool {
	return service == "" || slices.Contains(h.services, service)
}

// withoutGzip makes connect refuse compressed requests, as the JSON API does, and send answers
// uncompressed, which saves time.
func withoutGzip() connect.HandlerOption { //nolint:ireturn // what the library has for options
	return connect.WithCompression("gzip", nil, nil)
}

// callKey is the key of the call in the context that connect passes to a procedure.
type callKey struct{}

// unary returns the route of a procedure with one request and one answer.
func unary[Req, Res any](
	s *procedures, path string, do func(ctx context.Context, k *call, req *Req) (*Res, error), scopes []access.Scope,
) route {
	handler := connect.NewUnaryHandlerSimple(path, func(ctx context.Context, req *Req) (*Res, error) {
		k := ctx.Value(callKey{}).(*call) //nolint:forcetypeassert // serveProcedure sets it
		k.begun = true
		if bad, ok := any(req).(interface{ problem() error }); ok && bad.problem() != nil {
			return nil, s.problem(k, bad.problem()) //nolint:contextcheck // the call has the request's
		}
		work, done := untilDeadline(ctx, k)
		defer done()
		res, err := do(work, k, req)
		if err != nil {
			return nil, s.problem(k, atDeadline(ctx, err)) //nolint:contextcheck // the call has the request's
		}
		return res, nil
	}, connect.WithCodec(codec{}), withoutGzip())
	return route{http.MethodPost, path, func(c echo.Context) error {
		if _, err := query(c); err != nil {
			return err
		}
		k := callOf(c)
		release, err := s.holdMessage(k)
		if err != nil {
			return err
		}
		defer release()
		s.serveProcedure(k, handler)
		return nil
	}, scopes, false}
}

// needsLedger returns the route of a procedure that needs a ledger.
func (s *procedures) needsLedger(call string, r route) route {
	r.handle = s.withLedger(call, r.handle)
	return r
}

// serveProcedure calls the handler of a procedure. Connect itself answers a request that fails
// before the procedure begins, for example because gRPC forbids one of its headers. Such a request
// counts as malformed.
func (s *procedures) serveProcedure(k *call, handler http.Handler) {
	r := k.Request()
	handler.ServeHTTP(k.Response(), r.WithContext(context.WithValue(r.Context(), callKey{}, k)))
	switch {
	case k.failed != nil || k.begun:
	case endedAtDeadline(k):
		k.failed = errDeadline
	default:
		k.failed = refuse(codeMalformedMessage, "", "the request violates its protocol")
	}
}

// endedAtDeadline reports whether connect answered that the client's deadline has passed.
func endedAtDeadline(k *call) bool {
	const exceeded = "4" // as gRPC writes connect.CodeDeadlineExceeded
	res := k.Response()
	return res.Status == http.StatusGatewayTimeout || res.Header().Get(http.TrailerPrefix+"Grpc-Status") == exceeded
}

// untilDeadline returns the context for the work of a call. from is connect's context, with the
// client's deadline. At the deadline, the work is canceled as if the client had left.
//
// The deadline itself stays out of the context. Otherwise Redis and the ledger would count a
// client's short deadline as a failure of their own. Five failures open the circuit breaker of a
// Redis node. A command that Redis is executing ends with its own timeout, as after a client that
// left.
func untilDeadline(from context.Context, k *call) (work context.Context, done context.CancelFunc) {
	if _, ok := from.Deadline(); !ok {
		return from, func() {}
	}
	work, cancel := context.WithCancel(k.Request().Context())
	stop := context.AfterFunc(from, cancel)
	return work, func() {
		stop()
		cancel()
	}
}

// atDeadline returns err, with errDeadline around it if the client's deadline ended the call.
func atDeadline(from context.Context, err error) error {
	if errors.Is(from.Err(), context.DeadlineExceeded) && describe(err).Code == codeUnavailable {
		return fmt.Errorf("%w: %w", errDeadline, err)
	}
	return err
}

// incoming is a message, or the error of reading it. The handler answers that error, because
// connect would answer it without an ErrorDetail.
type incoming[M any] struct {
	message M
	err     error
}

func (m *incoming[M]) problem() error { return m.err }
