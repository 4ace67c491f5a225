// Package pause is how long to wait: before another attempt, and for an answer.
//
// Callers that failed together must not try again together. So each pause is random, and so is the
// time between two rounds of what all processes do.
//
// A process may be stopped for a while, with its machine or alone. The time limits of its calls
// then pass, although their answers have arrived. That says nothing of who was asked, so such a
// call is made once more.
package pause

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// About returns a random time from half of d up to one and a half times d, d on average. d is
// positive.
func About(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // a pause may be predictable
}

// Doubled returns the pause after that many failures in a row: first after the first, twice as long
// after each further one, and at most longest.
func Doubled(first, longest time.Duration, failures int) time.Duration {
	const most = 32 // doublings, which keeps the product of any sensible first pause in range
	return min(first<<min(max(failures-1, 0), most), longest)
}

// Within is Again with a context that ends after limit, in each try.
func Within(ctx context.Context, limit time.Duration, do func(ctx context.Context) error) error {
	return Again(ctx, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return do(limited)
	})
}

// Again calls do. If that fails, and the process was stopped meanwhile, Again calls do once more,
// unless ctx has ended. do must be repeatable.
func Again(ctx context.Context, do func(ctx context.Context) error) error {
	w := StartWatch()
	err := do(ctx)
	// A beat later: go-redis computes deadlines from a clock that it sets every 50 ms, and that is
	// late right after a stop.
	if w.Stop() && err != nil && ctx.Err() == nil && Sleep(ctx, beat) {
		return do(ctx)
	}
	return err
}

// A running process notices each beat by late at the latest, unless its machine is overloaded.
const (
	beat = 50 * time.Millisecond
	late = 150 * time.Millisecond
)

// Watch notices whether the process is stopped, for more than 0.2 s.
type Watch struct {
	mu      sync.Mutex
	last    time.Time // of the last beat
	next    *time.Timer
	stopped bool
	ended   bool
}

// StartWatch begins a Watch, which must be stopped.
func StartWatch() *Watch {
	w := &Watch{last: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = time.AfterFunc(beat, w.beat)
	return w
}

func (w *Watch) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.look()
	w.next.Reset(beat)
}

// look notes whether the process was stopped since the last beat.
func (w *Watch) look() {
	now := time.Now()
	w.stopped = w.stopped || now.Sub(w.last) > beat+late
	w.last = now
}

// Stop ends the Watch, and reports whether the process was stopped since it began.
func (w *Watch) Stop() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	w.ended = true
	w.next.Stop()
	return w.stopped
}

// Sleep waits for d, and reports whether ctx has not ended. If ctx would end first, Sleep returns
// false at once.
func Sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
