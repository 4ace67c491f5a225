package activity

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// follower keeps up with what every process writes to the ledger: it polls for pages that
// changed. What a process knows of the ledger is never older than the staleness
// bound while it answers, or it asks first; so a write is seen by all of them once the
// bound has passed since its commit, whatever became of the pages.
type follower struct {
	bound time.Duration // 0: ask the ledger each time

	// start is when the last poll that succeeded began, in nanoseconds since the
	// Recorder was opened: what was committed before that is known.
	start  atomic.Int64
	last   atomic.Int64 // what elapsed returned last
	down   atomic.Bool  // the last poll failed
	clock  atomic.Int64 // nanoseconds that the ledger's clock is ahead of this machine's
	latest atomic.Int64 // what ledgerTime has told, in unix nanoseconds

	mu     sync.Mutex
	flight *poll // under way

	since   uint64   // where the next poll goes on; a poll under way owns it
	changed []uint32 // by others, as the last poll found
	due     []uint32 // the same of the poll before: to be looked at
}

// poll is one look at the ledger, shared by all that wait for it.
type poll struct {
	start int64
	done  chan struct{}
	err   error // to be read once done is closed
}

// elapsedAhead is how far elapsed may be ahead of the clock, of this process or of another, where that stands still meanwhile: a
// nanosecond for each call until it goes on.
const elapsedAhead = time.Microsecond

// elapsed is the time since the Recorder was opened, by the monotonic clock, which does not
// jump when somebody sets the machine's. No two calls return the same: of two moments
// it can always be told which came first.
func (r *Recorder) elapsed() int64 {
	for {
		last := r.follow.last.Load()
		now := max(int64(time.Since(r.opened)), last+1)
		if r.follow.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// jitter is by how much a measurement of the ledger's clock may be before an earlier one.
const jitter = time.Second

// ledgerTime is the time by the ledger's clock, so that processes whose own clocks
// are apart agree. How far that is ahead is measured with each poll, a little differently each time: rather than go back
// by so little, time goes on by a microsecond, what times are kept in, so that what is recorded later is later.
func (r *Recorder) ledgerTime() time.Time {
	now := time.Now().Add(time.Duration(r.follow.clock.Load()))
	for {
		latest := r.follow.latest.Load()
		if back := latest - now.UnixNano(); back > 0 && back < int64(jitter) {
			now = time.Unix(0, latest).Add(time.Microsecond)
		}
		if r.follow.latest.CompareAndSwap(latest, now.UnixNano()) {
			return now
		}
	}
}

// keepUp makes sure that what was committed a staleness bound ago is known. It waits for
// a poll where the last one is too old, and, with a bound, for none while the ledger cannot be
// reached: then it reports false, and what stands in the store is believed.
func (r *Recorder) keepUp(ctx context.Context) bool {
	need := r.elapsed() - int64(r.follow.bound)
	for r.follow.start.Load() < need {
		if r.follow.down.Load() && r.follow.bound > 0 {
			return false
		}
		p := r.poll()
		select {
		case <-p.done:
			if p.err != nil {
				return false
			}
		case <-ctx.Done():
			return false
		case <-r.closed:
			return false
		}
	}
	return true
}

// poll joins the poll under way, or starts one.
func (r *Recorder) poll() *poll {
	f := &r.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight != nil {
		return f.flight
	}
	p := &poll{start: r.elapsed(), done: make(chan struct{})}
	started := r.background(func() {
		p.err = r.pollOnce(r.base, pollTimeout, p.start)
		f.mu.Lock()
		f.flight = nil
		f.mu.Unlock()
		close(p.done)
	})
	if !started {
		p.err = ErrClosed
		close(p.done)
		return p
	}
	f.flight = p
	return p
}

// pollOnce reads from the ledger which pages changed since the last poll.
func (r *Recorder) pollOnce(ctx context.Context, timeout time.Duration, start int64) error {
	f := &r.follow
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var changed, moved []uint32
	progress, err := r.ledger.Changed(ctx, f.since, func(page uint32, s ledger.Standing) error {
		if page >= r.identity.Pages && page < ledger.OwnPages {
			return nil
		}
		if page < ledger.OwnPages && s.Moves > r.placements.of(page).movesOf(page) {
			moved = append(moved, page)
		}
		if r.learn(page, s.Sequence) {
			changed = append(changed, page)
		}
		return nil
	})
	if err == nil && len(moved) > 0 {
		err = r.learnHomes(ctx, moved...)
	}
	if down := err != nil; f.down.Swap(down) != down {
		if down {
			r.log.ErrorContext(ctx, "the ledger cannot be read: pages are believed, writes are refused", "error", err)
		} else {
			r.log.InfoContext(ctx, "the ledger can be read again")
		}
	}
	if err != nil {
		r.stats.pollsFailed.Add(1)
		return err
	}
	r.stats.polls.Add(1)
	f.since = progress.Next
	f.clock.Store(int64(progress.Ahead))
	f.start.Store(start)
	r.watch(changed)
	return nil
}

// learnBelow notes what the change of a page by this process tells of others: what is below it, if
// this process has not heard of it, is theirs. Once it has committed its own, a poll
// would not be news any more.
func (r *Recorder) learnBelow(p ledger.PageChange) {
	below := p.Sequence
	if len(p.Added)+len(p.Removed) > 0 {
		below--
	}
	r.learn(p.Page, below)
}

// learn notes that the ledger has the page at sequence, and reports whether that is news: it
// is not if this process made the change and is on its way to the page.
func (r *Recorder) learn(page uint32, sequence uint64) bool {
	mark := r.marks.of(page)
	if sequence <= mark.committed.Load() {
		return false
	}
	raise(&mark.committed, sequence)
	raise(&mark.required, sequence)
	return true
}

// pollInterval is twice within the bound, so that feeds seldom wait for a poll.
func (f *follower) pollInterval() time.Duration {
	if f.bound == 0 {
		return defaultBound / 2
	}
	return f.bound / 2
}

// every calls do at the interval until the Recorder is closed.
func (r *Recorder) every(interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-r.closed:
			return
		}
	}
}
