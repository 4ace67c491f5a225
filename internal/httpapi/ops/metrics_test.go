package ops_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// TestMetricsOfFeeds counts known traffic exactly.
func TestMetricsOfFeeds(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.No)
	s.Want(t, "PUT", "/v1/users/1/hides/h", "", 200, httpapitest.Yes)
	feeds := `{"viewer":"1","posts":[{"id":"p","author":"2"},{"id":"q","author":"3"},{"id":"h","author":"3"}]}`
	for range 3 {
		s.Do(t, "POST", "/v1/feed/filter", feeds)
	}
	s.Do(t, "POST", "/v1/feed/filter", `{"viewer":"2","posts":[{"id":"a","author":"3"},{"id":"b","author":"3"}],"limit":1}`)
	s.Do(t, "POST", "/v1/feed/filter", `{"viewer":`)
	s.Do(t, "HEAD", "/v1/kinds", "")
	s.Do(t, "GET", "/v1/kinds", "")
	s.Scrape(t).Want(t, map[string]float64{
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
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/hides/h", "", 200, httpapitest.Yes)
	for s.Scrape(t)[`feedfilter_page_keys_sum{use="shared"}`] != 3 {
		if t.Context().Err() != nil {
			t.Fatal("the scrub found no three keys")
		}
	}
	m := s.Scrape(t)
	m.Want(t, map[string]float64{`page_keys_sum{use="dedicated"}`: 0})
	if fill, pages := m[`feedfilter_page_fill_ratio_sum{use="shared"}`], m[`feedfilter_page_fill_ratio_count{use="shared"}`]; fill <= 0 || fill >= pages || pages < 1 || pages > 2 {
		t.Errorf("%v pages, sum of fill %v", pages, fill)
	}
}

// TestMetricsOfFailures makes the store fail, and then the ledger.
func TestMetricsOfFailures(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Store.Set(httpapitest.Failing)
	s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed)
	s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed)
	s.Scrape(t).Want(t, map[string]float64{
		`feed_dropped_total{kind="block"}`:  2,
		`feed_degraded_total{kind="seen"}`:  2,
		`feed_degraded_total{kind="block"}`: 0,
		`views_total{source="store"}`:       0,
		`views_total{source="ledger"}`:      2,
		`dependency_up{dependency="pages"}`: 0,
		`ready{}`:                           1,
	})
	s.Ledger.Set(httpapitest.Failing)
	httpapitest.WantDown(t, "list", s.Do(t, "GET", "/v1/users/1/blocks", ""), "ledger")
	s.Store.Set(httpapitest.Panicing)
	if a := s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed); a.Status != 500 {
		t.Errorf("a panic: %d", a.Status)
	}
	s.Scrape(t).Want(t, map[string]float64{
		`http_requests_total{code="503",method="GET",route="/v1/users/:user/blocks"}`: 1,
		`http_requests_total{code="500",method="POST",route="/v1/feed/filter"}`:       1,
		`http_requests_total{code="200",method="POST",route="/v1/feed/filter"}`:       2,
	})
}

// TestMetricsOfLoad has one request in progress, and sheds another.
func TestMetricsOfLoad(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxRequests: 1, MaxStreams: 7, MaxBodiesBytes: 3 << 20}, nil)
	resume := s.Ledger.Lists.Shut()
	done := make(chan int)
	go func() { done <- s.Do(t, "GET", "/v1/users/1/blocks", "").Status }()
	for s.Scrape(t)["feedfilter_http_requests_in_progress{}"] != 1 {
		if t.Context().Err() != nil {
			t.Fatal("the request did not arrive")
		}
	}
	if a := s.Do(t, "GET", "/v1/users/1/blocks", ""); a.Code != "overloaded" {
		t.Errorf("a second request: %d %s", a.Status, a.Body)
	}
	s.Scrape(t).Want(t, map[string]float64{
		`http_requests_in_progress{}`: 1, `http_requests_limit{}`: 1, `http_requests_shed_total{}`: 1,
		`http_streams_in_progress{}`: 0, `http_streams_limit{}`: 7,
		`http_bodies_held_bytes{}`: 0, `http_bodies_limit_bytes{}`: 3 << 20,
		`http_requests_total{code="503",method="GET",route="/v1/users/:user/blocks"}`: 1,
	})
	resume()
	if status := <-done; status != 200 {
		t.Errorf("the request in progress: %d", status)
	}
	s.Scrape(t).Want(t, map[string]float64{`http_requests_in_progress{}`: 0})
}

// TestMetricsBounded: text that clients choose adds no series, and no id appears in one.
func TestMetricsBounded(t *testing.T) {
	s := httpapitest.Open(t)
	odd := func(n int) {
		for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH", fmt.Sprintf("ODD%d", n)} {
			for _, path := range []string{"/secret%d", "/v1/users/secret%d", "/v1/users/secret%d/blocks/secret", "/v1/users/1/secret%d", "/v1/users/1/hides/x/secret%d"} {
				s.Do(t, method, fmt.Sprintf(path, n), "")
			}
		}
	}
	odd(0)
	before := s.Scrape(t)
	for n := range 20 {
		odd(n)
	}
	after := s.Scrape(t)
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
	s := httpapitest.Open(t)
	s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	native := uint64(0)
	for w.Body.Len() > 0 {
		var f dto.MetricFamily
		httpapitest.Must(t, protodelim.UnmarshalFrom(w.Body, &f))
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
	if a := s.Do(t, "GET", "/metrics?name=x", ""); a.Code != "unknown_parameter" {
		t.Errorf("a parameter: %d %s", a.Status, a.Body)
	}
	if a := s.Do(t, "POST", "/metrics", ""); a.Status != 405 {
		t.Errorf("POST: %d", a.Status)
	}
}
