package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// jointReads is the number of reads in progress at which further calls wait. With 1, the server
	// would be idle while a reply travels.
	jointReads = 2
	// jointPages is the maximum number of pages in a joint read. A call for more pages reads alone,
	// so that no call waits for many pages of others.
	jointPages = 64
	// jointWait is how long a call waits for other reads to end. A connection that hangs delays
	// other calls no longer than that.
	jointWait = 20 * time.Millisecond
)

// joint combines reads that happen at the same time. While jointReads are in progress, further
// calls of read wait. Then one pipeline reads for all of them. System calls and waking goroutines
// take most of a call's processor time, and a joint read needs them only once.
//
// A joint read begins after all of its calls have begun, so each call gets every write that was
// acknowledged before it.
type joint struct {
	send func(ctx context.Context, all []pageRead) []redis.Cmder // sends the commands in one pipeline

	mu       sync.Mutex
	progress int // reads in progress, except those of calls that waited too long
	waiting  []*joined
}

// joined is a call that waits for a joint read.
type joined struct {
	ctx   context.Context //nolint:containedctx // only for its values, and its deadline
	pages int             // and values and headers, of all commands
	reads []pageRead
	done  chan struct{} // closed when cmds is set
	cmds  []redis.Cmder
}

// read sends the commands, alone or in a joint read. The error is that of ctx.
func (j *joint) read(ctx context.Context, pages int, all []pageRead) ([]redis.Cmder, error) {
	w := j.begin(ctx, pages, all)
	if w == nil {
		defer j.end() //nolint:contextcheck // no call cancels the reads of others
		return j.send(ctx, all), nil
	}
	timer := time.NewTimer(jointWait)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return w.cmds, nil
		case <-ctx.Done():
			j.leave(w)
			return nil, ctx.Err()
		case <-timer.C:
			if j.leave(w) {
				return j.send(ctx, all), nil
			}
		}
	}
}

// begin counts a read and returns nil if fewer than jointReads are in progress. Otherwise it
// returns a waiting call.
func (j *joint) begin(ctx context.Context, pages int, all []pageRead) *joined {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.progress < jointReads {
		j.progress++
		return nil
	}
	w := &joined{ctx: ctx, pages: pages, reads: all, done: make(chan struct{})}
	j.waiting = append(j.waiting, w)
	return w
}

// end ends a read, and starts a joint read for waiting calls, if there are any.
func (j *joint) end() {
	if calls := j.next(); len(calls) > 0 {
		go j.together(calls)
	}
}

// next ends a read, and returns the first waiting calls, whose joint read takes its place.
func (j *joint) next() (calls []*joined) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, pages := 0, 0
	for n < len(j.waiting) && pages+j.waiting[n].pages <= jointPages {
		pages += j.waiting[n].pages
		n++
	}
	calls, j.waiting = j.waiting[:n:n], j.waiting[n:]
	if n == 0 {
		j.progress--
	}
	if len(j.waiting) == 0 {
		j.waiting = nil
	}
	return calls
}

// leave removes w from the waiting calls. It reports whether w was one.
func (j *joint) leave(w *joined) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.Index(j.waiting, w)
	if at < 0 {
		return false
	}
	// The slice may share memory with that of a read, so it is copied.
	j.waiting = slices.Concat(j.waiting[:at], j.waiting[at+1:])
	return true
}

// together reads for the calls, and then for calls that have begun to wait since.
func (j *joint) together(calls []*joined) {
	for ; len(calls) > 0; calls = j.next() {
		var all []pageRead
		for _, w := range calls {
			all = append(all, w.reads...)
		}
		ctx, cancel := onBehalf(calls)
		cmds := j.send(ctx, all)
		cancel()
		for _, w := range calls {
			n := len(w.reads)
			w.cmds, cmds = cmds[:n:n], cmds[n:]
			close(w.done)
		}
	}
}

// onBehalf returns the context of a joint read. No call cancels it, because the other calls need
// the read. The context ends when the last of the calls would end. Its values, such as the trace,
// are those of the first call.
func onBehalf(calls []*joined) (context.Context, context.CancelFunc) {
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
