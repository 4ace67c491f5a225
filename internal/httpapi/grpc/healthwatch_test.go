package grpc_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // checks the health of services by Watch
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// watch watches the health of a service.
func watch(t *testing.T, conn *grpc.ClientConn, service string) healthv1.Health_WatchClient {
	t.Helper()
	stream, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: service})
	httpapitest.Must(t, err)
	return stream
}

// wantStatus asserts the next status of a watch.
func wantStatus(t *testing.T, stream healthv1.Health_WatchClient, want healthv1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	if got, err := stream.Recv(); err != nil || got.GetStatus() != want {
		t.Errorf("%v, %v; want %v", got.GetStatus(), err, want)
	}
}

// startTimed serves h with a timeout to read and to write, and returns the server and address.
func startTimed(t *testing.T, h *httpapi.Handler, timeout time.Duration) (*httptest.Server, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = httpapitest.BothProtocols()
	server.Config.ReadTimeout, server.Config.WriteTimeout = timeout, timeout
	server.Config.RegisterOnShutdown(h.EndWatches)
	server.Start()
	t.Cleanup(server.Close)
	return server, server.Listener.Addr().String()
}

func handlerOf(t *testing.T, s *httpapitest.Service) *httpapi.Handler {
	t.Helper()
	h, ok := s.Handler.(*httpapi.Handler)
	if !ok {
		t.Fatalf("a %T", s.Handler)
	}
	return h
}

// TestHealthWatch: a watch sends the status at once and after each change, and outlasts the
// server's timeouts.
func TestHealthWatch(t *testing.T) {
	s := httpapitest.Open(t)
	h := handlerOf(t, s)
	const timeout = time.Second // a watch that begins later is cut off
	_, addr := startTimed(t, h, timeout)
	conn := httpapitest.DialGRPC(t, addr)
	begun := time.Now()
	whole, feeds, unknown := watch(t, conn, ""), watch(t, conn, feedfilterv1connect.FeedServiceName), watch(t, conn, "nothing")
	wantStatus(t, whole, httpapitest.Serving)
	wantStatus(t, feeds, httpapitest.Serving)
	wantStatus(t, unknown, healthv1.HealthCheckResponse_SERVICE_UNKNOWN)
	s.Ledger.Set(httpapitest.Failing)
	for time.Since(begun) < 2*timeout {
		s.Store.Set(httpapitest.Failing)
		wantStatus(t, whole, httpapitest.NotServing)
		wantStatus(t, feeds, httpapitest.NotServing)
		s.Store.Set(httpapitest.Sound)
		wantStatus(t, whole, httpapitest.Serving)
		wantStatus(t, feeds, httpapitest.Serving)
	}
	h.EndWatches()
	wantStatus(t, unknown, httpapitest.NotServing) // the other changes did not reach this watch
}

// TestHealthWatchAtShutdown: watches do not hold up the shutdown of a server.
func TestHealthWatchAtShutdown(t *testing.T) {
	s := httpapitest.Open(t)
	server, addr := startTimed(t, handlerOf(t, s), time.Hour)
	conn := httpapitest.DialGRPC(t, addr)
	known, unknown := watch(t, conn, ""), watch(t, conn, "nothing")
	wantStatus(t, known, httpapitest.Serving)
	wantStatus(t, unknown, healthv1.HealthCheckResponse_SERVICE_UNKNOWN)
	if err := server.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, stream := range []healthv1.Health_WatchClient{known, unknown} {
		wantStatus(t, stream, httpapitest.NotServing)
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
	}
}

// TestClientSideHealthChecks: a gRPC client with health checks calls a service only while it is
// ready.
func TestClientSideHealthChecks(t *testing.T) {
	s := httpapitest.Open(t)
	_, addr := startTimed(t, handlerOf(t, s), time.Hour)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(
		`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":"`+feedfilterv1connect.FeedServiceName+`"}}`))
	httpapitest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until := func(want connectivity.State) {
		t.Helper()
		for state := conn.GetState(); state != want; state = conn.GetState() {
			if !conn.WaitForStateChange(limit, state) {
				t.Fatalf("%v, never %v", state, want)
			}
		}
	}
	conn.Connect()
	until(connectivity.Ready)
	s.Ledger.Set(httpapitest.Failing)
	s.Store.Set(httpapitest.Failing)
	until(connectivity.TransientFailure)
	s.Ledger.Set(httpapitest.Sound)
	until(connectivity.Ready)
}
