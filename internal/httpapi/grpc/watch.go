package grpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

const (
	// maxWatches is the maximum number of health watches. A gRPC client that checks the health has
	// one on each connection.
	maxWatches = 1024
	// watchPause is the time between two checks of the dependencies.
	watchPause = time.Second
	// statusServiceUnknown is a status of the protocol for which grpchealth has no name.
	statusServiceUnknown grpchealth.Status = 3
)

// Fields of a HealthCheckRequest, and of a HealthCheckResponse.
const (
	fieldService = 1
	fieldStatus  = 1
)

// healthWatches answers the calls of grpc.health.v1.Health/Watch.
type healthWatches struct {
	watches limits.Budget
	ended   chan struct{} // closed when the service shuts down
	end     func()        // closes it

	mu    sync.Mutex
	asked time.Time // time of the last check of the dependencies
	ready bool      // its result
}

func newHealthWatches() *healthWatches {
	w := &healthWatches{ended: make(chan struct{})}
	w.watches.Limit = maxWatches
	w.end = sync.OnceFunc(func() { close(w.ended) })
	return w
}

// watchRequest is a grpc.health.v1.HealthCheckRequest.
type watchRequest struct{ service string }

// read implements reader. It ignores fields that it does not know.
func (m *watchRequest) read(data []byte) {
	for len(data) > 0 {
		number, wireType, n := protowire.ConsumeField(data)
		if n < 0 {
			return
		}
		if number == fieldService && wireType == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(data)
			service, _ := protowire.ConsumeBytes(data[tag:])
			m.service = string(service)
		}
		data = data[n:]
	}
}

// watchAnswer is a grpc.health.v1.HealthCheckResponse.
type watchAnswer struct{ status grpchealth.Status }

// appendTo implements appender.
func (m *watchAnswer) appendTo(dst []byte) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, fieldStatus, protowire.VarintType), uint64(m.status))
}

// watchStream is the answer to a watch.
type watchStream = connect.ServerStream[watchAnswer]

// watchProcedure answers a watch: it sends the status at once and after each change.
func (p *procedures) watchProcedure(procedure string, health healthChecker) wire.Handler {
	handler := connect.NewServerStreamHandler(procedure,
		func(ctx context.Context, req *connect.Request[watchRequest], stream *watchStream) error {
			k := begin(ctx).call
			if !p.watches.watches.Take("", 1) {
				// gRPC clients take this code for "healthy". With any other code they would stop using a
				// service that works.
				return connect.NewError(connect.CodeUnimplemented, errors.New("too many watches"))
			}
			defer p.watches.watches.Give("", 1)
			p.limits.Leave(k)
			return p.watch(ctx, k, health.has(req.Msg.service), stream)
		}, connect.WithCodec(codec{}), connect.WithReadMaxBytes(maxReflection), withoutGzip())
	return overHTTP2(func(k *wire.Call) error {
		serve(&request{call: k}, handler)
		return nil
	})
}

// watch sends the status until the client leaves or the service shuts down.
func (p *procedures) watch(ctx context.Context, k *wire.Call, known bool, stream *watchStream) error {
	conn := wire.NewStreamConn(k, p.limits.Idle)
	defer conn.Release()
	sent := grpchealth.StatusUnknown // no service has this status
	send := func(status grpchealth.Status) error {
		if status == sent {
			return nil
		}
		sent = status
		if err := conn.ExpectWrite(); err != nil {
			return err
		}
		if err := stream.Send(&watchAnswer{status}); err != nil {
			return err
		}
		return conn.WaitForever()
	}
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		status := statusServiceUnknown
		if known {
			status = p.watches.status(ctx, p.operations.Health)
		}
		if err := send(status); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.watches.ended:
			ended := connect.NewError(connect.CodeUnavailable, errors.New("the service is shutting down"))
			return errors.Join(send(grpchealth.StatusNotServing), ended)
		}
	}
}

// status returns the status that all watches share. It asks the dependencies at most twice in
// watchPause, however many watches there are.
func (w *healthWatches) status(ctx context.Context, health *operations.Health) grpchealth.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.asked) >= watchPause/2 {
		w.ready, _ = health.Ask(ctx)
		w.asked = time.Now()
	}
	return servingStatus(w.ready)
}

func servingStatus(ready bool) grpchealth.Status {
	if ready {
		return grpchealth.StatusServing
	}
	return grpchealth.StatusNotServing
}

// healthChecker answers the health checks of gRPC clients, with the result of GET /readyz.
type healthChecker struct {
	health   *operations.Health
	services []string
}

// Check implements [grpchealth.Checker].
func (h healthChecker) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if !h.has(req.Service) {
		return nil, connect.NewError(connect.CodeNotFound, errUnknownService)
	}
	ready, _ := h.health.Ask(ctx)
	return &grpchealth.CheckResponse{Status: servingStatus(ready)}, nil
}

// has reports whether the service exists. The name "" stands for all services together.
func (h healthChecker) has(service string) bool {
	return service == "" || slices.Contains(h.services, service)
}
