package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// scraped is an answer of GET /metrics: values by series, such as a_total{x="y"}; of histograms the
// count, the sum and the buckets.
type scraped map[string]float64

func (s *service) scrape(t testing.TB) scraped {
	t.Helper()
	a := s.do(t, "GET", "/metrics", "")
	if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain; version=0.0.4") ||
		a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("metrics: %d %v %.200s", a.Status, a.Header, a.Body)
	}
	all := make(scraped)
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

// want asserts the values of series.
func (m scraped) want(t testing.TB, values map[string]float64) {
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

// TestMetricsOfFeeds counts known traffic exactly.
func TestMetricsOfFeeds(t *testing.T) {
	s := open(t)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, yes)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, no)
	s.want(t, "PUT", "/v1/users/1/hides/h", "", 200, yes)
	feeds := `{"viewer":"1","posts":[{"id":"p","author":"2"},{"id":"q","author":"3"},{"id":"h","author":"3"}]}`
	for range 3 {
		s.do(t, "POST", "/v1/feed/filter", feeds)
	}
	s.do(t, "POST", "/v1/feed/filter", `{"viewer":"2","posts":[{"id":"a","author":"3"},{"id":"b","author":"3"}],"limit":1}`)
	s.do(t, "POST", "/v1/feed/filter", `{"viewer":`)
	s.do(t, "HEAD", "/v1/kinds", "")
	s.do(t, "GET", "/v1/kinds", "")
	s.scrape(t).want(t, map[string]float64{
		`feed_candidates_count{}`:                 10 - 6,
		`feed_candidates_sum{}`:                   10,
		`feed_kept_total{}`:                       4,
		`feed_dropped_total{kind="block"}`:        3,
		`feed_dropped_total{kind="hide"}`:         3,
		`feed_dropped_total{kind="seen"}`:         0,
		`feed_degraded_total{kind="seen"}`:        0,
		`activities_recorded_total{kind="block"}`: 1,
		`activities_recorded_total{kind="hide"}`:  1,
		`views_total{source="store"}`:             4,
		`views_total{source="ledger"}`:            0,

		`http_requests_total{code="200",method="POST",route="/v1/feed/filter"}`:                  4,
		`http_requests_total{code="400",method="POST",route="/v1/feed/filter"}`:                  1,
		`http_request_seconds_count{method="POST",route="/v1/feed/filter"}`:                      5,
		`http_requests_total{code="200",method="PUT",route="/v1/users/:user/blocks/:target"}`:    2,
		`http_requests_total{code="200",method="DELETE",route="/v1/users/:user/blocks/:target"}`: 0,
		`http_requests_total{code="200",method="GET",route="/v1/kinds"}`:                         2,
		`dependency_up{dependency="ledger"}`:                                                     1,
		`dependency_up{dependency="pages"}`:                                                      1,
		`ready{}`:                                                                                1,
	})
}

// TestMetricsOfPages: the survey has the keys of the pages. A block and a hide are three keys.
func TestMetricsOfPages(t *testing.T) {
	s := open(t)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, yes)
	s.want(t, "PUT", "/v1/users/1/hides/h", "", 200, yes)
	for s.scrape(t)[`feedfilter_page_keys_sum{use="shared"}`] != 3 {
		if t.Context().Err() != nil {
			t.Fatal("the scrub found no three keys")
		}
	}
	m := s.scrape(t)
	m.want(t, map[string]float64{`page_keys_sum{use="dedicated"}`: 0})
	if fill, pages := m[`feedfilter_page_fill_ratio_sum{use="shared"}`], m[`feedfilter_page_fill_ratio_count{use="shared"}`]; fill <= 0 || fill >= pages || pages < 1 || pages > 2 {
		t.Errorf("%v pages, sum of fill %v", pages, fill)
	}
}

// TestMetricsOfFailures makes the store fail, and then the ledger.
func TestMetricsOfFailures(t *testing.T) {
	s := open(t)
	s.want(t, "PUT", "/v1/users/1/blocks/2", "", 200, yes)
	s.store.set(failing)
	s.do(t, "POST", "/v1/feed/filter", blockedFeed)
	s.do(t, "POST", "/v1/feed/filter", blockedFeed)
	s.scrape(t).want(t, map[string]float64{
		`feed_dropped_total{kind="block"}`:  2,
		`feed_degraded_total{kind="seen"}`:  2,
		`feed_degraded_total{kind="block"}`: 0,
		`views_total{source="store"}`:       0,
		`views_total{source="ledger"}`:      2,
		`dependency_up{dependency="pages"}`: 0,
		`ready{}`:                           1,
	})
	s.ledger.set(failing)
	wantDown(t, "list", s.do(t, "GET", "/v1/users/1/blocks", ""), "ledger")
	s.store.set(panicing)
	if a := s.do(t, "POST", "/v1/feed/filter", blockedFeed); a.Status != 500 {
		t.Errorf("a panic: %d", a.Status)
	}
	s.scrape(t).want(t, map[string]float64{
		`http_requests_total{code="503",method="GET",route="/v1/users/:user/blocks"}`: 1,
		`http_requests_total{code="500",method="POST",route="/v1/feed/filter"}`:       1,
		`http_requests_total{code="200",method="POST",route="/v1/feed/filter"}`:       2,
	})
}

// TestMetricsOfLoad has one request in progress, and sheds another.
func TestMetricsOfLoad(t *testing.T) {
	s := newService(t, httpapi.Config{MaxRequests: 1, MaxStreams: 7, MaxBodiesBytes: 3 << 20}, nil)
	resume := s.ledger.lists.shut()
	done := make(chan int)
	go func() { done <- s.do(t, "GET", "/v1/users/1/blocks", "").Status }()
	for s.scrape(t)["feedfilter_http_requests_in_progress{}"] != 1 {
		if t.Context().Err() != nil {
			t.Fatal("the request did not arrive")
		}
	}
	if a := s.do(t, "GET", "/v1/users/1/blocks", ""); a.Code != "overloaded" {
		t.Errorf("a second request: %d %s", a.Status, a.Body)
	}
	s.scrape(t).want(t, map[string]float64{
		`http_requests_in_progress{}`: 1, `http_requests_limit{}`: 1, `http_requests_shed_total{}`: 1,
		`http_streams_in_progress{}`: 0, `http_streams_limit{}`: 7,
		`http_bodies_held_bytes{}`: 0, `http_bodies_limit_bytes{}`: 3 << 20,
		`http_requests_total{code="503",method="GET",route="/v1/users/:user/blocks"}`: 1,
	})
	resume()
	if status := <-done; status != 200 {
		t.Errorf("the request in progress: %d", status)
	}
	s.scrape(t).want(t, map[string]float64{`http_requests_in_progress{}`: 0})
}

// TestMetricsBounded: text that clients choose adds no series, and no id appears in one.
func TestMetricsBounded(t *testing.T) {
	s := open(t)
	odd := func(n int) {
		for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH", fmt.Sprintf("ODD%d", n)} {
			for _, path := range []string{"/secret%d", "/v1/users/secret%d", "/v1/users/secret%d/blocks/secret", "/v1/users/1/secret%d", "/v1/users/1/hides/x/secret%d"} {
				s.do(t, method, fmt.Sprintf(path, n), "")
			}
		}
	}
	odd(0)
	before := s.scrape(t)
	for n := range 20 {
		odd(n)
	}
	after := s.scrape(t)
	if len(before) != len(after) {
		t.Errorf("%d series became %d", len(before), len(after))
	}
	for series := range after {
		if strings.Contains(series, "secret") || strings.Contains(series, "ODD") {
			t.Errorf("a series %s", series)
		}
	}
	if n := after[`feedfilter_http_requests_total{code="404",method="other",route="other"}`]; n < 20*6*3 {
		t.Errorf("%v requests of unknown paths", n)
	}
}

// TestMetricsFormats requests native histograms, and formats and parameters that do not exist.
func TestMetricsFormats(t *testing.T) {
	s := open(t)
	s.do(t, "POST", "/v1/feed/filter", blockedFeed)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	native := uint64(0)
	for w.Body.Len() > 0 {
		var f dto.MetricFamily
		must(t, protodelim.UnmarshalFrom(w.Body, &f))
		if f.GetName() != "feedfilter_http_request_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h.Schema != nil && len(h.GetPositiveSpan()) > 0 {
				native += h.GetSampleCount()
			}
		}
	}
	if native != 1 {
		t.Errorf("%d requests in native histograms, want 1; %v", native, w.Header())
	}
	if a := s.do(t, "GET", "/metrics?name=x", ""); a.Code != "unknown_parameter" {
		t.Errorf("a parameter: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "POST", "/metrics", ""); a.Status != 405 {
		t.Errorf("POST: %d", a.Status)
	}
}
