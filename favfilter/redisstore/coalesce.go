package redisstore

import (
	"context"
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
	// coalescedWait is how long a shared read waits for other reads to end. A connection that hangs
	// delays other calls no longer than that.
	coalescedWait = 20 * time.Millisecond
)

// coalescer combines reads that happen at the same time. While coalescedReads are in progress,
// further calls of read wait. Then one pipeline reads for all of them. System calls and waking
// goroutines take most of a call's processor time, and a shared read needs them only once.
//
// A shared read begins after all of its calls have begun, so each call gets every write that was
// acknowledged before it.
type coalescer struct {
	// send sends the commands in one pipeline.
	send  func(ctx context.Context, all []command) []*redis.Cmd
	turns chan struct{} // has an element for each read in progress

	mu   sync.Mutex
	next *sharedRead // waits for its turn, and takes further calls; nil: none
}

// sharedRead is one pipeline of several calls.
type sharedRead struct {
	ctx   context.Context //nolint:containedctx // of the first call, for its values
	end   time.Time       // when the last of the calls would end
	pages int             // and values and headers, of all commands
	reads []command
	done  chan struct{} // closed when cmds is set
	cmds  []*redis.Cmd
}

// read sends the commands, alone or in a shared read. The error is that of ctx.
func (c *coalescer) read(ctx context.Context, pages int, all []command) ([]*redis.Cmd, error) {
	shared, first := c.join(ctx, pages, all)
	if shared == nil {
		defer func() { <-c.turns }()
		return c.send(ctx, all), nil
	}
	select {
	case <-shared.done:
		return shared.cmds[first : first+len(all)], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join adds the commands to the next shared read, and returns the number of commands before them.
// If no call waits and fewer than coalescedReads reads are in progress, it takes a turn and returns
// nil.
func (c *coalescer) join(
	ctx context.Context, pages int, all []command,
) (shared *sharedRead, first int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		select {
		case c.turns <- struct{}{}:
			return nil, 0
		default:
		}
	}
	if c.next == nil || c.next.pages+pages > coalescedPages {
		c.next = &sharedRead{ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
		go c.run(c.next) //nolint:contextcheck // no call cancels the reads of others
	}
	shared, first = c.next, len(c.next.reads)
	shared.reads = append(shared.reads, all...)
	shared.pages += pages
	end := time.Now().Add(callTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	if end.After(shared.end) {
		shared.end = end
	}
	return shared, first
}

// run waits for a turn, and reads for the calls that have joined by then. No call cancels the read,
// because the others need it: it ends when the last of them would.
func (c *coalescer) run(shared *sharedRead) {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-time.After(coalescedWait):
	}
	c.mu.Lock()
	if c.next == shared {
		c.next = nil
	}
	c.mu.Unlock()
	ctx, cancel := context.WithDeadline(shared.ctx, shared.end)
	defer cancel()
	shared.cmds = c.send(ctx, shared.reads)
	close(shared.done)
}
