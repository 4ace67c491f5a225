package pages

import (
	"sync"
	"sync/atomic"
	"time"
)

// calm is how long nothing must fail before an episode can end.
const calm = 5 * time.Second

// episode is a period of failures. It limits the log to a line at its begin and one at its end,
// when some pages fail and others work. An episode begins with a failure. It ends with the first
// success after calm without a failure. The zero value is no episode. It is safe for concurrent
// use.
type episode struct {
	on atomic.Bool

	mu   sync.Mutex
	last int64 // time of the last failure, as elapsed
}

// failed notes a failure, and reports whether it begins an episode.
func (e *episode) failed(now int64) (begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = now
	return !e.on.Swap(true)
}

// worked notes a success, and reports whether it ends the episode.
func (e *episode) worked(now int64) (ends bool) {
	if !e.on.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on.Load() && now-e.last >= int64(calm) && e.on.Swap(false)
}
