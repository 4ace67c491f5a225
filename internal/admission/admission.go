// Package admission bounds the requests that use the processors at the same time, and those that
// wait for the ledger. So neither many feeds nor a ledger that hangs delays the other requests.
package admission

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/feedfilter/feedfilter/internal/pause"
)

const (
	// perProcessor is the number of feeds that are checked at the same time on each processor. A
	// feed takes about 0.2 ms of processor time. So 32 feeds keep a processor busy while others wait
	// up to 6 ms for Redis.
	perProcessor = 32
	// patience is how long a request waits for a processor.
	patience = time.Second
)

// Limiter bounds requests. It is safe for concurrent use.
type Limiter struct {
	running    *semaphore.Weighted
	waiting    atomic.Int64
	maxWaiting atomic.Int64
}

// NewLimiter returns a Limiter for the processors of this machine. SetMaxWaiting sets the number of
// requests that may wait for the ledger.
func NewLimiter() *Limiter {
	return &Limiter{running: semaphore.NewWeighted(int64(perProcessor * runtime.GOMAXPROCS(0)))}
}

// SetMaxWaiting sets the number of requests that may wait for the ledger at the same time.
func (l *Limiter) SetMaxWaiting(n int) { l.maxWaiting.Store(int64(n)) }

// Begin returns a context for the work of one request, to which the functions below then apply.
// They do nothing for other contexts.
func (l *Limiter) Begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{of: l})
}

// Detach returns a context for work on behalf of several requests.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, (*request)(nil))
}

type requestKey struct{}

// request is a request from Begin to its end.
type request struct {
	of *Limiter

	mu      sync.Mutex
	runs    bool // has called Run, and not ended
	running bool // holds a processor
	pauses  int  // parts of the request that wait
	asks    int  // of these, parts that wait for the ledger
}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// Run waits for a processor, for up to a second, and reports whether it got one. The request calls
// done at its end. Without a processor, a request must not call Redis: it would read the reply
// late, and take that for a failure of Redis.
func Run(ctx context.Context) (done func(), ok bool) {
	r := requestOf(ctx)
	if r == nil {
		return func() {}, true
	}
	wait := func(ctx context.Context) error { return r.of.running.Acquire(ctx, 1) }
	if !r.of.running.TryAcquire(1) && pause.Within(ctx, patience, wait) != nil {
		return nil, false
	}
	r.runs, r.running = true, true
	return r.end, true
}

// Pause gives the processor of the context's request to another one, until resume is called. Parts
// of a request that run at the same time may each pause.
func Pause(ctx context.Context) (resume func()) {
	resume, _ = pauseFor(ctx, 0)
	return resume
}

// PauseForLedger is Pause for a request that waits for the ledger. It reports false, and does not
// pause, if too many requests wait for it.
func PauseForLedger(ctx context.Context) (resume func(), ok bool) { return pauseFor(ctx, 1) }

// pauseFor pauses a part of a request. asks is 1 if the part waits for the ledger, else 0.
func pauseFor(ctx context.Context, asks int) (resume func(), ok bool) {
	r := requestOf(ctx)
	if r == nil {
		return func() {}, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if asks > 0 && r.asks == 0 && r.of.waiting.Add(1) > r.of.maxWaiting.Load() {
		r.of.waiting.Add(-1)
		return nil, false
	}
	r.asks += asks
	r.pauses++
	r.release()
	return func() { r.resume(ctx, asks) }, true
}

// release gives the processor back. The caller holds mu.
func (r *request) release() {
	if r.running {
		r.running = false
		r.of.running.Release(1)
	}
}

// resume ends a pause. It takes a processor again when no part of the request waits. If ctx ends
// meanwhile, the request ends without one.
func (r *request) resume(ctx context.Context, asks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks -= asks
	if asks > 0 && r.asks == 0 {
		r.of.waiting.Add(-1)
	}
	r.pauses--
	if r.runs && r.pauses == 0 && !r.running {
		r.running = r.of.running.Acquire(ctx, 1) == nil
	}
}

func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = false
	r.release()
}
