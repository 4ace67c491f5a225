package pages

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lifecycle runs background work, and provides the clock for it.
type lifecycle struct {
	opened time.Time
	last   atomic.Int64 // last result of elapsed

	base  context.Context //nolint:containedctx // outlives callers; ends when Close returns
	stop  context.CancelFunc
	open  context.Context //nolint:containedctx // ends when Close is called
	close context.CancelFunc
	mu    sync.Mutex // held to end open, and to start work that Close waits for
	ended sync.WaitGroup
}

// newLifecycle returns a lifecycle whose work has the values of ctx, but not its cancellation.
func newLifecycle(ctx context.Context) *lifecycle {
	l := &lifecycle{opened: time.Now()}
	l.base, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.open, l.close = context.WithCancel(l.base)
	return l
}

// elapsedAhead bounds how far elapsed may be ahead of the clock, in this process or another. Each
// call while the clock stands still puts it a nanosecond ahead.
const elapsedAhead = time.Microsecond

// elapsed returns the time since the lifecycle began, by the monotonic clock, which ignores changes
// of the machine's time. No two calls return the same, so that any two events have an order.
func (l *lifecycle) elapsed() int64 {
	for {
		last := l.last.Load()
		now := max(int64(time.Since(l.opened)), last+1)
		if l.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// every calls do at an interval until Close is called.
func (l *lifecycle) every(interval time.Duration, do func()) {
	tick := time.Tick(interval)
	for {
		select {
		case <-tick:
			do()
		case <-l.open.Done():
			return
		}
	}
}

// rest waits for d. It returns an error if ctx ends or Close is called meanwhile.
func (l *lifecycle) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d + time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.open.Done():
		return ErrClosed
	}
}

// background runs do in a goroutine that Close waits for. If Close was called already, it returns
// false and does nothing.
func (l *lifecycle) background(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return false
	}
	l.ended.Go(do)
	return true
}

// isClosed reports whether Close was called. Failures after that are not reported.
func (l *lifecycle) isClosed() bool { return l.open.Err() != nil }

// Close waits until all work in flight is done, then returns. Work that would start after Close is
// called fails with [ErrClosed].
func (l *lifecycle) Close() {
	l.mu.Lock()
	l.close()
	l.mu.Unlock()
	l.ended.Wait()
	l.stop() // work that is left is not needed
}

// going returns an error if ctx has ended, or Close was called.
func (l *lifecycle) going(ctx context.Context) error {
	if l.isClosed() {
		return ErrClosed
	}
	return ctx.Err()
}
