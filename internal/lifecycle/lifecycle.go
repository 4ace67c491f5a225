// Package lifecycle runs the background work of something that is opened and closed.
package lifecycle

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the error of work that would start after [Lifecycle.Close] is called.
var ErrClosed = errors.New("closed")

// Lifecycle runs background work, and provides the clock for it. It is safe for concurrent use.
type Lifecycle struct {
	// Base is the context of work that callers do not wait for. It ends when Close returns.
	Base context.Context //nolint:containedctx // outlives callers
	// Open ends when Close is called.
	Open context.Context //nolint:containedctx // as above

	opened time.Time
	last   atomic.Int64 // last result of Elapsed

	stop  context.CancelFunc
	close context.CancelFunc
	mu    sync.Mutex // held to end open, and to start work that Close waits for
	ended sync.WaitGroup
}

// New returns a Lifecycle whose work has the values of ctx, but not its cancellation.
func New(ctx context.Context) *Lifecycle {
	l := &Lifecycle{opened: time.Now()}
	l.Base, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.Open, l.close = context.WithCancel(l.Base)
	return l
}

// MaxAhead bounds how far [Lifecycle.Elapsed] may be ahead of the clock, in this process or
// another. Each call while the clock stands still puts it a nanosecond ahead.
const MaxAhead = time.Microsecond

// Elapsed returns the nanoseconds since the Lifecycle began, by the monotonic clock, which ignores
// changes of the machine's time. No two calls return the same: any two events have an order.
func (l *Lifecycle) Elapsed() int64 {
	for {
		last := l.last.Load()
		now := max(int64(time.Since(l.opened)), last+1)
		if l.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// Every calls do at an interval until Close is called.
func (l *Lifecycle) Every(interval time.Duration, do func()) {
	tick := time.Tick(interval)
	for {
		select {
		case <-tick:
			do()
		case <-l.Open.Done():
			return
		}
	}
}

// Rest waits for d. It returns an error if ctx ends or Close is called meanwhile.
func (l *Lifecycle) Rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d + time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.Open.Done():
		return ErrClosed
	}
}

// Go runs do in a goroutine that Close waits for. The caller is such work itself, or comes before
// Close.
func (l *Lifecycle) Go(do func()) { l.ended.Go(do) }

// Background is Go for callers that may come after Close. Then it returns false and does nothing.
func (l *Lifecycle) Background(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.IsClosed() {
		return false
	}
	l.ended.Go(do)
	return true
}

// IsClosed reports whether Close was called. Failures after that are not reported.
func (l *Lifecycle) IsClosed() bool { return l.Open.Err() != nil }

// Close waits until all work in flight is done, then returns. Work that would start after Close is
// called fails with [ErrClosed].
func (l *Lifecycle) Close() {
	l.mu.Lock()
	l.close()
	l.mu.Unlock()
	l.ended.Wait()
	l.stop() // work that is left is not needed
}

// Going returns an error if ctx has ended, or Close was called.
func (l *Lifecycle) Going(ctx context.Context) error {
	if l.IsClosed() {
		return ErrClosed
	}
	return ctx.Err()
}
