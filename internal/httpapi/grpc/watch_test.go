package grpc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/grpchealth"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// begun is an answer that records when its first part was written, and the write deadline.
type begun struct {
	*httptest.ResponseRecorder

	once sync.Once
	at   chan struct{}

	deadline, written time.Time // the write deadline now, and at the last write
}

func (b *begun) Write(p []byte) (int, error) {
	defer b.once.Do(func() { close(b.at) })
	b.written = b.deadline
	return b.ResponseRecorder.Write(p)
}

func (b *begun) SetWriteDeadline(deadline time.Time) error {
	b.deadline = deadline
	return nil
}

// TestHealthWatchesAreBounded: a watch beyond the limit is told that watches are unsupported, and a
// watch ends with its client.
func TestHealthWatchesAreBounded(t *testing.T) {
	p := newProcedures(operationsOn(&asked{ready: true}))
	p.watches.watches.Limit = 1
	var watch wire.Handler
	for _, r := range p.standardRoutes() {
		if strings.HasSuffix(r.Path, "/Watch") {
			watch = r.Handle
		}
	}
	serveWatch := func(w http.ResponseWriter, r *http.Request) {
		call := &wire.Call{Context: echo.New().NewContext(r, w)}
		if err := watch(call); err != nil {
			p.fail(call, err) //nolint:contextcheck // the call has the request's
		}
	}
	ask := func(ctx context.Context) (w *begun, done chan struct{}) {
		w, done = &begun{ResponseRecorder: httptest.NewRecorder(), at: make(chan struct{})}, make(chan struct{})
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/grpc.health.v1.Health/Watch", strings.NewReader("\x00\x00\x00\x00\x00"))
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
		r.Header.Set("Content-Type", "application/grpc")
		go func() {
			defer close(done)
			serveWatch(w, r)
		}()
		return w, done
	}
	for range 2 { // a watch that ended leaves its place to the next
		ctx, cancel := context.WithCancel(t.Context())
		first, ended := ask(ctx)
		<-first.at
		second, refused := ask(t.Context())
		<-refused
		const unimplemented = "12"
		if got := second.Header().Get(http.TrailerPrefix + "Grpc-Status"); got != unimplemented {
			t.Errorf("the second watch: status %s, %v", got, second.Header())
		}
		cancel()
		<-ended
		if got := first.Body.String(); got != "\x00\x00\x00\x00\x02\x08\x01" {
			t.Errorf("the first watch: %q", got)
		}
		if first.written.IsZero() || !first.deadline.IsZero() {
			t.Errorf("the write deadline was %v during a write, and %v between writes", first.written, first.deadline)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave() // ends a watch that began
	r := httptest.NewRequestWithContext(gone, http.MethodPost, "/grpc.health.v1.Health/Watch", strings.NewReader("\x00\x00\x00\x00\x00"))
	r.Header.Set("Content-Type", "application/grpc")
	w := httptest.NewRecorder()
	serveWatch(w, r)
	const invalid = "3"
	if got := w.Header().Get("Grpc-Status"); got != invalid || w.Body.Len() > 0 {
		t.Errorf("a watch over HTTP/1.1: status %s, %v %q", got, w.Header(), w.Body)
	}
}

// operationsOn returns operations on the activities.
func operationsOn(a activity.Activities) *operations.Operations {
	return operations.New(a, metrics.New(metrics.Settings{}), operations.Config{})
}

// asked counts how often it is asked whether it is ready.
type asked struct {
	activity.Activities

	ready bool
	times int
}

func (a *asked) Kinds() *activity.Kinds { return activity.BuiltinKinds() }

func (a *asked) Ready(context.Context) (ready bool, down []error) {
	a.times++
	return a.ready, nil
}

// TestHealthWatchesShareChecks: more watches do not cause more checks of the dependencies.
func TestHealthWatchesShareChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{ready: true}
		health, watches := operationsOn(a).Health, newHealthWatches()
		for i, want := range []grpchealth.Status{grpchealth.StatusServing, grpchealth.StatusNotServing, grpchealth.StatusServing} {
			a.ready = want == grpchealth.StatusServing
			for range 100 {
				if got := watches.status(t.Context(), health); got != want {
					t.Fatalf("check %d: %v, want %v", i, got, want)
				}
			}
			if a.times != i+1 {
				t.Errorf("the dependencies were asked %d times for %d checks", a.times, i+1)
			}
			time.Sleep(watchPause)
		}
	})
}

// TestWatchRequest: reading ends, whatever the message is.
func TestWatchRequest(t *testing.T) {
	for text, want := range map[string]string{"": "", "\x0a\x01a": "a", "\x10\x01\x0a\x01b": "b", "\x0a\x05a": "", "\xff": "", "\x08\x01": ""} {
		var m watchRequest
		m.read([]byte(text))
		if m.service != want {
			t.Errorf("%q: %q, want %q", text, m.service, want)
		}
	}
}
