package activity

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lifecycle is what runs in the background, and the clock by which it does.
type lifecycle struct {
	opened time.Time
	last   atomic.Int64 // what elapsed returned last

	base   context.Context //nolint:containedctx // of work that outlives its callers; ends when Close is done
	stop   context.CancelFunc
	mu     sync.Mutex // held to close closed, and to begin what Close waits for
	closed chan struct{}
	ended  sync.WaitGroup
}

// newLifecycle returns one whose work has the values of ctx, and not its end.
func newLifecycle(ctx context.Context) *lifecycle {
	l := &lifecycle{opened: time.Now(), closed: make(chan struct{})}
	l.base, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// elapsedAhead is how far elapsed may be ahead of the clock, of this process or of another, where that stands still meanwhile: a
// nanosecond for each call until it goes on.
const elapsedAhead = time.Microsecond

// elapsed is the time since it began, by the monotonic clock, which does not
// jump when somebody sets the machine's. No two calls return the same: of two moments
// it can always be told which came first.
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
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-l.closed:
			return
		}
	}
}

// rest waits, and returns an error if ctx ends or Close is called meanwhile.
func (l *lifecycle) rest(ctx context.Context, d time.Duration) error {
	rest := time.NewTimer(d + time.Millisecond)
	defer rest.Stop()
	select {
	case <-rest.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return ErrClosed
	}
}

// background runs do, which Close waits for, unless Close was called.
func (l *lifecycle) background(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return false
	}
	l.ended.Go(do)
	return true
}

// isClosed reports whether Close was called: what fails then is nobody's concern.
func (l *lifecycle) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Close lets what is on its way finish, and returns when nothing is running any more. What is called
// after it fails with [ErrClosed].
func (l *lifecycle) Close() {
	l.mu.Lock()
	if !l.isClosed() {
		close(l.closed)
	}
	l.mu.Unlock()
	l.ended.Wait()
	l.stop() // what is still on its way has nobody who waits for it
}
