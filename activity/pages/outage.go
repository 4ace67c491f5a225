package pages

import (
	"sync"
	"sync/atomic"
	"time"
)

// outageQuiet is how long nothing must fail before an outage can end.
const outageQuiet = 5 * time.Second

// outage is a period of failures. It limits the log to a line at its begin and one at its end,
// when some pages fail and others work. An outage begins with a failure. It ends with the first
// success after outageQuiet without a failure. The zero value is no outage. It is safe for
// concurrent use.
type outage struct {
	on atomic.Bool

	mu   sync.Mutex
	last int64 // time of the last failure, as elapsed
}

// failed notes a failure, and reports whether it begins an outage.
func (e *outage) failed(now int64) (begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = now
	return !e.on.Swap(true)
}

// worked notes a success, and reports whether it ends the outage.
func (e *outage) worked(now int64) (ends bool) {
	if !e.on.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on.Load() && now-e.last >= int64(outageQuiet) && e.on.Swap(false)
}
