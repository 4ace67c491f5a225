package httpapi

import (
	"net/http"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// statsAnswer holds the counts of the process since its start.
type statsAnswer struct {
	UptimeSeconds int64          `json:"uptime_seconds"`
	Goroutines    uint64         `json:"goroutines"`
	HeapBytes     uint64         `json:"heap_bytes"` // of objects, garbage included
	Requests      requestStats   `json:"requests"`
	Access        accessStats    `json:"access"`
	Feeds         feedStats      `json:"feeds"`
	Sampling      sampler.Stats  `json:"sampling"`
	Recorder      activity.Stats `json:"recorder"`
}

type requestStats struct {
	InProgress int64  `json:"in_progress"` // without routes that have no limit
	Shed       uint64 `json:"shed"`        // refused for overload
	Total      uint64 `json:"total"`       // all, including refused and failed ones
}

type feedStats struct {
	Answered uint64            `json:"answered"`
	Kept     uint64            `json:"kept"`     // posts
	Dropped  map[string]uint64 `json:"dropped"`  // posts, by the kind that dropped them
	Degraded map[string]uint64 `json:"degraded"` // feeds, by the kind that could not be checked
}

// feedCounts holds the counters of feedStats. The maps do not change later.
type feedCounts struct {
	answered, kept    atomic.Uint64
	unsure            atomic.Uint64 // feeds with a kind that could not be checked
	dropped, degraded map[string]*atomic.Uint64
}

func newFeedCounts(kinds *activity.Kinds) *feedCounts {
	c := &feedCounts{dropped: make(map[string]*atomic.Uint64), degraded: make(map[string]*atomic.Uint64)}
	for _, k := range kinds.All() {
		if k.Effect == activity.Drop {
			c.dropped[k.Name] = new(atomic.Uint64)
		}
		c.degraded[k.Name] = new(atomic.Uint64)
	}
	return c
}

func (c *feedCounts) count(a feed.Answer) {
	c.answered.Add(1)
	c.kept.Add(uint64(len(a.Kept)))
	for _, d := range a.Dropped {
		if n := c.dropped[d.Kind]; n != nil { // a feed drops a repeated post under a kind that annotates
			n.Add(1)
		}
	}
	if len(a.Degraded) > 0 {
		c.unsure.Add(1)
	}
	for _, d := range a.Degraded {
		c.degraded[d.Kind].Add(1)
	}
}

func (c *feedCounts) stats() feedStats {
	s := feedStats{
		Answered: c.answered.Load(), Kept: c.kept.Load(),
		Dropped: make(map[string]uint64), Degraded: make(map[string]uint64),
	}
	for kind, n := range c.dropped {
		s.Dropped[kind] = n.Load()
	}
	for kind, n := range c.degraded {
		s.Degraded[kind] = n.Load()
	}
	return s
}

// stats answers with the counts of the process.
func (o operations) stats(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	samples := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	inProgress, _ := o.limits.requests.taken()
	return respond(c, http.StatusOK, statsAnswer{
		UptimeSeconds: int64(time.Since(o.started).Seconds()),
		Goroutines:    samples[0].Value.Uint64(),
		HeapBytes:     samples[1].Value.Uint64(),
		Requests: requestStats{
			InProgress: inProgress,
			Shed:       o.limits.shed.Load(),
			Total:      o.limits.total.Load(),
		},
		Access:   o.accessStats(),
		Feeds:    o.feeds.stats(),
		Sampling: o.sampler.Stats(),
		Recorder: o.activities.Stats(),
	}, json.Deterministic(true), jsonv1.FormatDurationAsNano(true))
}
