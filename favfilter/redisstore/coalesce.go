package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// coalescedReads is the number of reads in progress at which further calls wait. With 1, the
	// server would be idle while a reply travels.
	coalescedReads = 2
	// coalescedPages is the maximum number of pages in a shared read. A call for more pages reads
	// alone, so that no call waits for many pages of others.
	coalescedPages = 64
	// coalescedWait is how long a call waits for other reads to end. A connection that hangs delays
	// other calls no longer than that.
	coalescedWait = 20 * time.Millisecond
)

// coalescer combines reads that happen at the same time. While coalescedReads are in progress,
// further calls of read wait. Then one pipeline reads for all of them. System calls and waking
// goroutines take most of a call's processor time, and a shared read needs them only once.
//
// A shared read begins after all of its calls have begun, so each call gets every write that was
// acknowledged before it.
type coalescer struct {
	send func(ctx context.Context, all []command) []*redis.Cmd // sends the commands in one pipeline

	mu       sync.Mutex
	progress int // reads in progress, except those of calls that waited too long
	waiting  []*waiter
}

// waiter is a call that waits for a shared read.
type waiter struct {
	ctx   context.Context //nolint:containedctx // only for its values, and its deadline
	pages int             // and values and headers, of all commands
	reads []command
	done  chan struct{} // closed when cmds is set
	cmds  []*redis.Cmd
}

// read sends the commands, alone or in a shared read. The error is that of ctx.
func (c *coalescer) read(ctx context.Context, pages int, all []command) ([]*redis.Cmd, error) {
	w := c.begin(ctx, pages, all)
	if w == nil {
		defer c.end() //nolint:contextcheck // no call cancels the reads of others
		return c.send(ctx, all), nil
	}
	timer := time.NewTimer(coalescedWait)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return w.cmds, nil
		case <-ctx.Done():
			c.leave(w)
			return nil, ctx.Err()
		case <-timer.C:
			if c.leave(w) {
				return c.send(ctx, all), nil
			}
		}
	}
}

// begin counts a read and returns nil if fewer than coalescedReads are in progress. Otherwise it
// returns a waiting call.
func (c *coalescer) begin(ctx context.Context, pages int, all []command) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.progress < coalescedReads {
		c.progress++
		return nil
	}
	w := &waiter{ctx: ctx, pages: pages, reads: all, done: make(chan struct{})}
	c.waiting = append(c.waiting, w)
	return w
}

// end ends a read, and starts a shared read for waiting calls, if there are any.
func (c *coalescer) end() {
	if calls := c.next(); len(calls) > 0 {
		go c.together(calls)
	}
}

// next ends a read, and returns the first waiting calls, whose shared read takes its place.
func (c *coalescer) next() (calls []*waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, pages := 0, 0
	for n < len(c.waiting) && pages+c.waiting[n].pages <= coalescedPages {
		pages += c.waiting[n].pages
		n++
	}
	calls, c.waiting = c.waiting[:n:n], c.waiting[n:]
	if n == 0 {
		c.progress--
	}
	if len(c.waiting) == 0 {
		c.waiting = nil
	}
	return calls
}

// leave removes w from the waiting calls. It reports whether w was one.
func (c *coalescer) leave(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.waiting, w)
	if at < 0 {
		return false
	}
	// The slice may share memory with that of a read, so it is copied.
	c.waiting = slices.Concat(c.waiting[:at], c.waiting[at+1:])
	return true
}

// together reads for the calls, and then for calls that have begun to wait since.
func (c *coalescer) together(calls []*waiter) {
	for ; len(calls) > 0; calls = c.next() {
		var all []command
		for _, w := range calls {
			all = append(all, w.reads...)
		}
		ctx, cancel := onBehalf(calls)
		cmds := c.send(ctx, all)
		cancel()
		for _, w := range calls {
			n := len(w.reads)
			w.cmds, cmds = cmds[:n:n], cmds[n:]
			close(w.done)
		}
	}
}

// onBehalf returns the context of a shared read. No call cancels it, because the other calls need
// the read. The context ends when the last of the calls would end. Its values, such as the trace,
// are those of the first call.
func onBehalf(calls []*waiter) (context.Context, context.CancelFunc) {
	latest := time.Now().Add(callTimeout)
	var end time.Time
	for _, w := range calls {
		deadline, ok := w.ctx.Deadline()
		if !ok || deadline.After(latest) {
			deadline = latest
		}
		if deadline.After(end) {
			end = deadline
		}
	}
	return context.WithDeadline(context.WithoutCancel(calls[0].ctx), end)
}
