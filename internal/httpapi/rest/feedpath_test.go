package rest_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/rest"
)

// ask sends a body to the feed route. A negative length sends it without Content-Length.
func ask(t *testing.T, h http.Handler, body string, length int) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, rest.FilterPath, strings.NewReader(body))
	r.ContentLength = int64(length)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func openFeeds(t *testing.T) http.Handler {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return httpapi.New(httpapi.Config{Activities: r})
}

// TestFeedOneAnswer: a body has the same answer with its length, which readFeed tries first, and
// without, which only the strict decoder reads.
func TestFeedOneAnswer(t *testing.T) {
	h, without := openFeeds(t), openFeeds(t) // a feed may be recorded as seen
	statuses := make(map[int]int)
	bodies := rest.FeedBodies()
	bodies[rest.ServedBody(0)] = true
	for body := range bodies {
		if body == "" { // an empty body always has a length
			continue
		}
		status, got := ask(t, h, body, len(body))
		wantStatus, want := ask(t, without, body, -1)
		if status != wantStatus || got != want {
			t.Errorf("%.200q: %d %.200s, and without its length %d %.200s", body, status, got, wantStatus, want)
		}
		statuses[status]++
	}
	if statuses[http.StatusOK] == 0 || statuses[http.StatusBadRequest] == 0 || len(statuses) != 2 {
		t.Errorf("statuses %v", statuses)
	}
}
