package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// received is what a collector has received.
type received struct {
	mu       sync.Mutex
	spans    []*spans.Span
	resource map[string]string
	paths    map[string]bool
}

// buffer is a log that can be read during writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// collect starts a collector.
func collect(t *testing.T) (*received, *httptest.Server) {
	t.Helper()
	got := &received{resource: make(map[string]string), paths: make(map[string]bool)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unzipped
		}
		raw, err := io.ReadAll(body)
		var export collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &export)
		}
		if err != nil {
			t.Error(err)
			return
		}
		got.mu.Lock()
		defer got.mu.Unlock()
		got.paths[r.URL.Path] = true
		for _, of := range export.GetResourceSpans() {
			for _, a := range of.GetResource().GetAttributes() {
				got.resource[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, scope := range of.GetScopeSpans() {
				got.spans = append(got.spans, scope.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return got, server
}

// ask sends n requests to a handler that does nothing.
func ask(t *testing.T, tracer *Tracer, n int) {
	t.Helper()
	e := echo.New()
	e.Use(tracer.Requests(anybody))
	e.GET("/v1/users/:user", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	for range n {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/secret", nil))
		if w.Code != http.StatusOK {
			t.Fatalf("answered %d", w.Code)
		}
	}
}

// TestExport: by the time that the Tracer is closed, the collector has every span over OTLP, with
// its resource.
func TestExport(t *testing.T) {
	for _, path := range []string{"", "/", "/collector/traces"} {
		got, server := collect(t)
		tracer, err := Open(t.Context(), Config{Endpoint: server.URL + path, Ratio: 1, Version: "v1.2.3"})
		must(t, err)
		ask(t, tracer, 40)
		must(t, tracer.Close(t.Context()))
		got.mu.Lock()
		if len(got.spans) != 40 || got.spans[0].GetName() != "GET /v1/users/:user" || len(got.spans[0].GetTraceId()) != 16 {
			t.Errorf("%d spans, %v", len(got.spans), got.spans[0])
		}
		if want := fmt.Sprint(map[string]string{"service.name": "feedfilter", "service.version": "v1.2.3"}); fmt.Sprint(got.resource) != want {
			t.Errorf("resource %v", got.resource)
		}
		want := path
		if len(path) < 2 {
			want = "/v1/traces"
		}
		if !got.paths[want] || len(got.paths) != 1 {
			t.Errorf("sent to %v", got.paths)
		}
		if strings.Contains(fmt.Sprint(got.spans), "secret") {
			t.Error("a span contains an id")
		}
		got.mu.Unlock()
	}
}

// TestHangingCollector: a collector that accepts connections but never answers delays nothing,
// takes little memory, and is logged once.
func TestHangingCollector(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	var logged buffer
	tracer, err := Open(t.Context(), Config{
		Endpoint: "http://" + listener.Addr().String(), Ratio: 1, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	must(t, err)
	ask(t, tracer, 5*maxQueued) // would not end if requests waited for the collector
	select {
	case conn := <-accepted: // the collector was contacted
		defer conn.Close()
	case <-time.After(20 * time.Second):
		t.Error("the collector was not contacted")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err = tracer.Close(ctx)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("closed after %v", took)
	}
	if n := strings.Count(logged.String(), "cannot be sent"); n > 1 {
		t.Errorf("logged %d times, closed with %v: %s", n, err, logged.String())
	}
}

// TestNoCollector: a missing collector is logged once, however many spans are dropped.
func TestNoCollector(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	var logged buffer
	tracer, err := Open(t.Context(), Config{Endpoint: server.URL, Ratio: 1, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	must(t, err)
	ask(t, tracer, 3*maxBatch)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = tracer.Close(ctx)
	for end := time.Now().Add(20 * time.Second); logged.String() == "" && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // it may still be trying
	}
	if n := strings.Count(logged.String(), "cannot be sent"); n != 1 {
		t.Errorf("logged %d times: %s", n, logged.String())
	}
}
