package activity

import (
	"context"
	"errors"
	"fmt"
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
	wall   atomic.Int64 // what wallAhead returned then
	access atomic.Int32 // an access
	clock  atomic.Pointer[clockReading]
	differ atomic.Pointer[error] // settings that are not those of other processes, as a poll found; nil: they agree
	latest atomic.Int64          // what ledgerTime has told, in unix nanoseconds

	mu     sync.Mutex
	flight *poll // under way

	since   ledger.Cursor // where the next poll goes on; a poll under way owns it
	changed []uint32      // by others, as the last poll found
	due     []uint32      // the same of the poll before: to be looked at
}

// access is how a process can learn what others wrote to the ledger.
type access int32

const (
	// polled: the last poll succeeded. What it did not see is younger than follower.start.
	polled access = iota
	// behind: the ledger answers, but polls fail, or one is reading every page, which takes
	// longer than the bound. Readers ask the ledger for the sequence of the page they read.
	behind
	// unreachable: the ledger does not answer. Pages are believed.
	unreachable
)

// clockReading is a reading of the ledger's clock.
type clockReading struct {
	clock time.Time // of the ledger
	at    time.Time // of this process, with its monotonic clock
}

// poll is one look at the ledger, shared by all that wait for it.
type poll struct {
	start int64
	wall  int64         // what wallAhead returned at the start
	long  chan struct{} // closed when the poll has more to read than others should wait for; nil: nobody waits
	done  chan struct{}
	err   error // to be read once done is closed
}

// longPoll is after how many pages nobody waits for a poll any more: these take a few
// milliseconds to read, and all pages of a large filter take seconds.
const longPoll = 4096

// jitter is by how much a measurement of the ledger's clock may be before an earlier one.
const jitter = time.Second

// ledgerTime is the time by the ledger's clock, so that processes whose own clocks are apart
// agree. It is what the last poll read of that clock, plus what has passed since then by the
// monotonic clock: setting this machine's clock changes nothing. Each poll reads the clock a little
// differently: rather than go back by so little, time goes on by a microsecond, what times are
// kept in, so that what is recorded later is later.
func (r *Recorder) ledgerTime() time.Time {
	now := time.Now()
	if read := r.follow.clock.Load(); read != nil {
		now = read.clock.Add(now.Sub(read.at))
	}
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

// keepUp makes sure that what was committed a staleness bound ago is known of the user's page, and
// returns the page and its moves. It waits for a poll where the last one is too old. Where polls
// fail or take too long, it asks the ledger for the sequence of the page. Where the ledger
// cannot be reached, known is false, and what stands in the store is believed.
func (r *Recorder) keepUp(ctx context.Context, user uint64) (page, moves uint32, known bool) {
	now := r.pollUp(ctx)
	page, moves = r.placeOf(user) // after that: a poll may tell of a move
	switch now {
	case polled:
		known = true
	case behind:
		known = r.askSequence(ctx, page)
	case unreachable:
	}
	return page, moves, known
}

// pollUp waits for a poll that is within the staleness bound, and reports how far that went.
func (r *Recorder) pollUp(ctx context.Context) access {
	f := &r.follow
	need := r.elapsed() - int64(f.bound)
	for f.start.Load() < need || r.paused() {
		if now := access(f.access.Load()); now == behind || now == unreachable && f.bound > 0 {
			return now
		}
		p := r.poll()
		select {
		case <-p.done:
			if p.err != nil {
				return max(behind, access(f.access.Load()))
			}
		case <-p.long:
			return behind
		case <-ctx.Done():
			return unreachable
		case <-r.closed:
			return unreachable
		}
	}
	return polled
}

// paused reports whether the wall clock has gone on since the last poll and the monotonic clock has not: a machine that was
// suspended takes its last poll for recent. Somebody who sets the clock ahead costs one poll.
func (r *Recorder) paused() bool {
	f := &r.follow
	return f.bound > 0 && r.wallAhead()-f.wall.Load() > int64(f.bound/4)
}

// wallAhead is by how much the wall clock is ahead of elapsed.
func (r *Recorder) wallAhead() int64 { return time.Now().UnixNano() - r.elapsed() }

// askSequence asks the ledger where the page has to stand, and reports whether it answered.
func (r *Recorder) askSequence(ctx context.Context, page uint32) bool {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	sequence, err := r.ledger.Sequence(limited, page)
	if err != nil {
		if ctx.Err() == nil {
			r.noteAccess(ctx, unreachable, err) // the next feeds do not wait; the next poll tries again
		}
		return false
	}
	r.sequences.of(page).learn(sequence)
	return true
}

// noteAccess notes how the ledger can be read, and logs when that changes.
func (r *Recorder) noteAccess(ctx context.Context, now access, err error) {
	before := access(r.follow.access.Swap(int32(now)))
	switch {
	case before == now:
	case now == unreachable:
		r.log.ErrorContext(ctx, "the ledger cannot be read: pages are believed, writes are refused", "error", err)
	case now == behind && err != nil:
		r.log.WarnContext(ctx, "changes cannot be read from the ledger: each feed asks for its page", "error", err)
	case now == behind:
		r.log.InfoContext(ctx, "every page's sequence is read from the ledger: until then each feed asks for its page")
	default:
		r.log.InfoContext(ctx, "the ledger can be read again")
	}
	if now < before {
		r.rebuilds.forgive()
	}
}

// newPoll returns one that begins now, and that nobody waits for yet.
func (r *Recorder) newPoll() *poll {
	return &poll{start: r.elapsed(), wall: r.wallAhead(), done: make(chan struct{})}
}

// poll joins the poll under way, or starts one.
func (r *Recorder) poll() *poll {
	f := &r.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight != nil {
		return f.flight
	}
	p := r.newPoll()
	p.long = make(chan struct{})
	started := r.background(func() {
		p.err = r.pollOnce(r.base, p)
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

// pollOnce reads from the ledger which pages changed since the last poll. It takes as long as
// the ledger goes on answering: a new connection reports every page.
func (r *Recorder) pollOnce(ctx context.Context, p *poll) error {
	progress, changed, err := r.readChanges(ctx, p)
	if err != nil {
		r.stats.pollsFailed.Add(1)
		if errors.Is(err, ledger.ErrSettingsDiffer) {
			r.follow.differ.Store(&err)
		}
		now := unreachable
		asked, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if _, failed := r.ledger.Sequence(asked, 0); failed == nil {
			now = behind
		}
		r.noteAccess(ctx, now, err)
		return err
	}
	r.noteAccess(ctx, polled, nil)
	r.stats.polls.Add(1)
	f := &r.follow
	f.differ.Store(nil)
	f.since = progress.Next
	f.clock.Store(&clockReading{progress.Clock, progress.At})
	f.start.Store(p.start)
	f.wall.Store(p.wall)
	r.watch(changed)
	return nil
}

// readChanges learns of the pages that changed since the last poll, and returns those that are
// news.
func (r *Recorder) readChanges(ctx context.Context, p *poll) (progress ledger.Progress, changed []uint32, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stalled := time.AfterFunc(pollTimeout, func() { stop(errPollStalled) })
	defer stalled.Stop()
	pages := 0
	var moved []uint32
	progress, err = r.ledger.Changed(ctx, r.follow.since, func(page uint32, s ledger.Standing) error {
		pages++
		if pages%longPoll == 0 {
			stalled.Reset(pollTimeout)
			r.noteLong(ctx, p, pages == longPoll)
		}
		if page >= r.identity.Pages && page < ledger.OwnPages {
			return nil
		}
		if page < ledger.OwnPages && s.Moves > r.placements.of(page).movesOf(page) {
			moved = append(moved, page)
		}
		if r.sequences.of(page).learn(s.Sequence) {
			changed = append(changed, page)
		}
		return nil
	})
	if err == nil && len(moved) > 0 {
		stalled.Reset(pollTimeout)
		err = r.learnHomes(ctx, moved...)
	}
	if err != nil && errors.Is(context.Cause(ctx), errPollStalled) {
		err = fmt.Errorf("%w: %w", errPollStalled, err)
	}
	return progress, changed, err
}

// noteLong notes that a long poll has got another part of its answer: the ledger can be asked, whatever
// an earlier call came to.
func (r *Recorder) noteLong(ctx context.Context, p *poll, first bool) {
	if p.long == nil {
		return
	}
	r.noteAccess(ctx, behind, nil)
	if first {
		close(p.long)
	}
}

var errPollStalled = fmt.Errorf("no answer within %v", pollTimeout)

// agreed returns an error where another process has other settings: it may answer from what it holds
// when this process acknowledges a write.
func (r *Recorder) agreed() error {
	if differ := r.follow.differ.Load(); differ != nil {
		return unavailable("ledger", *differ)
	}
	return nil
}

// pollInterval is twice within the bound, so that feeds seldom wait for a poll.
func (f *follower) pollInterval() time.Duration {
	if f.bound == 0 {
		return defaultBound / 2
	}
	return f.bound / 2
}
