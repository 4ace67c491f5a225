package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// follower learns what all processes write to the ledger, by polls for pages that changed. If a
// process's view of the ledger is older than the staleness bound, it asks the ledger before it
// answers. So every process sees a write once the bound has passed since its commit, whatever
// happens to the pages.
type follower struct {
	bound time.Duration // 0: ask the ledger each time

	// start is when the last successful poll began, in nanoseconds since the Pages were opened.
	// All earlier commits are known.
	start atomic.Int64
	// peak is the largest age that start had when a poll ended, since it was last taken.
	peak atomic.Int64
	// wall is the result of wallAhead at that time.
	wall atomic.Int64
	// access holds an access, and logged the one that the log shows.
	access, logged atomic.Int32
	// silent is set if the ledger did not answer the last poll.
	silent atomic.Bool
	clock  atomic.Pointer[clockReading]
	// error of a poll that found other settings at another process; nil: none did
	differ atomic.Pointer[error]
	latest atomic.Int64 // last result of ledgerTime, in unix nanoseconds
	// sources are those of the ledger at the last successful poll; nil: none was
	sources atomic.Pointer[[]ledger.Source]

	mu      sync.Mutex
	flight  *poll // in progress
	pinging *ping // in progress
	heard   int64 // when the ledger last answered, as elapsed
	// step is closed when this process next records changes of a source; nil: nobody waits for it.
	step chan struct{}

	since ledger.Cursor // where the next poll starts; a poll in progress owns it
}

// poller keeps what this process knows of the ledger current: the sequences of pages, and which
// page each user is on.
type poller struct {
	life    *lifecycle
	storage *storage

	ledger    *ledger.Ledger
	sequences *sequences
	layout    *layout
	due       *dueQueue
	follow    follower
	recovered func()           // set by the rebuilder: called when the ledger can be read again
	now       func() time.Time // of Config, in place of the ledger's clock; nil: none
}

// newPoller returns the poller of a ledger. Without a clock, the storage gets that of the ledger.
func newPoller(s *storage, l *ledger.Ledger, bound time.Duration) *poller {
	pages := l.Identity().Pages
	p := &poller{
		life:      s.life,
		storage:   s,
		ledger:    l,
		sequences: newSequences(pages),
		layout:    newLayout(pages),
		due:       newDueQueue(),
		follow:    follower{bound: max(0, bound)},
		recovered: func() {},
		now:       s.now,
	}
	if s.now == nil {
		s.now = p.ledgerTime
	}
	return p
}

// clockReading is a reading of the ledger's clock.
type clockReading struct {
	clock time.Time // of the ledger
	at    time.Time // of this process, with its monotonic clock
	error time.Duration
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

// longPoll is the number of pages in a poll after which readers no longer wait for it. So many take
// a few milliseconds to read; all pages of a large filter take seconds.
const longPoll = 4096

// slowPoll is how long a poll takes before the log says so. Each batch of an import causes a poll
// that is long, but seldom slow.
const slowPoll = time.Second

// jitter is how much lower a reading of the ledger's clock may be than an earlier one.
const jitter = time.Second

// ledgerTime returns the time by the ledger's clock, on which processes with different clocks
// agree. It adds the monotonic time since the last poll to that poll's reading of the ledger's
// clock. So changing this machine's clock has no effect.
//
// Readings vary a little from poll to poll. Rather than go back, the time then advances by a
// microsecond, the unit in which times are kept, so that later activities have later times.
func (pl *poller) ledgerTime() time.Time {
	now := time.Now()
	if read := pl.follow.clock.Load(); read != nil {
		now = read.clock.Add(now.Sub(read.at))
	}
	for {
		latest := pl.follow.latest.Load()
		if back := latest - now.UnixNano(); back > 0 && back < int64(jitter) {
			now = time.Unix(0, latest).Add(time.Microsecond)
		}
		if pl.follow.latest.CompareAndSwap(latest, now.UnixNano()) {
			return now
		}
	}
}

// bounds returns the bounds between which the ledger's clock is now, however long the last poll
// took.
func (pl *poller) bounds() (earliest, latest time.Time) {
	if pl.now != nil {
		now := pl.now()
		return now, now
	}
	now := time.Now()
	read := pl.follow.clock.Load()
	if read == nil { // never polled
		return now.Add(-jitter), now.Add(jitter)
	}
	now = read.clock.Add(now.Sub(read.at))
	return now.Add(-read.error), now.Add(read.error)
}

// position is the page on which a reader looks for a user, and how to judge that page.
type position struct {
	user uint64
	page uint32
	// left is the sequence with which a user last left the page, as far as is known. If the page
	// has another one, the user's keys may have moved to a dedicated page.
	left uint64
	// known reports whether the process's view of the ledger is current. If it is not, and err is
	// nil, the ledger cannot be reached, and the page in the store is trusted.
	known bool
	// err is why the view is not current, although the ledger can be reached. The page in the store
	// must not be used: it may lack a write.
	err error
}

// holds reports whether the page with the header has the keys of the position's user.
func (at position) holds(h favfilter.Header) bool {
	return !isClosed(h) && uint64(h.Left) == at.left&favfilter.LeftMask
}

// keepUp makes sure that the process knows all commits before the given time that concern the pages
// of some users, and fills in where the users are.
//
// It waits for a poll if the last one is too old. If polls fail or take too long, it asks the
// ledger for the pages. Only if the ledger cannot be reached, pages in the store are trusted.
func (pl *poller) keepUp(ctx context.Context, since int64, all ...*position) {
	var err error
	now := pl.pollUp(ctx, since)
	if now == behind {
		if err = pl.askPlaces(ctx, all); err == nil {
			return
		}
		if errors.Is(err, errUnreachable) {
			err = nil
		}
	}
	for _, at := range all {
		at.page = pl.layout.pageOf(at.user) // after the poll, which may report a move
		at.left, at.known, at.err = pl.sequences.of(at.page).left.Load(), now == polled, err
	}
}

// recent returns the time up to which the process has to know the ledger: a staleness bound ago.
func (pl *poller) recent() int64 { return pl.life.elapsed() - int64(pl.follow.bound) }

// pollUp waits for a poll that began after the given time, and returns how the ledger can be read.
func (pl *poller) pollUp(ctx context.Context, need int64) access {
	f := &pl.follow
	for f.start.Load() < need || pl.paused() {
		if now := access(f.access.Load()); now == behind || now == unreachable && f.bound > 0 {
			return now
		}
		if now := pl.await(ctx, pl.poll()); now != polled {
			return now
		}
	}
	return polled
}

// await waits for a poll, and returns how the ledger can be read.
func (pl *poller) await(ctx context.Context, p *poll) access {
	defer admission.Pause(ctx)()
	select {
	case <-p.done:
		if p.err != nil {
			return max(behind, access(pl.follow.access.Load()))
		}
		return polled
	case <-p.long:
		return behind
	case <-ctx.Done():
	case <-pl.life.open.Done():
	}
	return behind // a question tells why
}

// pollSince waits for a successful poll that began after the given time.
func (pl *poller) pollSince(ctx context.Context, since int64) error {
	for pl.follow.start.Load() < since {
		if err := pl.poll().wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until the poll has ended.
func (p *poll) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return Unavailable("ledger", p.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reachEvery is the pause between two polls of those who wait for a source.
const reachEvery = 5 * time.Millisecond

// nextStep returns a channel that is closed when this process next records changes of a source.
func (pl *poller) nextStep() <-chan struct{} {
	f := &pl.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.step == nil {
		f.step = make(chan struct{})
	}
	return f.step
}

// stepped tells those that wait for a source that the ledger has changes of one.
func (pl *poller) stepped() {
	f := &pl.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.step != nil {
		close(f.step)
		f.step = nil
	}
}

// reach polls until reached reports true of the sources, or an error. All that wait share the
// polls. If this process follows the source, they need not wait for the time of the next poll.
func (pl *poller) reach(ctx context.Context, reached func([]ledger.Source) (bool, error)) error {
	defer admission.Pause(ctx)()
	for asked := false; ; asked = true {
		step := pl.nextStep() // before the sources are looked at
		if known := pl.follow.sources.Load(); known != nil {
			done, err := reached(*known)
			if done || err != nil && asked { // an earlier poll may not know the source yet
				return err
			}
		}
		if asked {
			select {
			case <-step:
			case <-time.After(reachEvery):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := pl.poll().wait(ctx); err != nil {
			return err
		}
	}
}

// paused reports whether the wall clock advanced since the last poll while the monotonic clock did
// not. That detects a suspended machine, whose last poll looks recent. If an operator sets the
// clock ahead, that costs one poll.
func (pl *poller) paused() bool {
	f := &pl.follow
	return f.bound > 0 && pl.wallAhead()-f.wall.Load() > int64(f.bound/4)
}

// wallAhead returns how far the wall clock is ahead of elapsed.
func (pl *poller) wallAhead() int64 { return time.Now().UnixNano() - pl.life.elapsed() }

// newPoll returns a poll that begins now. No reader waits for it yet.
func (pl *poller) newPoll() *poll {
	return &poll{start: pl.life.elapsed(), wall: pl.wallAhead(), limit: pollTimeout, done: make(chan struct{})}
}

// poll joins the poll in progress, or starts one.
func (pl *poller) poll() *poll {
	f := &pl.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight != nil {
		return f.flight
	}
	p := pl.newPoll()
	p.long = make(chan struct{})
	started := pl.life.background(func() {
		p.err = pl.pollOnce(pl.life.base, p)
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

// pollOnce reads from the ledger which pages changed since the last poll. It continues for as long
// as the ledger keeps answering: after a failover it reports every page.
func (pl *poller) pollOnce(ctx context.Context, p *poll) error {
	progress, changed, err := pl.readChanges(ctx, p)
	if err != nil {
		pl.storage.stats.pollsFailed.Add(1)
		if errors.Is(err, ledger.ErrSettingsDiffer) {
			pl.follow.differ.Store(&err)
		}
		lost := pl.lost(ctx, err)
		pl.follow.silent.Store(lost)
		if !lost {
			pl.noteAccess(ctx, behind, err)
		}
		return err
	}
	pl.follow.silent.Store(false)
	pl.noteAccess(ctx, polled, nil)
	pl.storage.stats.polls.Add(1)
	f := &pl.follow
	f.differ.Store(nil)
	f.since = progress.Next
	f.sources.Store(&progress.Sources)
	f.clock.Store(&clockReading{progress.Clock, progress.At, progress.Error})
	f.peak.Store(max(f.peak.Load(), pl.life.elapsed()-f.start.Load()))
	f.start.Store(p.start)
	f.wall.Store(p.wall)
	if p.long != nil { // the first poll finds all pages, which the scrub compares
		pl.watch(changed)
	}
	return nil
}

// readChanges reads the pages that changed since the last poll. It returns those whose changes were
// not known.
func (pl *poller) readChanges(ctx context.Context, p *poll) (progress ledger.Progress, changed []uint32, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	noAnswer := fmt.Errorf("no answer within %v", p.limit)
	stalled := time.AfterFunc(p.limit, func() { stop(noAnswer) })
	defer stalled.Stop()
	pages := 0
	left := make(map[uint32]uint64)
	progress, err = pl.ledger.Changed(ctx, pl.follow.since, func(page uint32, s ledger.PageState) error {
		pages++
		if pages%longPoll == 0 {
			stalled.Reset(p.limit)
			pl.noteLong(ctx, p, pages == longPoll)
		}
		if pl.sequences.of(page).learn(s.Sequence) {
			changed = append(changed, page)
		}
		if s.Left > 0 {
			left[page] = s.Left
		}
		return nil
	})
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
	pl.layout.take(progress)
	for page, at := range left {
		if page >= ledger.DedicatedPages {
			pl.layout.release(page)
		}
		pl.sequences.of(page).left.raise(at)
	}
	pl.sequences.forget(cmp.Or(progress.Layouts.Leaving, progress.Layouts.Current)) // the older of the two
}

// noteLong notes that a long poll got another part of its answer. So the ledger is available, even
// if an earlier call failed.
func (pl *poller) noteLong(ctx context.Context, p *poll, first bool) {
	if p.long == nil {
		return
	}
	pl.follow.silent.Store(false)
	pl.hear()
	if pl.life.elapsed()-p.start < int64(slowPoll) {
		pl.setAccess(behind)
	} else {
		pl.noteAccess(ctx, behind, nil)
	}
	if first {
		close(p.long)
	}
}

// agreed returns an error if another process has other settings. With a longer staleness bound, it
// may lack a write that this process acknowledges late.
func (pl *poller) agreed() error {
	if differ := pl.follow.differ.Load(); differ != nil {
		return Unavailable("ledger", *differ)
	}
	return nil
}

// pollInterval returns half the bound, so that feeds seldom wait for a poll.
func (f *follower) pollInterval() time.Duration {
	return cmp.Or(f.bound, defaultBound) / 2
}

// watch lists pages that other processes changed. If a change does not arrive within one poll
// interval, its writer has died, or cannot reach the store.
func (pl *poller) watch(changed []uint32) {
	pages, from := pl.layout.pages(), pl.life.elapsed()+int64(pl.follow.pollInterval())
	for _, page := range changed[:min(len(changed), maxChanged)] {
		if pages.has(page) {
			pl.due.add(page, reasonChanged, from)
		}
	}
}

// outlast waits until every process knows of the transaction committed at the given time, whatever
// state the pages have. By then, no poll from before the commit is within the staleness bound.
// outlast reports whether the ledger is available at the end. If not, other processes may not have
// polled since the commit, and may still trust their pages.
func (pl *poller) outlast(committed int64) bool {
	known := committed + int64(pl.follow.bound)
	select {
	case <-time.After(time.Duration(known-pl.life.elapsed()) + elapsedAhead):
	case <-pl.life.open.Done():
		return false
	}
	return pl.pollSince(pl.life.base, known) == nil
}
