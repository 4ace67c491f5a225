package httpapi

import (
	"context"
	"math"
	"net/http"
	rt "runtime/metrics"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

const (
	// historyStep is the length of a step. Steps are kept for an hour. Each longSteps of them also
	// make a long step, which is kept for a day.
	historyStep = 5 * time.Second
	hourSteps   = int(time.Hour / historyStep)
	longSteps   = int(time.Minute / historyStep)
	daySteps    = 24 * 60
)

// history keeps what the metrics say, step by step, in two rings. They take about 400 KiB, and 17
// KiB more for each kind that drops.
type history struct {
	service *service
	columns []column
	dropped []column // by kind

	mu         sync.Mutex
	fine, long ring
	last, from snapshot // at the end of the last step and of the last long step
	ticks      int
	whole      bool // every page has been surveyed since the start
}

// snapshot is what the metrics say at one time, from where they have it.
type snapshot struct {
	at             time.Time
	stats          activity.Stats
	totals         pages.SurveyTotals
	load           metrics.Load
	feeds          metrics.Feeds
	looked, took   metrics.Histogram // candidates and seconds of feeds
	unsure, failed uint64
	heap           uint64
	whole          bool // totals cover all pages
}

// column is a figure of each step, by what the metrics say at its begin and at its end.
type column struct {
	name  string // in the API
	value func(from, to *snapshot) figure
}

// figure is a number in the API; NaN is null.
type figure float64

// MarshalJSON implements [json.Marshaler]. Whole numbers are exact, others have seven digits.
func (f figure) MarshalJSON() ([]byte, error) {
	switch x := float64(f); {
	case math.IsNaN(x):
		return []byte("null"), nil
	case x == math.Trunc(x):
		return strconv.AppendFloat(nil, x, 'f', -1, 64), nil
	default:
		return strconv.AppendFloat(nil, x, 'g', -1, 32), nil
	}
}

// rate returns a column of what a counter grows by in a second.
func rate(name string, counter func(*snapshot) uint64) column {
	return column{name, func(from, to *snapshot) figure {
		seconds := to.at.Sub(from.at).Seconds()
		begin, end := counter(from), counter(to)
		if seconds <= 0 || end < begin {
			return 0
		}
		return figure(float64(end-begin) / seconds)
	}}
}

// gauge returns a column of values at the end of steps.
func gauge(name string, value func(*snapshot) float64) column {
	return column{name, func(_, to *snapshot) figure { return figure(value(to)) }}
}

// latency returns a column of how long a share of the feeds took at most, in ms; NaN without feeds.
func latency(name string, share float64) column {
	return column{name, func(from, to *snapshot) figure { return figure(1000 * to.took.Quantile(share, from.took)) }}
}

// ofWhole is n, or NaN before every page has been surveyed: until then it would seem to grow.
func (s *snapshot) ofWhole(n uint64) float64 {
	if !s.whole {
		return math.NaN()
	}
	return float64(n)
}

func sumOf(counts map[string]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// columnsOfHistory returns all columns but those by kind.
func columnsOfHistory() []column {
	return []column{
		rate("feeds", func(s *snapshot) uint64 { return s.looked.Count }),
		rate("candidates", func(s *snapshot) uint64 { return uint64(s.looked.Sum) }),
		rate("writes", func(s *snapshot) uint64 { return sumOf(s.stats.Recorded) }),
		rate("confirmed", func(s *snapshot) uint64 { return s.stats.Confirmed }),
		rate("false_positives", func(s *snapshot) uint64 { return s.stats.FalsePositives }),
		rate("rebuilds", func(s *snapshot) uint64 { return sumOf(s.stats.Rebuilds) }),
		rate("degraded", func(s *snapshot) uint64 { return s.unsure }),
		rate("errors", func(s *snapshot) uint64 { return s.failed }),
		rate("shed", func(s *snapshot) uint64 { return s.load.Shed }),
		latency("p50_ms", 0.5),
		latency("p99_ms", 0.99),
		gauge("poll_age_ms", func(s *snapshot) float64 { return float64(s.stats.PollAge) / float64(time.Millisecond) }),
		gauge("heap_bytes", func(s *snapshot) float64 { return float64(s.heap) }),
		gauge("page_bytes", func(s *snapshot) float64 { return s.ofWhole(s.totals.Bytes) }),
		gauge("keys", func(s *snapshot) float64 { return s.ofWhole(s.totals.Keys) }),
		gauge("in_progress", func(s *snapshot) float64 { return float64(s.load.Requests) }),
	}
}

// point is one step: the figures of history.columns, then those of history.dropped.
type point struct {
	at      int64 // Unix seconds
	figures []figure
}

// ring keeps the last points.
type ring struct {
	points []point
	next   int
	full   bool
}

func (r *ring) add(p point) {
	r.points[r.next] = p
	r.next = (r.next + 1) % len(r.points)
	r.full = r.full || r.next == 0
}

// lately returns up to n of the last points, oldest first.
func (r *ring) lately(n int) []point {
	have := r.next
	if r.full {
		have = len(r.points)
	}
	n = min(n, have)
	points := make([]point, n)
	for i := range points {
		points[i] = r.points[(r.next-n+i+len(r.points))%len(r.points)]
	}
	return points
}

func newHistory(s *service) *history {
	h := &history{
		service: s,
		columns: columnsOfHistory(),
		fine:    ring{points: make([]point, hourSteps)},
		long:    ring{points: make([]point, daySteps)},
	}
	for _, k := range s.activities.Kinds().All() {
		if k.Effect == activity.Drop {
			h.dropped = append(h.dropped, rate(k.Name, func(s *snapshot) uint64 { return s.feeds.Dropped[k.Name] }))
		}
	}
	return h
}

// run adds a point after each step, until ctx ends.
func (h *history) run(ctx context.Context) {
	h.begin(time.Now())
	tick := time.NewTicker(historyStep)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			h.step(now)
		case <-ctx.Done():
			return
		}
	}
}

// begin begins the first step.
func (h *history) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = h.service.snapshot(now)
	h.from = h.last
}

// step ends a step, and after every longSteps steps also a long step.
func (h *history) step(now time.Time) {
	s := h.service.snapshot(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.whole = h.whole || s.whole // a new page will be surveyed soon
	s.whole = h.whole
	h.fine.add(h.point(&h.last, &s))
	h.last = s
	h.ticks++
	if h.ticks%longSteps == 0 {
		h.long.add(h.point(&h.from, &s))
		h.from = s
	}
}

// point returns the figures of a step.
func (h *history) point(from, to *snapshot) point {
	p := point{at: to.at.Unix()}
	for _, columns := range [][]column{h.columns, h.dropped} {
		for _, c := range columns {
			p.figures = append(p.figures, c.value(from, to))
		}
	}
	return p
}

// snapshot reads the metrics.
func (s *service) snapshot(now time.Time) snapshot {
	heap := []rt.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	rt.Read(heap)
	totals := s.activities.Inside().SurveyTotals()
	return snapshot{
		at: now, stats: s.activities.Stats(), totals: totals, load: s.limits.metrics(), feeds: s.feeds.metrics(),
		looked: s.meters.candidates.Read(), took: s.meters.feedDurations(),
		unsure: s.feeds.unsure.Load(), failed: s.failed.Load(), heap: heap[0].Value.Uint64(), whole: totals.Looked >= totals.Pages,
	}
}

// opsHistory answers with the history of the service.
func (o operations) opsHistory(c echo.Context) error {
	values, err := query(c, "window")
	if err != nil {
		return err
	}
	if err := noBody(c); err != nil {
		return err
	}
	h := o.history
	switch window := values.Get("window"); {
	case window == "15m" || !values.Has("window"):
		return respond(c, http.StatusOK, h.answer(&h.fine, 15*time.Minute, historyStep))
	case window == "1h":
		return respond(c, http.StatusOK, h.answer(&h.fine, time.Hour, historyStep))
	case window == "24h":
		return respond(c, http.StatusOK, h.answer(&h.long, 24*time.Hour, time.Minute))
	default:
		return refuse(activity.CodeOutOfRange, "window", "must be 15m, 1h or 24h")
	}
}

// answer returns copies of the points, so that a slow reader does not hold the lock.
func (h *history) answer(r *ring, window, step time.Duration) map[string]any {
	h.mu.Lock()
	points := r.lately(int(window / step)) // they never change
	h.mu.Unlock()
	times := make([]int64, len(points))
	for i, p := range points {
		times[i] = p.at
	}
	dropped := columnsOf(h.dropped, points, len(h.columns))
	answer := columnsOf(h.columns, points, 0)
	answer["window_seconds"], answer["step_seconds"] = int(window/time.Second), int(step/time.Second)
	answer["time"], answer["dropped"] = times, dropped
	return answer
}

// columnsOf returns the figures of points in columns, by name. The first is at a position of them.
func columnsOf(columns []column, points []point, first int) map[string]any {
	all := make(map[string]any, len(columns)+4)
	for i, c := range columns {
		figures := make([]figure, len(points))
		for n, p := range points {
			figures[n] = p.figures[first+i]
		}
		all[c.name] = figures
	}
	return all
}
