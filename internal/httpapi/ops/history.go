package ops

import (
	"context"
	"math"
	rt "runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
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

// History keeps what the metrics say, step by step. It takes about 400 KiB, and 17 KiB more for
// each kind that drops.
type History struct {
	operations *operations.Operations
	durations  func() metrics.Histogram
	columns    []column

	mu         sync.Mutex
	fine, long []point       // of the last hour and of the last day
	last, from snapshot      // at the end of the last step and of the last long step
	worst      time.Duration // lag since the end of the last long step
	ticks      int
}

// snapshot is what the metrics say at one time, from where they have it.
type snapshot struct {
	at             time.Time
	stats          activity.Stats
	lag            time.Duration // largest age of a poll since the last snapshot
	survey         *pages.Survey
	load           metrics.Load
	feeds          metrics.Feeds
	looked, took   metrics.Histogram // candidates and seconds of feeds
	unsure, failed uint64
	heap           uint64
}

// column is a figure of each step, by what the metrics say at its begin and at its end.
type column struct {
	name    string // in the API
	value   func(from, to *snapshot) figure
	dropped bool // name is a kind
}

// figure is a number in the API; NaN is null.
type figure float64

// MarshalJSON returns the number, or null. Whole numbers are exact, others have seven digits.
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
	return column{name: name, value: func(from, to *snapshot) figure {
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
	return column{name: name, value: func(_, to *snapshot) figure { return figure(value(to)) }}
}

// latency returns a column of how long a share of the feeds took at most, in ms; NaN without feeds.
func latency(name string, share float64) column {
	return column{name: name, value: func(from, to *snapshot) figure { return figure(1000 * to.took.Quantile(share, &from.took)) }}
}

// ofWhole is n, or NaN before every page has been surveyed: until then it would seem to grow.
func (s *snapshot) ofWhole(n uint64) float64 {
	if !s.survey.Whole {
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

// columnsOfHistory returns all columns but those of dropped posts.
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
		gauge("poll_age_ms", func(s *snapshot) float64 { return float64(s.lag) / float64(time.Millisecond) }),
		gauge("heap_bytes", func(s *snapshot) float64 { return float64(s.heap) }),
		gauge("page_bytes", func(s *snapshot) float64 { return s.ofWhole(s.survey.Bytes()) }),
		gauge("keys", func(s *snapshot) float64 { return s.ofWhole(s.survey.Keys()) }),
		gauge("in_progress", func(s *snapshot) float64 { return float64(s.load.Requests) }),
	}
}

// point is one step, with a figure for each column.
type point struct {
	at      int64 // Unix seconds
	figures []figure
}

// kept returns points with p as the last one, without the first if there would be too many.
func kept(points []point, p point, most int) []point {
	if len(points) == most {
		points = slices.Delete(points, 0, 1)
	}
	return append(points, p)
}

// NewHistory returns a history of the operations without steps. durations returns the histogram of
// all calls that ask for a feed, in seconds.
func NewHistory(o *operations.Operations, durations func() metrics.Histogram) *History {
	h := &History{operations: o, durations: durations, columns: columnsOfHistory()}
	for _, k := range o.Activities.Kinds().All() {
		if k.Effect == activity.Drop {
			c := rate(k.Name, func(s *snapshot) uint64 { return s.feeds.Dropped[k.Name] })
			c.dropped = true
			h.columns = append(h.columns, c)
		}
	}
	return h
}

// Run adds a point after each step, until ctx ends.
func (h *History) Run(ctx context.Context) {
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
func (h *History) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = h.snapshot(now)
	h.from = h.last
}

// step ends a step, and after every longSteps steps also a long step.
func (h *History) step(now time.Time) {
	s := h.snapshot(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fine = kept(h.fine, h.point(&h.last, &s), hourSteps)
	h.last = s
	h.worst = max(h.worst, s.lag)
	h.ticks++
	if h.ticks%longSteps == 0 {
		s.lag, h.worst = h.worst, 0
		h.long = kept(h.long, h.point(&h.from, &s), daySteps)
		h.from = s
	}
}

// point returns the figures of a step.
func (h *History) point(from, to *snapshot) point {
	p := point{to.at.Unix(), make([]figure, len(h.columns))}
	for i, c := range h.columns {
		p.figures[i] = c.value(from, to)
	}
	return p
}

// snapshot reads the figures.
func (h *History) snapshot(now time.Time) snapshot {
	heap := []rt.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	rt.Read(heap)
	o := h.operations
	var lag time.Duration
	if o.Recorder != nil {
		lag = o.Recorder.TakePollAge()
	}
	return snapshot{
		at: now, stats: o.Activities.Stats(), lag: lag, survey: surveyOf(o.Recorder), load: o.Load(), feeds: o.Feeds.Stats(),
		looked: o.Candidates.Read(), took: h.durations(),
		unsure: o.Feeds.Unsure.Load(), failed: o.Reports.Failed.Load(), heap: heap[0].Value.Uint64(),
	}
}

// Answer answers with the history of the service.
func (h *History) Answer(k *wire.Call) error {
	values, err := wire.Query(k, "window")
	if err == nil {
		err = wire.NoBody(k)
	}
	if err != nil {
		return err
	}
	points, step, back := &h.fine, historyStep, 15*time.Minute
	switch window := values.Get("window"); {
	case window == "15m" || !values.Has("window"):
	case window == "1h":
		back = time.Hour
	case window == "24h":
		points, step, back = &h.long, time.Minute, 24*time.Hour
	default:
		return wire.Refuse(activity.CodeOutOfRange, "window", "must be 15m, 1h or 24h")
	}
	return wire.Respond(k, h.answer(points, back, step))
}

// answer returns copies of the last steps, in columns. So a slow reader does not hold the lock.
func (h *History) answer(points *[]point, window, step time.Duration) map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := (*points)[max(0, len(*points)-int(window/step)):]
	times, dropped := make([]int64, len(last)), make(map[string][]figure)
	answer := map[string]any{
		"window_seconds": int(window / time.Second), "step_seconds": int(step / time.Second), "time": times, "dropped": dropped,
	}
	for n, p := range last {
		times[n] = p.at
	}
	for i, c := range h.columns {
		figures := make([]figure, len(last))
		for n, p := range last {
			figures[n] = p.figures[i]
		}
		if c.dropped {
			dropped[c.name] = figures
		} else {
			answer[c.name] = figures
		}
	}
	return answer
}
