package known

import (
	"sync/atomic"
	"time"
)

// jitter is how much lower a reading of the ledger's clock may be than an earlier one.
const jitter = time.Second

// clock is the ledger's clock, on which processes with different clocks agree. It adds the
// monotonic time since the last poll to that poll's reading. So changing this machine's clock has
// no effect. It is safe for concurrent use.
type clock struct {
	read   atomic.Pointer[clockReading] // nil: never
	latest atomic.Int64                 // last result of now, in unix nanoseconds
}

// clockReading is a reading of the ledger's clock.
type clockReading struct {
	clock time.Time // of the ledger
	at    time.Time // of this process, with its monotonic clock
	error time.Duration
}

// now returns the time.
//
// Readings vary a little from poll to poll. Rather than go back, the time then advances by a
// microsecond, the unit in which times are kept, so that later activities have later times.
func (c *clock) now() time.Time {
	now := time.Now()
	if read := c.read.Load(); read != nil {
		now = read.clock.Add(now.Sub(read.at))
	}
	for {
		latest := c.latest.Load()
		if back := latest - now.UnixNano(); back > 0 && back < int64(jitter) {
			now = time.Unix(0, latest).Add(time.Microsecond)
		}
		if c.latest.CompareAndSwap(latest, now.UnixNano()) {
			return now
		}
	}
}

// bounds returns the bounds between which the clock is now, however long the last poll took.
func (c *clock) bounds() (earliest, latest time.Time) {
	now := time.Now()
	read := c.read.Load()
	if read == nil {
		return now.Add(-jitter), now.Add(jitter)
	}
	now = read.clock.Add(now.Sub(read.at))
	return now.Add(-read.error), now.Add(read.error)
}
