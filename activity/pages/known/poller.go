package known

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/admission"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
	"github.com/feedfilter/feedfilter/internal/pause"
)

// polls is what the polls have found.
type polls struct {
	// start is when the last successful poll began, as elapsed. All earlier commits are known.
	start atomic.Int64
	// peak is the largest age that start had when a poll ended, since it was last taken.
	peak atomic.Int64
	// wall is the result of wallAhead at that time.
	wall atomic.Int64
	// differ is the error of a poll that found other settings at another process; nil: none did.
	differ atomic.Pointer[error]
	// sources are those of the ledger at the last successful poll; nil: none was
	sources       atomic.Pointer[[]ledger.Source]
	ended, failed atomic.Uint64 // numbers of polls

	mu     sync.Mutex
	flight *poll // in progress

	since ledger.Cursor // where the next poll starts; a poll in progress owns it
}

// poller reads what other processes change in the ledger. It is safe for concurrent use.
type poller struct {
	life      *lifecycle.Lifecycle
	ledger    *ledger.Ledger
	sequences *Sequences
	layout    *Layout
	available *availability
	clock     *clock
	bound     time.Duration // of the Options
	changed   func(pages []uint32)

	polls polls
}

// poll is one read of changes from the ledger, shared by all that wait for it.
type poll struct {
	start int64
	wall  int64 // result of wallAhead at the start
	// long is closed when the poll takes longer than others should wait; nil: no reader waits.
	long  chan struct{}
	limit time.Duration // how long it waits for each answer of the ledger
	done  chan struct{}
	err   error // to be read once done is closed
}

// await waits for a poll, and returns how the ledger can be read.
func (pl *poller) await(ctx context.Context, p *poll) Access {
	defer admission.Pause(ctx)()
	select {
	case <-p.done:
		if p.err != nil {
			return max(Behind, pl.available.now())
		}
		return Polled
	case <-p.long:
		return Behind
	case <-ctx.Done():
	case <-pl.life.Open.Done():
	}
	return Behind // a question tells why
}

// wait waits until the poll has ended.
func (p *poll) wait(ctx context.Context) error {
	defer admission.Pause(ctx)()
	select {
	case <-p.done:
		return Unavailable("ledger", p.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// paused reports whether the wall clock advanced since the last poll while the monotonic clock did
// not. That detects a suspended machine, whose last poll looks recent. If an operator sets the
// clock ahead, that costs one poll.
func (pl *poller) paused() bool {
	return pl.bound > 0 && pl.wallAhead()-pl.polls.wall.Load() > int64(pl.bound/4)
}

// wallAhead returns how far the wall clock is ahead of elapsed.
func (pl *poller) wallAhead() int64 { return time.Now().UnixNano() - pl.life.Elapsed() }

// newPoll returns a poll that begins now. No reader waits for it yet.
func (pl *poller) newPoll() *poll {
	return &poll{
		start: pl.life.Elapsed(),
		wall:  pl.wallAhead(),
		limit: PollTimeout,
		done:  make(chan struct{}),
	}
}

// poll joins the poll in progress, or starts one.
func (pl *poller) poll() *poll {
	f := &pl.polls
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight != nil {
		return f.flight
	}
	p := pl.newPoll()
	p.long = make(chan struct{})
	started := pl.life.Background(func() {
		p.err = pl.pollOnce(pl.life.Base, p)
		f.mu.Lock()
		f.flight = nil
		f.mu.Unlock()
		close(p.done)
	})
	if !started {
		p.err = lifecycle.ErrClosed
		close(p.done)
		return p
	}
	f.flight = p
	return p
}

// pollOnce reads from the ledger which pages changed since the last poll. It continues for as long
// as the ledger keeps answering: after a failover it reports every page.
func (pl *poller) pollOnce(ctx context.Context, p *poll) error {
	progress, changed, err := pl.readChanges(ctx, p)
	if err != nil {
		pl.polls.failed.Add(1)
		if errors.Is(err, ledger.ErrSettingsDiffer) {
			pl.polls.differ.Store(&err)
		}
		lost := pl.available.lost(ctx, err)
		pl.available.silent.Store(lost)
		if !lost {
			pl.available.note(ctx, Behind, err)
		}
		return err
	}
	pl.available.silent.Store(false)
	pl.available.note(ctx, Polled, nil)
	pl.polls.ended.Add(1)
	f := &pl.polls
	f.differ.Store(nil)
	f.since = progress.Next
	f.sources.Store(&progress.Sources)
	pl.clock.read.Store(&clockReading{progress.Clock, progress.At, progress.Error})
	f.peak.Store(max(f.peak.Load(), pl.life.Elapsed()-f.start.Load()))
	f.start.Store(p.start)
	f.wall.Store(p.wall)
	if p.long != nil { // the first poll finds all pages
		pl.changed(changed)
	}
	return nil
}

// readChanges reads the pages that changed since the last poll. It returns those whose changes were
// not known. It tries once more if that fails, and the process was stopped meanwhile.
func (pl *poller) readChanges(
	ctx context.Context, p *poll,
) (progress ledger.Progress, changed []uint32, err error) {
	err = pause.Again(ctx, func(ctx context.Context) (err error) {
		progress, changed, err = pl.readOnce(ctx, p)
		return err
	})
	return progress, changed, err
}

// readOnce is a try of readChanges.
func (pl *poller) readOnce(
	ctx context.Context, p *poll,
) (progress ledger.Progress, changed []uint32, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	noAnswer := fmt.Errorf("no answer within %v", p.limit)
	stalled := time.AfterFunc(p.limit, func() { stop(noAnswer) })
	defer stalled.Stop()
	pages := 0
	left := make(map[uint32]uint64)
	learn := func(page uint32, s ledger.PageState) error {
		pages++
		if pages%LongPoll == 0 {
			stalled.Reset(p.limit)
			pl.noteLong(ctx, p, pages == LongPoll)
		}
		if pl.sequences.Of(page).Learn(s.Sequence) {
			changed = append(changed, page)
		}
		if s.Left > 0 {
			left[page] = s.Left
		}
		return nil
	}
	progress, err = pl.ledger.Changed(ctx, pl.polls.since, learn)
	if err == nil {
		pl.takePlaces(progress, left)
	}
	if err != nil && errors.Is(context.Cause(ctx), noAnswer) {
		err = fmt.Errorf("%w: %w", noAnswer, err)
	}
	return progress, changed, err
}

// takePlaces applies which users are on which pages. It comes after the required sequences, and
// before left, which says that all users who left a page are known.
func (pl *poller) takePlaces(progress ledger.Progress, left map[uint32]uint64) {
	before := pl.layout.Now()
	pl.layout.take(progress)
	for page, at := range left {
		if page >= ledger.DedicatedPages {
			pl.layout.Release(page)
		}
		pl.sequences.Of(page).left.Raise(at)
	}
	// Those of a layout that this poll takes away stay until the next one: a reader may just have
	// looked up a page of it.
	pl.sequences.forget(cmp.Or(before.Leaving, before.Current)) // the older of the two
}

// noteLong notes that a long poll got another part of its answer. So the ledger is available, even
// if an earlier call failed.
func (pl *poller) noteLong(ctx context.Context, p *poll, first bool) {
	if p.long == nil {
		return
	}
	pl.available.silent.Store(false)
	pl.available.hear()
	if pl.life.Elapsed()-p.start < int64(slowPoll) {
		pl.available.set(Behind)
	} else {
		pl.available.note(ctx, Behind, nil)
	}
	if first {
		close(p.long)
	}
}
