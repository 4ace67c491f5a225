package httpapitest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// secrets returns parts of errors that may appear only in logs.
func secrets() []string { return []string{"10.1.2.3", "hunter2", "dial", "goroutine", ".go", "sqlite"} }

// WantDown asserts an answer that names a dependency that is down.
func WantDown(t testing.TB, what string, a Answer, dependency string) {
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

// A feed with a post of user 2, whom its viewer has blocked, and its answer.
const (
	BlockedFeed   = `{"viewer":"1","posts":[{"id":"p","author":"2"},{"id":"q","author":"3"}]}`
	BlockedAnswer = `{"posts":[{"id":"q"}],"dropped":[{"id":"p","kind":"block","actor":"2"}],"degraded":[]}`
)

// Scraped is an answer of GET /metrics: values by series, such as a_total{x="y"}; of histograms the
// count, the sum and the buckets.
type Scraped map[string]float64

// Scrape returns the metrics of the service.
func (s *Service) Scrape(t testing.TB) Scraped {
	t.Helper()
	a := s.Do(t, "GET", "/metrics", "")
	if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain; version=0.0.4") ||
		a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("metrics: %d %v %.200s", a.Status, a.Header, a.Body)
	}
	all := make(Scraped)
	for line := range strings.Lines(a.Body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		series := line[:at]
		if !strings.HasSuffix(series, "}") {
			series += "{}"
		}
		all[series] = value
	}
	return all
}

// Want asserts the values of series.
func (m Scraped) Want(t testing.TB, values map[string]float64) {
	t.Helper()
	for _, series := range slices.Sorted(maps.Keys(values)) {
		got, ok := m["feedfilter_"+series]
		if !ok {
			t.Errorf("no series feedfilter_%s", series)
		} else if want := values[series]; got != want {
			t.Errorf("feedfilter_%s is %v, want %v", series, got, want)
		}
	}
}

// WantOverloaded asserts an overload answer, and whether the connection is kept.
func WantOverloaded(t testing.TB, what string, a Answer, kept bool) {
	t.Helper()
	after := a.Header.Get("Retry-After")
	if a.Status != 503 || a.Code != "overloaded" || !slices.Contains([]string{"1", "2", "3"}, after) || (a.Header.Get("Connection") != "close") != kept {
		t.Errorf("%s: %d %s, header %v; want 503 overloaded, connection kept: %v", what, a.Status, a.Body, a.Header, kept)
	}
}

// Requests returns the counts of requests.
func (s *Service) Requests(t testing.TB) (inProgress, shed float64) {
	t.Helper()
	a := s.Do(t, "GET", "/v1/stats", "")
	if a.Status != 200 {
		t.Fatalf("stats: %d %s", a.Status, a.Body)
	}
	requests := a.JSON["requests"].(map[string]any)
	return requests["in_progress"].(float64), requests["shed"].(float64)
}

// Await receives from c. The time limit is far longer than any test here needs.
func Await[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("timed out")
		panic("unreachable")
	}
}

// Unread sends the i-th of some requests whose body must not be read. It returns the answer and the
// length of the body.
func (s *Service) Unread(t *testing.T, i int) (a Answer, length int64) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/activities", ReadFunc(func([]byte) (int, error) {
		t.Error("the body was read")
		return 0, io.EOF
	}))
	r.ContentLength = []int64{1 << 20, -1, 1 << 40, 2}[i%4]
	r.Header.Set("Content-Type", []string{"application/json", "application/x-ndjson"}[i%2])
	return Serve(t, s, r), r.ContentLength
}
