package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// jointReads is the number of reads in progress from which on further calls wait. With one, a
	// server would be idle while a reply is on its way.
	jointReads = 2
	// jointPages is the maximum number of pages in a joint read. A call for more reads alone. So no
	// call waits for many pages of others.
	jointPages = 64
	// jointWait is how long a call waits for reads of others to end. A connection that hangs holds
	// up other calls for no longer.
	jointWait = 20 * time.Millisecond
)

// joint joins calls of Load that happen at the same time: while jointReads are in progress, further
// calls wait, and then one pipeline reads for all of them. Of the processor time that a call takes,
// most is for the system calls and for waking goroutines up, which joined calls share.
//
// A read begins after all of its calls have begun, so each call gets every write that was
// acknowledged before it.
type joint struct {
	mu      sync.Mutex
	reads   int // in progress, without those of calls that waited for too long
	waiting []*joined
}

// joined is a call of Load that waits for a joint read.
type joined struct {
	ctx   context.Context //nolint:containedctx // only for its values, and its deadline
	ids   int             // number of pages
	reads pageReads
	done  chan struct{} // closed when cmds is set
	cmds  []*redis.SliceCmd
}

// begin counts a read and returns true, if fewer than jointReads are in progress. Otherwise it lets w
// wait.
func (j *joint) begin(w *joined) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reads < jointReads {
		j.reads++
		return true
	}
	j.waiting = append(j.waiting, w)
	return false
}

// next ends a read, and begins one for the first of the waiting calls, if there are any.
func (j *joint) next() (calls []*joined) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, ids := 0, 0
	for n < len(j.waiting) && ids+j.waiting[n].ids <= jointPages {
		ids += j.waiting[n].ids
		n++
	}
	calls, j.waiting = j.waiting[:n:n], j.waiting[n:]
	if n == 0 {
		j.reads--
	}
	if len(j.waiting) == 0 {
		j.waiting = nil
	}
	return calls
}

// leave reports whether w still waited. Then it no longer does.
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

// loadJointly is Load for one server. In a cluster, a joint read would wait for the slowest node.
func (s *Store) loadJointly(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	w := &joined{ctx: ctx, ids: len(ids), reads: s.readsOf(ids), done: make(chan struct{})}
	if s.joint.begin(w) {
		defer s.goOn() //nolint:contextcheck // no call cancels the reads of others
		return s.loaded(ids, s.read(ctx, w.reads))
	}
	timer := time.NewTimer(jointWait)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return s.loaded(ids, w.cmds)
		case <-ctx.Done():
			s.joint.leave(w)
			return nil, s.loadError(ids, ctx.Err())
		case <-timer.C:
			if s.joint.leave(w) {
				return s.loaded(ids, s.read(ctx, w.reads))
			}
		}
	}
}

// goOn ends a read, and begins one for waiting calls, if there are any.
func (s *Store) goOn() {
	if calls := s.joint.next(); len(calls) > 0 {
		go s.readJointly(calls)
	}
}

// readJointly reads for the calls, and then for those that began to wait meanwhile.
func (s *Store) readJointly(calls []*joined) {
	for ; len(calls) > 0; calls = s.joint.next() {
		var all pageReads
		for _, w := range calls {
			all.keys = append(all.keys, w.reads.keys...)
			all.numbers = append(all.numbers, w.reads.numbers...)
		}
		ctx, cancel := onBehalf(calls)
		cmds := s.read(ctx, all)
		cancel()
		for _, w := range calls {
			n := len(w.reads.keys)
			w.cmds, cmds = cmds[:n:n], cmds[n:]
			close(w.done)
		}
	}
}

// onBehalf returns the context of a joint read. No call cancels it: a call that ends early says
// nothing about the server, and the others continue. It ends when the last of them would. Its values,
// such as the trace, are those of the first call.
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

// pageReads holds the MGETs of a call of Load: the keys and the page number of each.
type pageReads struct {
	keys    [][]string
	numbers []uint32
}

// readsOf returns the commands that read the pages. Successive parts of one page number are one
// command.
func (s *Store) readsOf(ids []favfilter.PageID) (r pageReads) {
	for i, id := range ids {
		if i == 0 || ids[i-1].Number != id.Number {
			r.keys = append(r.keys, make([]string, 0, len(ids)-i))
			r.numbers = append(r.numbers, id.Number)
		}
		r.keys[len(r.keys)-1] = append(r.keys[len(r.keys)-1], s.bitsKey(id))
	}
	return r
}

// read sends the commands in one pipeline.
func (s *Store) read(ctx context.Context, r pageReads) []*redis.SliceCmd {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return pipelined(ctx, s, calls{"load", reads, r.numbers}, func(pipe redis.Pipeliner, i int, _ error) *redis.SliceCmd {
		return pipe.MGet(ctx, r.keys[i]...)
	})
}

// loaded returns the pages that cmds have read, or the error of one of them.
func (s *Store) loaded(ids []favfilter.PageID, cmds []*redis.SliceCmd) ([]favfilter.Loaded, error) {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return nil, s.loadError(ids, err)
		}
	}
	loaded := make([]favfilter.Loaded, 0, len(ids))
	for _, cmd := range cmds {
		for _, val := range cmd.Val() {
			loaded = append(loaded, s.decode(ids[len(loaded)], val))
		}
	}
	return loaded, nil
}

func (s *Store) loadError(ids []favfilter.PageID, err error) error {
	return fmt.Errorf("load pages %v of filter %s from Redis: %w", some(ids), s.name, err)
}
