package ops

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/rest"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// remembering is a service with a history whose steps the test ends.
type remembering struct {
	http.Handler
	t *testing.T
	*History
	operations *operations.Operations
	recorder   *activity.Recorder
	now        time.Time
}

// newRemembering returns a service of that many pages, with a background scrub or without. A round
// of the background scrub publishes its own survey, which may lack the last writes.
func newRemembering(t *testing.T, pages uint32, scrubs bool) *remembering {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: pages})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r, err := activity.Open(t.Context(), activity.Config{
		Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: 1e-8, Passive: !scrubs,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	registry := metrics.New(metrics.Settings{})
	o := operations.New(r, registry, operations.Config{})
	feeds := registry.Requests().Route(rest.FilterPath, http.MethodPost)
	history := NewHistory(o, func() metrics.Histogram { return metrics.Durations(feeds) })
	e := echo.New()
	routes := append(rest.Routes(o), wire.Route{Method: http.MethodGet, Path: "/v1/ops/history", Handle: history.Answer})
	for _, route := range routes {
		e.Add(route.Method, route.Path, func(c echo.Context) error {
			k, start := &wire.Call{Context: c}, time.Now()
			if err := route.Handle(k); err != nil {
				o.Reports.Answer(k, err)
			}
			if route.Path == rest.FilterPath {
				feeds.Done(k.Response().Status, time.Since(start))
			}
			return nil
		})
	}
	history.begin(time.Unix(1_000_000, 0))
	return &remembering{Handler: e, t: t, History: history, operations: o, recorder: r, now: time.Unix(1_000_000, 0)}
}

func (r *remembering) do(method, target, body string, status int) {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, target, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if w.Code != status {
		r.t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
	}
}

func (r *remembering) scrub() {
	r.t.Helper()
	if _, err := r.recorder.Scrubber().Scrub(pages.MaxScrubRate); err != nil {
		r.t.Fatal(err)
	}
	for r.recorder.Scrubber().ScrubStatus().Running {
		time.Sleep(time.Millisecond)
	}
}

func (r *remembering) end() {
	r.now = r.now.Add(historyStep)
	r.step(r.now)
}

func (r *remembering) answer(window string) (columns map[string]any) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(r.t.Context(), http.MethodGet, "/v1/ops/history"+window, http.NoBody))
	if w.Code != http.StatusOK {
		r.t.Fatalf("%d %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &columns); err != nil {
		r.t.Fatal(err)
	}
	return columns
}

func (r *remembering) want(columns map[string]any, name string, want ...any) {
	r.t.Helper()
	if got := columns[name]; !reflect.DeepEqual(got, want) {
		r.t.Errorf("%s: %v, want %v", name, got, want)
	}
}

// TestHistory: each step has the rates during it, and the gauges at its end.
func TestHistory(t *testing.T) {
	r := newRemembering(t, 4, false)
	if c := r.answer(""); len(c) != 20 || c["window_seconds"] != 900.0 || c["step_seconds"] != 5.0 || len(c["time"].([]any)) != 0 || len(c["feeds"].([]any)) != 0 {
		t.Errorf("at the start: %v", c)
	}
	r.scrub()
	for _, target := range []string{"2", "3", "4", "5", "6"} {
		r.do("PUT", "/v1/users/1/blocks/"+target, "", 200)
	}
	r.end()
	const feed = `{"viewer":"1","posts":[{"id":"a","author":"2"},{"id":"b","author":"9"},{"id":"c","author":"9"},{"id":"d","author":"3"}]}`
	for range 10 {
		r.do("POST", "/v1/feed/filter", feed, 200)
	}
	r.do("POST", "/v1/feed/filter", strings.TrimSuffix(feed, "}")+`,"exact":true}`, 200)
	r.do("POST", "/v1/feed/filter", `{`, 400)
	r.end()
	r.scrub()
	r.end()
	c := r.answer("?window=15m")
	r.want(c, "time", 1_000_005.0, 1_000_010.0, 1_000_015.0)
	r.want(c, "writes", 1.0, 0.0, 0.0)
	r.want(c, "feeds", 0.0, 2.2, 0.0)
	r.want(c, "candidates", 0.0, 8.8, 0.0)
	r.want(c["dropped"].(map[string]any), "block", 0.0, 4.4, 0.0)
	r.want(c["dropped"].(map[string]any), "hide", 0.0, 0.0, 0.0)
	r.want(c, "confirmed", 0.0, 0.4, 0.0)
	for _, name := range []string{"false_positives", "degraded", "errors", "shed", "in_progress"} {
		r.want(c, name, 0.0, 0.0, 0.0)
	}
	for _, name := range []string{"p50_ms", "p99_ms"} {
		column := c[name].([]any)
		if ms, ok := column[1].(float64); column[0] != nil || column[2] != nil || !ok || ms <= 0 || ms > 10_000 {
			t.Errorf("%s: %v", name, column)
		}
	}
	all := uint64(0)
	for _, n := range r.recorder.Stats().Rebuilds {
		all += n
	}
	if all == 0 {
		t.Error("no page was rebuilt, although none existed at the start")
	}
	rebuilds := c["rebuilds"].([]any)
	if n := rebuilds[0].(float64); math.Abs(n-float64(all)/5) > 1e-6 || rebuilds[1] != 0.0 || rebuilds[2] != 0.0 {
		t.Errorf("rebuilds: %v, want all %d in the first 5 s", rebuilds, all)
	}
	if keys := c["keys"].([]any); keys[2] != 10.0 || c["page_bytes"].([]any)[2].(float64) < 300 || c["heap_bytes"].([]any)[2].(float64) < 1e5 {
		t.Errorf("keys %v, page bytes %v, heap bytes %v", keys, c["page_bytes"], c["heap_bytes"])
	}
}

// TestHistoryOfSomePages: totals are unknown until all pages are surveyed. Otherwise keys would
// seem to grow after each start.
func TestHistoryOfSomePages(t *testing.T) {
	r := newRemembering(t, 1<<15, true) // more pages than the scrub reads in two minutes
	r.do("PUT", "/v1/users/1/blocks/2", "", 200)
	r.end()
	r.scrub()
	r.end()
	c := r.answer("")
	for _, name := range []string{"keys", "page_bytes"} {
		if column := c[name].([]any); column[0] != nil || column[1] == nil || column[1].(float64) == 0 {
			t.Errorf("%s: %v", name, column)
		}
	}
}

// TestHistoryOfADay: a minute has twelve steps. The fine ring forgets steps after an hour, the long
// one after a day.
func TestHistoryOfADay(t *testing.T) {
	r := newRemembering(t, 4, false)
	if c := r.answer("?window=24h"); c["window_seconds"] != 86400.0 || c["step_seconds"] != 60.0 {
		t.Errorf("%v", c)
	}
	for i := range 12 {
		if i < 6 {
			r.do("PUT", "/v1/users/1/hides/"+string(rune('a'+i)), "", 200)
		}
		if n := len(r.answer("?window=24h")["time"].([]any)); n != 0 {
			t.Errorf("%d minutes after %d steps", n, i)
		}
		r.end()
	}
	c := r.answer("?window=24h")
	r.want(c, "time", 1_000_060.0)
	r.want(c, "writes", 0.1)
	lags := r.answer("")["poll_age_ms"].([]any)
	r.want(c, "poll_age_ms", slices.MaxFunc(lags, func(a, b any) int { return cmp.Compare(a.(float64), b.(float64)) }))
	for i := range 730 * 24 {
		if i == 12 {
			r.want(r.answer("?window=24h"), "writes", 0.1, 0.0) // each minute has its own rate
		}
		r.end()
	}
	for window, want := range map[string]struct{ steps, apart int }{"15m": {180, 5}, "1h": {720, 5}, "24h": {1440, 60}} {
		times := r.answer("?window=" + window)["time"].([]any)
		last := int(times[len(times)-1].(float64))
		if len(times) != want.steps || int(times[0].(float64)) != last-(want.steps-1)*want.apart {
			t.Errorf("%s: %d points from %v to %v", window, len(times), times[0], times[len(times)-1])
		}
	}
}

// TestColumns: every rate is the difference of two counts a second, and 0 if no time has passed.
func TestColumns(t *testing.T) {
	r := newRemembering(t, 4, false)
	block := func(n uint64) map[string]uint64 { return map[string]uint64{"block": n} }
	start := time.Unix(1_000_000, 0)
	from := snapshot{at: start}
	to := snapshot{
		at: start.Add(5 * time.Second), looked: metrics.Histogram{Count: 5, Sum: 10}, unsure: 35, failed: 40,
		stats: activity.Stats{Recorded: block(15), Confirmed: 20, FalsePositives: 25},
		load:  metrics.Load{Shed: 45, Requests: 3}, feeds: metrics.Feeds{Dropped: block(50)}, heap: 7,
		survey: &pages.Survey{
			Whole: true, Shared: pages.Figures{Keys: pages.Histogram{Sum: 5}, Bytes: pages.Histogram{Sum: 2}},
			Dedicated: pages.Figures{Keys: pages.Histogram{Sum: 3}, Bytes: pages.Histogram{Sum: 7}},
		},
	}
	to.stats.Rebuilds, to.lag = block(30), 3*time.Millisecond
	figures := func() map[string]figure {
		all := make(map[string]figure)
		p := r.point(&from, &to)
		for i, c := range r.columns {
			if x := p.figures[i]; !math.IsNaN(float64(x)) {
				all[c.name] = x
			}
		}
		return all
	}
	want := map[string]figure{
		"feeds": 1, "candidates": 2, "writes": 3, "confirmed": 4, "false_positives": 5, "rebuilds": 6, "degraded": 7, "errors": 8, "shed": 9,
		"block": 10, "hide": 0, "seen": 0, "poll_age_ms": 3, "heap_bytes": 7, "keys": 8, "page_bytes": 9, "in_progress": 3,
	}
	if got := figures(); !maps.Equal(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	to.at = start
	if got := figures(); got["feeds"] != 0 || got["block"] != 0 {
		t.Errorf("without elapsed time: %v", got)
	}
}

// TestHistoryOfFailures: degraded feeds, errors and shed requests are counted separately.
func TestHistoryOfFailures(t *testing.T) {
	r := newRemembering(t, 16, false)
	r.operations.Feeds.Unsure.Add(5)
	r.operations.Reports.Failed.Add(10)
	r.operations.Reports.Shed.Add(15)
	r.end()
	c := r.answer("")
	r.want(c, "degraded", 1.0)
	r.want(c, "errors", 2.0)
	r.want(c, "shed", 3.0)
}

// TestFigure: whole numbers are exact, and others short.
func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{math.NaN(): "null", 0: "0", 1 << 40: "1099511627776", 2.2: "2.2", 1. / 60: "0.016666668", 1e-9: "1e-09"} {
		if got, err := json.Marshal(figure(x)); string(got) != want || err != nil {
			t.Errorf("%g is written as %s, %v, want %s", x, got, err, want)
		}
	}
}
