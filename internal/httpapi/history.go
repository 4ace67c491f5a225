package httpapi

import (
	"context"
	"math"
	"math/bits"
	"net/http"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// historyStep is the length of a step. Steps are kept for an hour. Each longSteps of them also
	// make a long step, which is kept for a day.
	historyStep = 5 * time.Second
	hourSteps   = int(time.Hour / historyStep)
	longSteps   = int(time.Minute / historyStep)
	daySteps    = 24 * 60
)

// history keeps counts of what the service did, step by step, in two rings. They take about 400
// KiB, and 17 KiB more for each kind that drops.
type history struct {
	service *service
	kinds   []string // the kinds that drop
	latency latencies

	mu         sync.Mutex
	fine, long ring
	last, from counts // at the end of the last step and of the last long step
	ticks      int
	whole      bool // every page has been surveyed since the start
}

// counts holds the values of the counters at one time.
type counts struct {
	at                               time.Time
	feeds, candidates, writes        uint64
	confirmed, falsePositives        uint64
	rebuilds, degraded, errors, shed uint64
	dropped                          []uint64 // in the order of history.kinds
	latency                          [latencyBuckets]uint64
}

// point is one step: its rates per second, and its gauges at the end.
type point struct {
	at                               int64 // Unix seconds
	feeds, candidates, writes        float32
	confirmed, falsePositives        float32
	rebuilds, degraded, errors, shed float32
	p50, p99                         float32 // ms; NaN where there were no feeds
	pollAge                          float32 // ms
	inProgress                       int32
	heap, pageBytes, keys            uint64
	whole                            bool // pageBytes and keys cover all pages
	dropped                          []float32
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
		fine:    ring{points: make([]point, hourSteps)},
		long:    ring{points: make([]point, daySteps)},
	}
	for _, k := range s.activities.Kinds().All() {
		if k.Effect == activity.Drop {
			h.kinds = append(h.kinds, k.Name)
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
	h.last, _ = h.count(now)
	h.from = h.last
}

// step ends a step, and after every longSteps steps also a long step.
func (h *history) step(now time.Time) {
	c, p := h.count(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.whole = h.whole || p.whole // a new page will be surveyed soon
	p.whole = h.whole
	h.fine.add(p.since(h.last, c))
	h.last = c
	h.ticks++
	if h.ticks%longSteps == 0 {
		h.long.add(p.since(h.from, c))
		h.from = c
	}
}

// count returns the counters, and a point with the gauges.
func (h *history) count(now time.Time) (counts, point) {
	s := h.service
	stats, totals := s.activities.Stats(), s.activities.Inside().SurveyTotals()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	c := counts{
		at: now, feeds: s.feeds.answered.Load(), candidates: s.feeds.candidates.Load(), confirmed: stats.Confirmed,
		falsePositives: stats.FalsePositives, degraded: s.feeds.unsure.Load(), errors: s.failed.Load(),
		shed: s.limits.shed.Load(), dropped: make([]uint64, len(h.kinds)),
	}
	for _, n := range stats.Recorded {
		c.writes += n
	}
	for _, n := range stats.Rebuilds {
		c.rebuilds += n
	}
	for i, kind := range h.kinds {
		c.dropped[i] = s.feeds.dropped[kind].Load()
	}
	for i := range c.latency {
		c.latency[i] = h.latency[i].Load()
	}
	inProgress, _ := s.limits.requests.taken()
	return c, point{
		at: now.Unix(), pollAge: float32(stats.PollAge) / float32(time.Millisecond), inProgress: int32(inProgress),
		heap: heap[0].Value.Uint64(), pageBytes: totals.Bytes, keys: totals.Keys,
		whole: totals.Looked >= totals.Pages,
	}
}

// since returns the point with the rates of the step between two counts.
func (p point) since(from, to counts) point {
	seconds := to.at.Sub(from.at).Seconds()
	rate := func(from, to uint64) float32 {
		if seconds <= 0 || to < from {
			return 0
		}
		return float32(float64(to-from) / seconds)
	}
	p.feeds, p.candidates, p.writes = rate(from.feeds, to.feeds), rate(from.candidates, to.candidates), rate(from.writes, to.writes)
	p.confirmed, p.falsePositives = rate(from.confirmed, to.confirmed), rate(from.falsePositives, to.falsePositives)
	p.rebuilds, p.degraded = rate(from.rebuilds, to.rebuilds), rate(from.degraded, to.degraded)
	p.errors, p.shed = rate(from.errors, to.errors), rate(from.shed, to.shed)
	p.dropped = make([]float32, len(to.dropped))
	for i := range p.dropped {
		p.dropped[i] = rate(from.dropped[i], to.dropped[i])
	}
	var feeds [latencyBuckets]uint64
	for i := range feeds {
		feeds[i] = to.latency[i] - from.latency[i]
	}
	p.p50, p.p99 = quantile(&feeds, 0.5), quantile(&feeds, 0.99)
	return p
}

// latencies counts feeds by duration. It has four buckets for each doubling from 16 us to 17 s, so
// a quantile is at most 20 % off. The first and the last bucket also count shorter and longer ones.
type latencies [latencyBuckets]atomic.Uint64

const (
	latencyLeast   = 4 // log2 of us
	latencyMost    = 24
	latencyBuckets = 4 * (latencyMost - latencyLeast)
)

func (l *latencies) note(took time.Duration) { l[latencyBucket(took)].Add(1) }

func latencyBucket(took time.Duration) int {
	us := uint64(max(took.Microseconds(), 1<<latencyLeast))
	double := bits.Len64(us) - 1
	return min(latencyBuckets-1, 4*(double-latencyLeast)+int(us>>(double-2)&3))
}

// latencyBound returns the lower bound of a bucket, in us.
func latencyBound(bucket int) float64 {
	return float64(uint64(4+bucket%4) << (latencyLeast - 2 + bucket/4))
}

// quantile returns the duration, in ms, within which that share of feeds was answered; NaN without
// feeds.
func quantile(feeds *[latencyBuckets]uint64, share float64) float32 {
	total := uint64(0)
	for _, n := range feeds {
		total += n
	}
	if total == 0 {
		return float32(math.NaN())
	}
	rank := share * float64(total)
	below := 0.0
	for i, n := range feeds {
		if n > 0 && below+float64(n) >= rank {
			begin, end := latencyBound(i), latencyBound(i+1)
			return float32((begin + (end-begin)*(rank-below)/float64(n)) / 1000)
		}
		below += float64(n)
	}
	return float32(latencyBound(latencyBuckets) / 1000)
}

// historyAnswer holds points in columns.
type historyAnswer struct {
	Window int     `json:"window_seconds"`
	Step   int     `json:"step_seconds"`
	Time   []int64 `json:"time"` // when each step ended, Unix seconds

	Feeds          []float32            `json:"feeds"` // a second, like all fields up to shed
	Candidates     []float32            `json:"candidates"`
	Writes         []float32            `json:"writes"`
	Dropped        map[string][]float32 `json:"dropped"`
	Confirmed      []float32            `json:"confirmed"`
	FalsePositives []float32            `json:"false_positives"`
	Rebuilds       []float32            `json:"rebuilds"`
	Degraded       []float32            `json:"degraded"`
	Errors         []float32            `json:"errors"`
	Shed           []float32            `json:"shed"`

	P50       []*float32 `json:"p50_ms"` // null where there were no feeds
	P99       []*float32 `json:"p99_ms"`
	PollAge   []float32  `json:"poll_age_ms"`
	Heap      []uint64   `json:"heap_bytes"`
	PageBytes []*uint64  `json:"page_bytes"` // null until every page has been surveyed
	Keys      []*uint64  `json:"keys"`       // likewise

	InProgress []int32 `json:"in_progress"`
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
func (h *history) answer(r *ring, window, step time.Duration) historyAnswer {
	a := historyAnswer{Window: int(window / time.Second), Step: int(step / time.Second), Dropped: make(map[string][]float32)}
	for _, kind := range h.kinds {
		a.Dropped[kind] = []float32{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range r.lately(int(window / step)) {
		a.Time = append(a.Time, p.at)
		a.Feeds, a.Candidates, a.Writes = append(a.Feeds, p.feeds), append(a.Candidates, p.candidates), append(a.Writes, p.writes)
		for i, kind := range h.kinds {
			a.Dropped[kind] = append(a.Dropped[kind], p.dropped[i])
		}
		a.Confirmed, a.FalsePositives = append(a.Confirmed, p.confirmed), append(a.FalsePositives, p.falsePositives)
		a.Rebuilds, a.Degraded = append(a.Rebuilds, p.rebuilds), append(a.Degraded, p.degraded)
		a.Errors, a.Shed = append(a.Errors, p.errors), append(a.Shed, p.shed)
		a.P50, a.P99 = append(a.P50, known(p.p50)), append(a.P99, known(p.p99))
		a.PollAge, a.InProgress = append(a.PollAge, p.pollAge), append(a.InProgress, p.inProgress)
		a.Heap = append(a.Heap, p.heap)
		var bytes, keys *uint64
		if p.whole {
			bytes, keys = &p.pageBytes, &p.keys
		}
		a.PageBytes, a.Keys = append(a.PageBytes, bytes), append(a.Keys, keys)
	}
	return a
}

// known returns nil for NaN, which JSON does not have.
func known(x float32) *float32 {
	if math.IsNaN(float64(x)) {
		return nil
	}
	return &x
}
