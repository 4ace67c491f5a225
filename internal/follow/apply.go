package follow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// moveEvery and maxIdle bound how often the position alone is recorded: less often while the
	// source writes little, up to quiet bytes in between. That may be the record of the position,
	// if the ledger is on the same server.
	moveEvery = 20 * time.Millisecond
	maxIdle   = 32 * moveEvery
	quiet     = 16 << 10
)

// applier records events in groups: as many transactions of the source as wait, up to the size of a
// group. It records only what a look at the catalog has proved, which began after that was
// received. While a group is recorded, the next is received and looked at.
type applier struct {
	f      *Follower
	src    *activity.Source
	events <-chan event
	ended  error // of the stream; nil: events may come

	group *group
	looks looks

	at        position   // in the ledger
	audited   int64      // that of the next position
	alone     alone      // when a position alone is recorded
	recording *recording // in progress; nil: none is

	touched *touched        // nil: nothing audits
	mending <-chan *mending // from the auditor
}

// recording is a group that is being recorded.
type recording struct {
	mark

	changes int
	began   time.Time
	ended   chan error
	looked  bool     // a look has begun beside it
	mending *mending // it records what an audit has found, and no part of the stream; nil: it does
}

func newApplier(
	f *Follower, src *activity.Source, at position, again replay, events <-chan event, w *watcher,
) *applier {
	g := newGroup(at, again, &f.group)
	return &applier{
		f: f, src: src, events: events, group: g, at: at, audited: at.audited,
		alone: alone{pause: moveEvery},
		looks: looks{begin: w.begin, ended: w.ended, proved: g.whole, sum: at.catalog},
	}
}

func (a *applier) run(ctx context.Context) error {
	defer func() { // nothing is recorded after this
		if a.recording != nil {
			_ = a.recorded(ctx, <-a.recording.ended)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		events := a.events
		if a.ended != nil || a.group.full() {
			events = nil
		}
		select { // what waits already joins the group
		case e, ok := <-events:
			if err := a.take(e, ok); err != nil {
				return err
			}
			continue
		default:
		}
		a.begin(ctx)
		if a.ended != nil && a.next(a.group.whole).to == a.at {
			return errors.Join(context.Cause(ctx), a.ended)
		}
		pause := a.alone.pause
		if early := a.early(); early > 0 {
			pause = min(pause, early)
		}
		timer.Reset(pause)
		if err := a.wait(ctx, events, timer.C); err != nil {
			return err
		}
	}
}

// begin begins what can begin. A recording comes first: what is proved need not wait for a look
// that proves more.
func (a *applier) begin(ctx context.Context) {
	a.record(ctx)
	a.look()
}

// wait waits until there is something to do.
func (a *applier) wait(ctx context.Context, events <-chan event, idle <-chan time.Time) error {
	mending := a.mending
	var recorded <-chan error
	if a.recording != nil {
		mending, recorded = nil, a.recording.ended
	}
	select {
	case e, ok := <-events:
		return a.take(e, ok)
	case l := <-a.looks.ended:
		return a.prove(l)
	case err := <-recorded:
		return a.recorded(ctx, err)
	case m := <-mending:
		a.mend(ctx, m)
		return nil
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take adds an event to the group.
func (a *applier) take(e event, ok bool) error {
	switch {
	case !ok:
		a.ended = errors.New("the stream ended")
		return nil
	case e.err != nil:
		a.ended = e.err
		return nil //nolint:nilerr // what was received before comes first
	}
	if !a.group.skips {
		for _, c := range e.changes {
			a.touched.add(item{c.Kind, c.User, c.Target}, a.group.open.commit)
		}
	}
	return a.group.take(e)
}

// next returns a mark with the position as it is recorded next.
func (a *applier) next(m mark) mark {
	m.to.catalog, m.to.audited = a.looks.sum, a.audited
	return m
}

// look begins a look at the catalog, if one would prove more, or if the last was some time ago. So
// the ledger hears that a source is followed that commits nothing. There is one look beside each
// recording: more would slow it down.
func (a *applier) look() {
	r := a.recording
	if r != nil && r.looked || a.early() > 0 {
		return
	}
	whole := a.group.whole
	began := a.looks.look(whole, whole.to != a.looks.proved.to && !a.waits(whole))
	if r != nil {
		r.looked = began
	}
}

// early is how long it is too early for a look.
func (a *applier) early() time.Duration {
	if a.recording == nil {
		return 0
	}
	return a.looks.early(time.Since(a.recording.began))
}

// prove takes the result of a look.
func (a *applier) prove(l lookedAt) error {
	if err := a.looks.take(l); err != nil {
		return err
	}
	a.tell()
	if a.recording == nil && a.next(a.looks.proved).to == a.at {
		select {
		case a.f.progress.idle <- struct{}{}:
		default:
		}
	}
	return nil
}

// tell notes until when the ledger lacks nothing, for the next renewal of the lease.
func (a *applier) tell() {
	if until := a.looks.fresh.at(a.at.lsn); !until.IsZero() {
		a.f.progress.lacksAfter.Store(&until)
	}
}

// mend begins to record what an audit has found, but for what was touched since. The position
// stays, so nothing is lost for the stream if that fails. Or it has the next group note that the
// audit has ended.
func (a *applier) mend(ctx context.Context, m *mending) {
	if m.audited != 0 {
		a.audited = m.audited
		m.done <- nil
		return
	}
	at := a.at
	touched := func(one finding) bool { return a.touched.has(one.side) }
	found := changesOf(slices.DeleteFunc(m.found, touched))
	a.recording = &recording{mark: mark{to: at}, ended: make(chan error, 1), mending: m}
	go func(ended chan<- error) { ended <- a.src.Record(ctx, at.text(), found) }(a.recording.ended)
}

// waits reports whether it is too early for a mark that is a position alone.
func (a *applier) waits(m mark) bool {
	return a.group.left(m) == 0 && a.ended == nil && a.alone.waits()
}

// record begins to record what is proved, and the position after it.
func (a *applier) record(ctx context.Context) {
	proved := a.next(a.looks.proved)
	if a.recording != nil || proved.to == a.at || a.waits(proved) {
		return
	}
	group := a.group.cut(proved)
	r := &recording{mark: proved, changes: len(group), began: time.Now(), ended: make(chan error, 1)}
	a.recording = r
	fresh := a.looks.fresh // a copy: it is so only once the group is recorded
	if until := fresh.at(r.to.lsn); !until.IsZero() {
		a.src.Followed = a.src.Clock(until)
	}
	go func() { r.ended <- a.src.Record(ctx, r.to.text(), group) }()
}

// recorded takes the end of a recording.
func (a *applier) recorded(ctx context.Context, err error) error {
	r := a.recording
	a.recording = nil
	if r.mending != nil {
		r.mending.done <- err
		if errors.Is(err, ledger.ErrFenced) {
			return err
		}
		return nil
	}
	if err != nil {
		if ctx.Err() == nil && a.f.group.failed(r.changes, err) {
			a.f.log.WarnContext(
				ctx, "the ledger is slow: recording in smaller groups", "changes", a.f.group.most(),
			)
		}
		return err // whether the ledger has the group is not known: a new lease tells
	}
	a.looks.recorded = time.Since(r.began)
	if r.changes > 0 {
		a.f.group.worked(a.looks.recorded)
	}
	a.alone.recorded(r.changes == 0 && r.to.lsn-a.at.lsn <= quiet)
	a.at = r.to
	a.f.progress.committed.Store(r.committed.UnixNano())
	a.f.progress.recorded.Store(uint64(a.at.lsn))
	a.f.progress.audited.Store(a.at.audited)
	a.tell()
	return nil
}

// alone tells when a position without changes is recorded.
type alone struct {
	moved time.Time     // when the position was last recorded
	pause time.Duration // between two: twice as long each time, until a transaction comes
}

// waits reports whether it is too early.
func (a *alone) waits() bool { return time.Since(a.moved) < a.pause }

// recorded notes that a position was recorded: alone, or with changes or after much of the log.
func (a *alone) recorded(alone bool) {
	a.moved = time.Now()
	if alone {
		a.pause = min(2*a.pause, maxIdle)
	} else {
		a.pause = moveEvery
	}
}
