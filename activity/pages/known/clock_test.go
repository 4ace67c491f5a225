package known

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// This machine's clock is set after a poll has read the ledger's clock. The time since the poll is
// measured with the monotonic clock.
func TestLedgerTimeWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	for _, set := range []time.Duration{10 * time.Minute, -10 * time.Minute, 24 * time.Hour} {
		at := time.Now()
		theirs := at.Add(time.Hour).Round(0)
		wall := at.Round(0)
		turnBack(&at, set) // the clock as it was before it was set
		if got := wall.Sub(at.Round(0)); got != set {
			t.Fatalf("turned back by %v, want %v", got, set)
		}
		c := &clock{}
		c.read.Store(&clockReading{clock: theirs, at: at})
		if got := c.now().Sub(theirs); got < 0 || got > time.Minute {
			t.Errorf("set by %v: the ledger's time is %v after the reading a moment ago", set, got)
		}
	}
}

// The bounds of the ledger's clock hold whatever moment of the answer the reading is of.
func TestLedgerClockBounds(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for _, off := range []time.Duration{-3 * time.Second, 0, 3 * time.Second} { // that the reading is ahead
		truth := func() time.Time { return time.Now().Add(time.Hour) }
		c := &clock{}
		c.read.Store(&clockReading{clock: at.Add(time.Hour + off).Round(0), at: at, error: 3 * time.Second})
		before := truth()
		earliest, latest := c.bounds()
		if after := truth(); earliest.After(after) || latest.Before(before) || latest.Sub(earliest) != 6*time.Second {
			t.Errorf("a reading that is %v ahead: the clock is between %v and %v, not in %v to %v", off, before, after, earliest, latest)
		}
	}
}

// The ledger's time does not go back if readings of its clock differ by little. If they differ by
// more, it follows them.
func TestLedgerTimeDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{}
		start := c.now()
		for _, step := range []struct{ ahead, want time.Duration }{
			{0, 0},
			{300 * time.Millisecond, 300 * time.Millisecond},
			{100 * time.Millisecond, 300*time.Millisecond + time.Microsecond},
			{-600 * time.Millisecond, 300*time.Millisecond + 2*time.Microsecond},
			{-10 * time.Minute, -10 * time.Minute},
			{10 * time.Minute, 10 * time.Minute},
		} {
			c.read.Store(&clockReading{clock: time.Now().Add(step.ahead), at: time.Now()})
			if got := c.now().Sub(start); got != step.want {
				t.Errorf("reading %v ahead: the ledger's time is %v ahead, want %v", step.ahead, got, step.want)
			}
		}
		time.Sleep(time.Second) // advances the bubble's clock
		if got := c.now().Sub(start); got != 10*time.Minute+time.Second {
			t.Errorf("after a second the ledger's time is %v ahead", got)
		}
	})
}

// turnBack changes the wall clock of a time and keeps its monotonic clock. No method of time.Time
// does.
func turnBack(at *time.Time, by time.Duration) {
	const seconds = 30 // position of the seconds in a time's wall clock
	wall := (*uint64)(unsafe.Pointer(at))
	*wall -= uint64(by/time.Second) << seconds
}
