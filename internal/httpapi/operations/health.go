package operations

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/feedfilter/feedfilter/activity"
)

// readyTimeout is how long the dependencies have to answer. It is shorter than the probe timeouts
// of orchestrators.
const readyTimeout = 2 * time.Second

// Health asks the dependencies whether the service can answer feeds.
type Health struct {
	activities activity.Activities
	timeout    time.Duration
	asking     singleflight.Group
}

// newHealth returns a Health that waits for up to two seconds, and not longer than the timeout.
func newHealth(activities activity.Activities, timeout time.Duration) *Health {
	return &Health{activities: activities, timeout: min(readyTimeout, timeout)}
}

// Bound returns a context that ends when the dependencies must have answered.
func (h *Health) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, h.timeout)
}

// Ask returns the result of [activity.Recorder.Ready]. Concurrent callers share one check: anybody
// may call it at any rate, and must not use up the connections of feeds and writes.
func (h *Health) Ask(ctx context.Context) (ready bool, down []error) {
	type answer struct {
		ready bool
		down  []error
	}
	shared, _, _ := h.asking.Do("", func() (any, error) {
		ctx, cancel := h.Bound(context.WithoutCancel(ctx)) // the first caller may leave
		defer cancel()
		ready, down := h.activities.Ready(ctx)
		return answer{ready, down}, nil
	})
	a, _ := shared.(answer)
	return a.ready, a.down
}
