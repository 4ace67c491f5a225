package ops

import (
	"context"
	rt "runtime/metrics"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// statsAnswer holds the counts of the process since its start.
type statsAnswer struct {
	UptimeSeconds int64              `json:"uptime_seconds"`
	Goroutines    uint64             `json:"goroutines"`
	HeapBytes     uint64             `json:"heap_bytes"` // of objects, garbage included
	Requests      requestStats       `json:"requests"`
	Access        limits.AccessStats `json:"access"`
	Feeds         metrics.Feeds      `json:"feeds"`
	Sampling      sampler.Stats      `json:"sampling"`
	Recorder      activity.Stats     `json:"recorder"`
}

type requestStats struct {
	InProgress int64  `json:"in_progress"` // without routes that have no limit
	Shed       uint64 `json:"shed"`        // refused for overload
	Total      uint64 `json:"total"`       // all, including refused and failed ones
}

// stats answers with the counts of the process.
func (o *ops) stats(context.Context, *wire.Call) (any, error) {
	samples := []rt.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}}
	rt.Read(samples)
	c := o.operations
	return statsAnswer{
		UptimeSeconds: int64(time.Since(o.started).Seconds()), Goroutines: samples[0].Value.Uint64(), HeapBytes: samples[1].Value.Uint64(),
		Requests: requestStats{InProgress: c.Limits.Load().Requests, Shed: c.Reports.Shed.Load(), Total: c.Reports.Total.Load()},
		Access:   c.Access.Stats(c.Reports.Refused()), Feeds: c.Feeds.Stats(), Sampling: c.Sampler.Stats(), Recorder: c.Activities.Stats(),
	}, nil
}
