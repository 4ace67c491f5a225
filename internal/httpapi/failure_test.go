package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

func TestStoreDown(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Store.Set(httpapitest.Failing)
	// The ledger answers in place of the store.
	s.Want(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed, 200,
		strings.Replace(httpapitest.BlockedAnswer, `[]}`, `[{"kind":"seen","reason":"the page store is unavailable"}]}`, 1))
	if got, _, _ := s.Items(t, "/v1/users/1/blocks"); len(got) != 1 {
		t.Errorf("list without the store: %v", got)
	}
	s.Want(t, "PUT", "/v1/users/1/hides/h", "", 200, httpapitest.Yes)
	s.Want(t, "DELETE", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/activities", httpapitest.Lines(), 200, `{"results":[`+httpapitest.Yes+`]}`)
	httpapitest.WantDown(t, "seen", s.Do(t, "POST", "/v1/users/1/seen", `{"posts":["p"]}`), "pages")
	httpapitest.WantDown(t, "batch with seen", s.Do(t, "POST", "/v1/activities", httpapitest.Lines(httpapitest.ActivityLine("1", "seen", "p", "add"))), "pages")
	s.Store.Set(httpapitest.Sound)
	s.Want(t, "PUT", "/v1/users/1/hides/h", "", 200, httpapitest.No)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed, 200, httpapitest.BlockedAnswer)
}

// TestHangingDependency: if a dependency never answers, each request is answered at its timeout.
func TestHangingDependency(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{Timeout: 300 * time.Millisecond}, nil)
	s.Store.Set(httpapitest.Hanging)
	httpapitest.WantDown(t, "feed", s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed), "")
	httpapitest.WantDown(t, "seen", s.Do(t, "POST", "/v1/users/1/seen", `{"posts":["p"]}`), "pages")
	s.Ledger.Set(httpapitest.Hanging)
	httpapitest.WantDown(t, "list", s.Do(t, "GET", "/v1/users/1/blocks", ""), "ledger")
	httpapitest.WantDown(t, "put", s.Do(t, "PUT", "/v1/users/1/hides/h", ""), "")
	httpapitest.WantDown(t, "batch", s.Do(t, "POST", "/v1/activities", httpapitest.Lines()), "")
}

func TestLedgerDown(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Ledger.Set(httpapitest.Failing)
	httpapitest.WantDown(t, "put", s.Do(t, "PUT", "/v1/users/1/hides/h", ""), "ledger")
	httpapitest.WantDown(t, "delete", s.Do(t, "DELETE", "/v1/users/1/blocks/2", ""), "ledger")
	httpapitest.WantDown(t, "batch", s.Do(t, "POST", "/v1/activities", httpapitest.Lines()), "ledger")
	httpapitest.WantDown(t, "list", s.Do(t, "GET", "/v1/users/1/blocks", ""), "ledger")
	// Calls without the ledger still work.
	s.Want(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed, 200, httpapitest.BlockedAnswer)
	s.Want(t, "POST", "/v1/users/1/seen", `{"posts":["q"]}`, 200, `{"recorded":1}`)
	// Invalid requests are refused as usual.
	if a := s.Do(t, "PUT", "/v1/users/1/blocks/1", ""); a.Status != 422 {
		t.Errorf("blocking oneself: %d %s", a.Status, a.Body)
	}
	s.Store.Set(httpapitest.Failing)
	httpapitest.WantDown(t, "feed", s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed), "ledger")
	s.Store.Set(httpapitest.Sound)
	s.Ledger.Set(httpapitest.Sound)
	s.Want(t, "GET", "/v1/users/1/hides", "", 200, `{"items":[]}`)
}

func TestClosed(t *testing.T) {
	s := httpapitest.Open(t)
	s.Activities.Close()
	httpapitest.WantDown(t, "put", s.Do(t, "PUT", "/v1/users/1/hides/h", ""), "shutting down")
	httpapitest.WantDown(t, "batch", s.Do(t, "POST", "/v1/activities", httpapitest.Lines()), "shutting down")
}

// TestClientGone: if the client leaves, no answer says that the request succeeded.
func TestClientGone(t *testing.T) {
	logger, out := httpapitest.Logs()
	s := httpapitest.NewService(t, httpapi.Config{Logger: logger}, nil)
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
	s.Want(t, "GET", "/v1/users/1/hides", "", 200, `{"items":[]}`)
}

func TestPanic(t *testing.T) {
	logger, out := httpapitest.Logs()
	s := httpapitest.NewService(t, httpapi.Config{Logger: logger}, nil)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Store.Set(httpapitest.Panicing)
	out.Reset()
	a := s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed, "X-Request-Id", "abc")
	if a.Status != 500 || a.Code != "internal" || strings.Contains(a.Body, "mad") || strings.Contains(a.Body, ".go") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for _, part := range []string{`"level":"ERROR"`, `"status":500`, "the store is mad", "rest.(*api).filter", `"request_id":"abc"`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in the log: %s", part, out)
		}
	}
	s.Store.Set(httpapitest.Sound)
	s.Want(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed, 200, httpapitest.BlockedAnswer)
}

func TestHealth(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "GET", "/healthz", "", 200, `{"status":"ok"}`)
	s.Want(t, "GET", "/readyz", "", 200, `{"status":"ready"}`)
	down := func(parts ...string) string {
		return `{"status":"unavailable","down":[` + strings.Join(parts, ",") + `]}`
	}
	const (
		ledgerDown = `{"dependency":"ledger","reason":"it failed; see the log"}`
		pagesDown  = `{"dependency":"pages","reason":"it failed; see the log"}`
		pagesHang  = `{"dependency":"pages","reason":"it does not answer in time"}`
	)
	s.Store.Set(httpapitest.Failing)
	degraded := func(part string) string { return `{"status":"degraded","down":[` + part + `]}` }
	s.Want(t, "GET", "/readyz", "", 200, degraded(pagesDown))
	s.Store.Set(httpapitest.Sound)
	s.Ledger.Set(httpapitest.Failing)
	s.Want(t, "GET", "/readyz", "", 200, degraded(ledgerDown))
	s.Store.Set(httpapitest.Failing)
	s.Want(t, "GET", "/readyz", "", 503, down(ledgerDown, pagesDown))
	if got := s.Do(t, "GET", "/readyz", "").Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
	s.Want(t, "GET", "/healthz", "", 200, `{"status":"ok"}`)
	s.Store.Set(httpapitest.Sound)
	s.Ledger.Set(httpapitest.Sound)
	s.Want(t, "GET", "/readyz", "", 200, `{"status":"ready"}`)

	s = httpapitest.NewService(t, httpapi.Config{Timeout: 300 * time.Millisecond}, nil)
	s.Store.Set(httpapitest.Hanging)
	s.Want(t, "GET", "/readyz", "", 200, degraded(pagesHang))
	s.Ledger.Set(httpapitest.Failing)
	s.Want(t, "GET", "/readyz", "", 503, down(ledgerDown, pagesHang))
}

// TestReadyOfMany: concurrent readiness checks share one connection to the ledger.
func TestReadyOfMany(t *testing.T) {
	const all = 500
	s := httpapitest.NewService(t, httpapi.Config{}, nil)
	open := s.Ledger.Pings.Shut()
	defer open()
	s.Ledger.Pinged.Store(0)
	ready := flood(t, s, all, "GET", func(int) string { return "/readyz" })
	for calls, total := 0.0, 0.0; total < all+calls; calls++ { // until all have arrived
		total = s.Do(t, "GET", "/v1/stats", "").JSON["requests"].(map[string]any)["total"].(float64)
	}
	open()
	for range all {
		if a := httpapitest.Await(t, ready); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if n := s.Ledger.Pinged.Load(); n > all/5 {
		t.Errorf("the ledger was asked %d times for %d checks", n, all)
	}
}

func TestLog(t *testing.T) {
	logger, out := httpapitest.Logs()
	s := httpapitest.NewService(t, httpapi.Config{Logger: logger}, nil)
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
		a := s.Do(t, c.method, c.target, c.body, "X-Request-Id", c.id)
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
	s.Ledger.Set(httpapitest.Failing)
	out.Reset()
	s.Do(t, "PUT", "/v1/users/alice/blocks/bob", "")
	for _, part := range []string{`"level":"ERROR"`, `"status":503`, "hunter2"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in %s", part, out)
		}
	}
}

func TestRequestID(t *testing.T) {
	s := httpapitest.Open(t)
	seen := make(map[string]bool)
	for _, given := range []string{"", "", "a b", "a\"b", "é", strings.Repeat("x", 65), "a\x7f"} {
		got := s.Do(t, "GET", "/healthz", "", "X-Request-Id", given).Header.Get("X-Request-ID")
		if got == given || len(got) < 16 || seen[got] {
			t.Errorf("given %q: %q", given, got)
		}
		seen[got] = true
	}
	for _, given := range []string{"a", strings.Repeat("Z9", 32), "6f1c-AA_.0"} {
		if got := s.Do(t, "GET", "/nothing", "", "X-Request-Id", given).Header.Get("X-Request-ID"); got != given {
			t.Errorf("given %q: %q", given, got)
		}
	}
}
