package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// secrets returns parts of errors that may appear only in logs.
func secrets() []string { return []string{"10.1.2.3", "hunter2", "dial", "goroutine", ".go", "sqlite"} }

// wantDown asserts an answer that names a dependency that is down.
func wantDown(t testing.TB, what string, a answer, dependency string) {
	t.Helper()
	if a.Status != 503 || a.Code != "unavailable" || a.Header.Get("Retry-After") != "1" || !strings.Contains(a.Body, dependency) {
		t.Errorf("%s: %d %s, Retry-After %q; want 503 naming %s", what, a.Status, a.Body, a.Header.Get("Retry-After"), dependency)
	}
	for _, secret := range secrets() {
		if strings.Contains(a.Body, secret) {
			t.Errorf("%s: %s contains %q", what, a.Body, secret)
		}
	}
}

const (
	blockedFeed   = `{"viewer":"1","posts":[{"id":"p","author":"2"},{"id":"q","author":"3"}]}`
	blockedAnswer = `{"posts":[{"id":"q"}],"dropped":[{"id":"p","kind":"block","actor":"2"}],"degraded":[]}`
)

func TestStoreDown(t *testing.T) {
	s := open(t)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, yes)
	s.store.set(failing)
	// The ledger answers in place of the store.
	s.want(t, "POST", "/v1/feed/filter", blockedFeed, 200,
		strings.Replace(blockedAnswer, `[]}`, `[{"kind":"seen","reason":"the page store is unavailable"}]}`, 1))
	if got, _, _ := s.items(t, "/v1/users/1/blocks"); len(got) != 1 {
		t.Errorf("list without the store: %v", got)
	}
	s.want(t, "PUT", "/v1/users/1/hides/h", "", 200, yes)
	s.want(t, "DELETE", "/v1/users/1/blocks/2", "", 200, yes)
	s.want(t, "POST", "/v1/activities", lines(), 200, `{"results":[`+yes+`]}`)
	wantDown(t, "seen", s.do(t, "POST", "/v1/users/1/seen", `{"posts":["p"]}`), "pages")
	wantDown(t, "batch with seen", s.do(t, "POST", "/v1/activities", lines(activityLine("1", "seen", "p", "add"))), "pages")
	s.store.set(sound)
	s.want(t, "PUT", "/v1/users/1/hides/h", "", 200, no)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, yes)
	s.want(t, "POST", "/v1/feed/filter", blockedFeed, 200, blockedAnswer)
}

// TestHangingDependency: if a dependency never answers, each request is answered at its timeout.
func TestHangingDependency(t *testing.T) {
	s := newService(t, httpapi.Config{Timeout: 300 * time.Millisecond}, nil)
	s.store.set(hanging)
	wantDown(t, "feed", s.do(t, "POST", "/v1/feed/filter", blockedFeed), "")
	wantDown(t, "seen", s.do(t, "POST", "/v1/users/1/seen", `{"posts":["p"]}`), "pages")
	s.ledger.set(hanging)
	wantDown(t, "list", s.do(t, "GET", "/v1/users/1/blocks", ""), "ledger")
	wantDown(t, "put", s.do(t, "PUT", "/v1/users/1/hides/h", ""), "")
	wantDown(t, "batch", s.do(t, "POST", "/v1/activities", lines()), "")
}

func TestLedgerDown(t *testing.T) {
	s := open(t)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, yes)
	s.ledger.set(failing)
	wantDown(t, "put", s.do(t, "PUT", "/v1/users/1/hides/h", ""), "ledger")
	wantDown(t, "delete", s.do(t, "DELETE", "/v1/users/1/blocks/2", ""), "ledger")
	wantDown(t, "batch", s.do(t, "POST", "/v1/activities", lines()), "ledger")
	wantDown(t, "list", s.do(t, "GET", "/v1/users/1/blocks", ""), "ledger")
	// Calls without the ledger still work.
	s.want(t, "POST", "/v1/feed/filter", blockedFeed, 200, blockedAnswer)
	s.want(t, "POST", "/v1/users/1/seen", `{"posts":["q"]}`, 200, `{"recorded":1}`)
	// Invalid requests are refused as usual.
	if a := s.do(t, "PUT", "/v1/users/1/blocks/1", ""); a.Status != 422 {
		t.Errorf("blocking oneself: %d %s", a.Status, a.Body)
	}
	s.store.set(failing)
	wantDown(t, "feed", s.do(t, "POST", "/v1/feed/filter", blockedFeed), "ledger")
	s.store.set(sound)
	s.ledger.set(sound)
	s.want(t, "GET", "/v1/users/1/hides", "", 200, `{"items":[]}`)
}

func TestClosed(t *testing.T) {
	s := open(t)
	s.activities.Close()
	wantDown(t, "put", s.do(t, "PUT", "/v1/users/1/hides/h", ""), "shutting down")
	wantDown(t, "batch", s.do(t, "POST", "/v1/activities", lines()), "shutting down")
}

// TestClientGone: if the client leaves, no answer says that the request succeeded.
func TestClientGone(t *testing.T) {
	logger, out := logs()
	s := newService(t, httpapi.Config{Logger: logger}, nil)
	for _, c := range [][2]string{{"PUT", "/v1/users/1/hides/h"}, {"GET", "/v1/users/1/hides"}} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, c[0], c[1], http.NoBody))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: answered %d %s", c[0], w.Code, w.Body)
		}
		if got := out.String(); !strings.Contains(got, `"status":499`) || !strings.Contains(got, `"level":"INFO"`) || strings.Contains(got, `"level":"ERROR"`) {
			t.Errorf("%s: logged %s", c[0], got)
		}
		out.Reset()
	}
	s.want(t, "GET", "/v1/users/1/hides", "", 200, `{"items":[]}`)
}

func TestPanic(t *testing.T) {
	logger, out := logs()
	s := newService(t, httpapi.Config{Logger: logger}, nil)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, yes)
	s.store.set(panicing)
	out.Reset()
	a := s.do(t, "POST", "/v1/feed/filter", blockedFeed, "X-Request-Id", "abc")
	if a.Status != 500 || a.Code != "internal" || strings.Contains(a.Body, "mad") || strings.Contains(a.Body, ".go") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for _, part := range []string{`"level":"ERROR"`, `"status":500`, "the store is mad", "rest.(*api).filter", `"request_id":"abc"`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in the log: %s", part, out)
		}
	}
	s.store.set(sound)
	s.want(t, "POST", "/v1/feed/filter", blockedFeed, 200, blockedAnswer)
}

func TestHealth(t *testing.T) {
	s := open(t)
	s.want(t, "GET", "/healthz", "", 200, `{"status":"ok"}`)
	s.want(t, "GET", "/readyz", "", 200, `{"status":"ready"}`)
	down := func(parts ...string) string {
		return `{"status":"unavailable","down":[` + strings.Join(parts, ",") + `]}`
	}
	const (
		ledgerDown = `{"dependency":"ledger","reason":"it failed; see the log"}`
		pagesDown  = `{"dependency":"pages","reason":"it failed; see the log"}`
		pagesHang  = `{"dependency":"pages","reason":"it does not answer in time"}`
	)
	s.store.set(failing)
	degraded := func(part string) string { return `{"status":"degraded","down":[` + part + `]}` }
	s.want(t, "GET", "/readyz", "", 200, degraded(pagesDown))
	s.store.set(sound)
	s.ledger.set(failing)
	s.want(t, "GET", "/readyz", "", 200, degraded(ledgerDown))
	s.store.set(failing)
	s.want(t, "GET", "/readyz", "", 503, down(ledgerDown, pagesDown))
	if got := s.do(t, "GET", "/readyz", "").Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
	s.want(t, "GET", "/healthz", "", 200, `{"status":"ok"}`)
	s.store.set(sound)
	s.ledger.set(sound)
	s.want(t, "GET", "/readyz", "", 200, `{"status":"ready"}`)

	s = newService(t, httpapi.Config{Timeout: 300 * time.Millisecond}, nil)
	s.store.set(hanging)
	s.want(t, "GET", "/readyz", "", 200, degraded(pagesHang))
	s.ledger.set(failing)
	s.want(t, "GET", "/readyz", "", 503, down(ledgerDown, pagesHang))
}

// TestReadyOfMany: concurrent readiness checks share one connection to the ledger.
func TestReadyOfMany(t *testing.T) {
	const all = 500
	s := newService(t, httpapi.Config{}, nil)
	open := s.ledger.pings.shut()
	defer open()
	s.ledger.pinged.Store(0)
	ready := s.flood(t, all, "GET", func(int) string { return "/readyz" })
	for calls, total := 0.0, 0.0; total < all+calls; calls++ { // until all have arrived
		total = s.do(t, "GET", "/v1/stats", "").JSON["requests"].(map[string]any)["total"].(float64)
	}
	open()
	for range all {
		if a := await(t, ready); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if n := s.ledger.pinged.Load(); n > all/5 {
		t.Errorf("the ledger was asked %d times for %d checks", n, all)
	}
}

func TestLog(t *testing.T) {
	logger, out := logs()
	s := newService(t, httpapi.Config{Logger: logger}, nil)
	for _, c := range []struct {
		method, target, body, id string
		want                     []string
	}{
		{"PUT", "/v1/users/alice/blocks/bob", "", "r-1", []string{`"level":"DEBUG"`, `"method":"PUT"`, `"route":"/v1/users/:user/blocks/:target"`, `"status":200`, `"bytes":16`, `"request_id":"r-1"`}},
		{"PUT", "/v1/users/alice/blocks/alice", "", "r.2_", []string{`"level":"INFO"`, `"status":422`, `"code":"self_block"`}},
		{"GET", "/alice/bob", "", "r-3", []string{`"level":"INFO"`, `"status":404`, `"code":"not_found"`, `"route":""`}},
		{"POST", "/v1/feed/filter", `{"viewer":"alice","posts":[],"bob":1}`, "r-4", []string{`"level":"INFO"`, `"route":"/v1/feed/filter"`, `"code":"unknown_field"`}},
	} {
		out.Reset()
		a := s.do(t, c.method, c.target, c.body, "X-Request-Id", c.id)
		if got := a.Header.Get("X-Request-ID"); got != c.id {
			t.Errorf("request id %q, want %q", got, c.id)
		}
		if strings.Count(out.String(), "\n") != 1 || strings.Contains(out.String(), "alice") || strings.Contains(out.String(), "bob") {
			t.Errorf("%s: logged %s", c.target, out)
		}
		for _, part := range c.want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: no %s in %s", c.target, part, out)
			}
		}
	}
	s.ledger.set(failing)
	out.Reset()
	s.do(t, "PUT", "/v1/users/alice/blocks/bob", "")
	for _, part := range []string{`"level":"ERROR"`, `"status":503`, "hunter2"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in %s", part, out)
		}
	}
}

func TestRequestID(t *testing.T) {
	s := open(t)
	seen := make(map[string]bool)
	for _, given := range []string{"", "", "a b", "a\"b", "é", strings.Repeat("x", 65), "a\x7f"} {
		got := s.do(t, "GET", "/healthz", "", "X-Request-Id", given).Header.Get("X-Request-ID")
		if got == given || len(got) < 16 || seen[got] {
			t.Errorf("given %q: %q", given, got)
		}
		seen[got] = true
	}
	for _, given := range []string{"a", strings.Repeat("Z9", 32), "6f1c-AA_.0"} {
		if got := s.do(t, "GET", "/nothing", "", "X-Request-Id", given).Header.Get("X-Request-ID"); got != given {
			t.Errorf("given %q: %q", given, got)
		}
	}
}
