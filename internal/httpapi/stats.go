package httpapi

import (
	"net/http"
	"runtime/metrics"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

// statsAnswer is what the process counts, since it started.
type statsAnswer struct {
	UptimeSeconds int64          `json:"uptime_seconds"`
	Goroutines    uint64         `json:"goroutines"`
	HeapBytes     uint64         `json:"heap_bytes"` // of objects, those that await collection included
	Requests      requestStats   `json:"requests"`
	Recorder      activity.Stats `json:"recorder"`
}

type requestStats struct {
	InProgress int64  `json:"in_progress"` // of those that are limited in number
	Shed       uint64 `json:"shed"`        // refused for overload
	Total      uint64 `json:"total"`       // all, whatever became of them
}

// stats answers what the process counts.
func (s *service) stats(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	samples := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return respond(c, http.StatusOK, statsAnswer{
		UptimeSeconds: int64(time.Since(s.started).Seconds()),
		Goroutines:    samples[0].Value.Uint64(),
		HeapBytes:     samples[1].Value.Uint64(),
		Requests: requestStats{
			InProgress: s.limits.requests.taken(),
			Shed:       s.limits.shed.Load(),
			Total:      s.limits.total.Load(),
		},
		Recorder: s.recorder.Stats(),
	}, jsonv1.FormatDurationAsNano(true))
}
