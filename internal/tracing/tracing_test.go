package tracing

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// service returns a complete service on Redis and PostgreSQL, with a Tracer.
func service(t *testing.T, tracer *Tracer, log *slog.Logger) http.Handler {
	t.Helper()
	l, err := ledger.Open(t.Context(), pgtest.Start(t).Schema(), ledger.Options{Pages: 4, Tracer: tracer.Postgres()})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	client := redistest.Start(t).Client()
	must(t, tracer.Redis(client))
	store, err := redisstore.New(client, "feed")
	must(t, err)
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: store})
	must(t, err)
	t.Cleanup(r.Close)
	return httpapi.New(httpapi.Config{Activities: r, Logger: log, Trace: tracer.Requests(anybody)})
}

// anybody trusts every caller.
func anybody(*http.Request) bool { return true }

// do sends a request. With flags, it is part of a caller's trace.
func do(t *testing.T, h http.Handler, flags, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-ID", "request-1")
	if flags != "" {
		r.Header.Set("Traceparent", "00-"+callersTrace+"-"+callersSpan+"-"+flags)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// below returns the names of all spans below the span, each with its kind of database.
func below(spans tracetest.SpanStubs, id trace.SpanID) (names []string) {
	for _, s := range spans {
		if s.Parent.SpanID() != id {
			continue
		}
		name := s.Name
		for _, a := range s.Attributes {
			if a.Key == "db.system" || a.Key == "db.system.name" {
				name = a.Value.AsString() + " " + name
			}
		}
		names = append(append(names, name), below(spans, s.SpanContext.SpanID())...)
	}
	return names
}

// TestTree: each request is one tree. Its span is below the caller's, and the spans of Redis and
// PostgreSQL are below its own. No span names a user or a post.
func TestTree(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	var logged bytes.Buffer
	tracer := newTracer(Config{}, sdktrace.WithSyncer(exporter)) // with a ratio of 0, the caller decides
	h := service(t, tracer, slog.New(LogHandler(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	for _, method := range []string{http.MethodPut, http.MethodDelete} { // then the pages are known, and scripts change them
		do(t, h, "", method, "/v1/users/secretviewer/blocks/secretauthor", "")
	}
	exporter.Reset()
	const ids = `"posts":[{"id":"secretpost","author":"secretauthor"}]`
	for _, c := range []struct {
		method, path, body string
		name               string
		status             int
		redis, postgres    string // a command and a statement that the request needs at least
	}{
		{"PUT", "/v1/users/secretviewer/blocks/secretauthor", "", "PUT /v1/users/:user/blocks/:target", 200, "evalsha", "batch"},
		{"PUT", "/v1/users/secretviewer/hides/secretpost", "", "PUT /v1/users/:user/hides/:target", 200, "evalsha", "batch"},
		{"POST", "/v1/feed/filter", `{"viewer":"secretviewer","exact":true,` + ids + `}`, "POST /v1/feed/filter", 200, "mget", "SELECT"},
		{"POST", "/v1/feed/filter", `{"viewer":"secretviewer",` + ids + `}`, "POST /v1/feed/filter", 200, "mget", ""},
		{"GET", "/v1/users/secretviewer/blocks", "", "GET /v1/users/:user/blocks", 200, "", "SELECT"},
		{"PUT", "/v1/users/secretviewer/blocks/secretviewer", "", "PUT /v1/users/:user/blocks/:target", 422, "", ""},
		{"secretmethod", "/v1/feed/filter", "", "_OTHER /v1/feed/filter", 405, "", ""},
	} {
		exporter.Reset()
		logged.Reset()
		if w := do(t, h, "01", c.method, c.path, c.body); w.Code != c.status {
			t.Errorf("%s: answered %d: %s", c.name, w.Code, w.Body)
		}
		spans := exporter.GetSpans()
		n := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == c.name })
		if n < 0 {
			t.Errorf("%s: no span of the request in %v", c.name, spans)
			continue
		}
		root := spans[n]
		if root.Parent.SpanID().String() != callersSpan || root.SpanKind != trace.SpanKindServer {
			t.Errorf("%s: parent %v, kind %v", c.name, root.Parent.SpanID(), root.SpanKind)
		}
		if text := fmt.Sprint(root.Attributes); !strings.Contains(text, fmt.Sprintf("%d", c.status)) || !strings.Contains(text, "request-1") {
			t.Errorf("%s: attributes %s", c.name, text)
		}
		if root.Status.Code != codes.Unset {
			t.Errorf("%s: status %d is %v, although the service did not fail", c.name, c.status, root.Status)
		}
		names := below(spans, root.SpanContext.SpanID())
		if len(names) != len(spans)-1 {
			t.Errorf("%s: %d of %d spans are outside the request: %q", c.name, len(spans)-1-len(names), len(spans), names)
		}
		for system, part := range map[string]string{"redis": c.redis, "postgresql": c.postgres} {
			found := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, system) && strings.Contains(n, part) })
			if want := part != ""; found != want {
				t.Errorf("%s: spans of %s: %v: %q", c.name, system, found, names)
			}
		}
		for _, s := range spans {
			if s.SpanContext.TraceID().String() != callersTrace {
				t.Errorf("%s: %s is in another trace", c.name, s.Name)
			}
		}
		if text := fmt.Sprintf("%+v", spans); strings.Contains(text, "secret") {
			t.Errorf("%s: an id, or a method, in %s", c.name, text)
		} else if strings.Contains(text, "fav:") {
			t.Errorf("%s: keys of Redis in %s", c.name, text)
		}
		if !strings.Contains(logged.String(), `"trace_id":"`+callersTrace+`"`) {
			t.Errorf("%s: logged without its trace: %s", c.name, &logged)
		}
	}
}

// TestErrorsOfSpans: a failure of the service is an error of its span, even if the handler has
// answered it.
func TestErrorsOfSpans(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer := newTracer(Config{Ratio: 1}, sdktrace.WithSyncer(exporter))
	for name, c := range map[string]struct {
		handle echo.HandlerFunc
		want   codes.Code
	}{
		"fine":     {func(c echo.Context) error { return c.NoContent(http.StatusOK) }, codes.Unset},
		"refused":  {func(c echo.Context) error { return c.NoContent(http.StatusNotFound) }, codes.Unset},
		"answered": {func(c echo.Context) error { return c.NoContent(http.StatusServiceUnavailable) }, codes.Error},
		"gRPC's": {func(c echo.Context) error {
			c.Set("feedfilter.status", http.StatusServiceUnavailable)
			return c.NoContent(http.StatusOK)
		}, codes.Error},
		"returned": {func(echo.Context) error { return errors.New("no answer") }, codes.Error},
	} {
		exporter.Reset()
		e := echo.New()
		e.Use(tracer.Requests(anybody))
		e.GET("/", c.handle)
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if spans := exporter.GetSpans(); len(spans) != 1 || spans[0].Status.Code != c.want {
			t.Errorf("%s: %+v, want one that is %v", name, spans, c.want)
		}
	}
}

// TestWhichRequestsAreTraced: the trace of a trusted caller decides whether a request is traced,
// and the ratio decides without one. Background work is not traced.
func TestWhichRequestsAreTraced(t *testing.T) {
	client := redistest.Start(t).Client()
	for _, c := range []struct {
		ratio   float64
		flags   string
		trusted bool
		want    bool
	}{{1, "", true, true}, {0, "", true, false}, {0, "01", true, true}, {1, "00", true, false}, {0, "01", false, false}, {1, "00", false, true}} {
		exporter := tracetest.NewInMemoryExporter()
		var logged bytes.Buffer
		tracer := newTracer(Config{Ratio: c.ratio}, sdktrace.WithSyncer(exporter))
		plain, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: mustStore(t, client, fmt.Sprint(c))})
		must(t, err)
		log := slog.New(LogHandler(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
		do(t, httpapi.New(httpapi.Config{Activities: plain, Logger: log, Trace: tracer.Requests(func(*http.Request) bool { return c.trusted })}), c.flags, http.MethodGet, "/healthz", "")
		plain.Close()
		if got := len(exporter.GetSpans()) == 1; got != c.want {
			t.Errorf("%+v: traced %v: %v", c, got, exporter.GetSpans())
		}
		if got := strings.Contains(logged.String(), "trace_id"); got != c.want {
			t.Errorf("%+v: trace id in the log %v: %s", c, got, &logged)
		}
	}
	exporter := tracetest.NewInMemoryExporter()
	must(t, newTracer(Config{Ratio: 1}, sdktrace.WithSyncer(exporter)).Redis(client))
	must(t, client.Ping(t.Context()).Err())
	if spans := exporter.GetSpans(); len(spans) > 0 {
		t.Errorf("a background command is traced: %v", spans)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustStore(t *testing.T, client redis.UniversalClient, name string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client, fmt.Sprintf("f%x", name))
	must(t, err)
	return s
}

// TestNilTracer: a nil Tracer does nothing.
func TestNilTracer(t *testing.T) {
	var off *Tracer
	if off.Requests(anybody) != nil || off.Postgres() != nil || off.Redis(redis.NewClient(&redis.Options{})) != nil || off.Close(t.Context()) != nil {
		t.Error("a nil Tracer does something")
	}
}

func TestCheck(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://127.0.0.1:4318": true, "https://collector/path": true,
		"": false, "collector:4318": false, "ftp://collector": false, "http://": false,
		"http://user:hunter2@collector": false, "http://collector?key=hunter2": false, "http://hunter2:x/": false,
	} {
		err := (&Config{Endpoint: endpoint}).Check()
		if (err == nil) != want || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	for ratio, want := range map[float64]bool{0: true, 1: true, -0.1: false, 1.1: false} {
		if err := (&Config{Endpoint: "http://collector", Ratio: ratio}).Check(); (err == nil) != want {
			t.Errorf("ratio %g: %v", ratio, err)
		}
	}
}
