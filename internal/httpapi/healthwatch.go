package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protowire"
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

// tooManyWatches is the error of a watch beyond maxWatches. gRPC clients take the code
// UNIMPLEMENTED for "healthy". With any other code they would stop using a service that works.
func tooManyWatches() error {
	return connect.NewError(connect.CodeUnimplemented, errors.New("too many watches"))
}

func shuttingDown() error {
	return connect.NewError(connect.CodeUnavailable, errors.New("the service is shutting down"))
}

// healthWatches answers the calls of grpc.health.v1.Health/Watch.
type healthWatches struct {
	watches budget
	ended   chan struct{} // closed when the service shuts down
	end     func()        // closes it

	mu    sync.Mutex
	asked time.Time // time of the last check of the dependencies
	ready bool      // its result
}

func newHealthWatches() *healthWatches {
	w := &healthWatches{ended: make(chan struct{})}
	w.watches.limit = maxWatches
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
		if number == 1 && wireType == protowire.BytesType {
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
	return protowire.AppendVarint(protowire.AppendTag(dst, 1, protowire.VarintType), uint64(m.status))
}

// watchStream is the answer to a watch.
type watchStream = connect.ServerStream[watchAnswer]

// watchProcedure answers a watch: it sends the status at once and after each change.
func (s *procedures) watchProcedure(procedure string, health healthChecker) echo.HandlerFunc {
	handler := connect.NewServerStreamHandler(procedure,
		func(ctx context.Context, req *connect.Request[watchRequest], stream *watchStream) error {
			k := ctx.Value(callKey{}).(*call) //nolint:forcetypeassert // serveProcedure sets it
			k.begun = true
			if !s.watches.watches.take("", 1) {
				return tooManyWatches()
			}
			defer s.watches.watches.give("", 1)
			s.limits.guests.leave(k.guest)
			return s.watch(ctx, k, health.has(req.Msg.service), stream)
		}, connect.WithCodec(codec{}), connect.WithReadMaxBytes(maxReflection), withoutGzip())
	return overHTTP2(func(c echo.Context) error {
		s.serveProcedure(callOf(c), handler)
		return nil
	})
}

// watch sends the status until the client leaves or the service shuts down.
func (s *procedures) watch(ctx context.Context, k *call, known bool, stream *watchStream) error {
	conn := newStreamConn(k, s.idle)
	defer conn.release()
	sent := grpchealth.StatusUnknown // no service has this status
	send := func(status grpchealth.Status) error {
		if status == sent {
			return nil
		}
		sent = status
		if err := conn.expectWrite(); err != nil {
			return err
		}
		if err := stream.Send(&watchAnswer{status}); err != nil {
			return err
		}
		return supported(conn.control.SetWriteDeadline(time.Time{})) // no deadline until the next answer
	}
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		status := statusServiceUnknown
		if known {
			status = s.watchedStatus(ctx)
		}
		if err := send(status); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.watches.ended:
			return errors.Join(send(grpchealth.StatusNotServing), shuttingDown())
		}
	}
}

// watchedStatus returns the status that all watches share. It asks the dependencies at most twice
// in watchPause, however many watches there are.
func (s *procedures) watchedStatus(ctx context.Context) grpchealth.Status {
	w := s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.asked) >= watchPause/2 {
		w.ready, _ = s.dependencies(ctx)
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

// EndWatches ends the health watches of gRPC clients, and tells them that the service shuts down.
// Pass it to [http.Server.RegisterOnShutdown]: Shutdown waits for all requests, and a watch does
// not end by itself.
func (h *Handler) EndWatches() { h.watches.end() }
