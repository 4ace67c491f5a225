package activity

import (
	"sync"
	"sync/atomic"
	"time"
)

// calm is how long nothing fails before an episode ends.
const calm = 5 * time.Second

// episode is a time in which something fails, for the log: what fails for some pages and works for
// others would fill it. An episode begins with a failure, and ends with the first success after
// nothing failed for a while. The zero value is none. It is safe for concurrent use.
type episode struct {
	on atomic.Bool

	mu   sync.Mutex
	last int64 // the last failure, as elapsed
}

// failed notes a failure, and reports whether an episode begins.
func (e *episode) failed(now int64) (begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = now
	return !e.on.Swap(true)
}

// worked notes a success, and reports whether the episode ends.
func (e *episode) worked(now int64) (ends bool) {
	if !e.on.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on.Load() && now-e.last >= int64(calm) && e.on.Swap(false)
}
