package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// statusEvery is how often the source hears what the ledger has.
	statusEvery = time.Second
	// moveEvery and maxIdle bound how often the position alone is recorded: less often while the
	// source writes little, up to quiet bytes in between. That may be the record of the position,
	// if the ledger is on the same server.
	moveEvery = 20 * time.Millisecond
	maxIdle   = 32 * moveEvery
	quiet     = 16 << 10
	// lookEvery is how often the source is looked at, at least.
	lookEvery = time.Second
)

// event is what a message of the stream says.
type event struct {
	begin   transaction // that begins; zero: none does
	at      time.Time   // when it commits, or the source sent all up to end, by the source's clock
	changes []activity.SourceChange
	end     pglogrepl.LSN // all up to there has been sent; 0: not known
	err     error         // the stream cannot go on
}

// stream records the changes of the source from where o says, until ctx ends or the stream does. It
// looks at the catalog on another connection, look, and closes that of o.
func (f *Follower) stream(ctx context.Context, src *activity.Source, look *pgx.Conn, o *origin) error {
	err := f.source.copySlot(ctx, look, o.conn)
	if err == nil { // the stream begins with what the source does not know that the ledger has
		err = pglogrepl.StartReplication(ctx, o.conn.PgConn(), f.source.name, 0, pglogrepl.StartReplicationOptions{
			Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names '" + f.source.name + "'"},
		})
	}
	var confirmed pglogrepl.LSN
	if err == nil {
		confirmed, err = f.source.checkSlot(ctx, look, o.at.lsn) // which nobody else changes from now on
	}
	if err != nil {
		err = fmt.Errorf("start the stream at %s: %w", o.at.lsn, f.source.mayReplicate(o.conn, err))
		_ = o.conn.Close(context.WithoutCancel(ctx))
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &receiver{
		f: f, conn: o.conn, decoder: newDecoder(f.mapper.known(o.known), f.figures.changes, o.known.roots), events: make(chan event, maxGroup),
	}
	r.from = o.at.lsn
	r.seen, _ = parseSeen(o.at.seen) // parsed before
	w := &watcher{f: f, conn: look, known: o.known, begin: make(chan struct{}, 1), ended: make(chan lookedAt, 1)}
	a := newApplier(f, src, o.at, newReplay(o.at, confirmed), r.events, w)
	var beside sync.WaitGroup
	beside.Go(func() { r.run(ctx) })
	beside.Go(func() { w.run(ctx) })
	if f.options.Resync || f.options.ResyncEvery > 0 {
		mend := make(chan *mending)
		a.touched, a.mending = newTouched(partsOf(src)), mend
		u := &auditor{f: f, src: src, known: o.known, server: server{o.at.system, o.at.timeline}, touched: a.touched, mend: mend}
		beside.Go(func() {
			if err := u.run(ctx); f.options.Resync {
				cancel(cmp.Or(err, errResynced))
			}
		})
	}
	err = a.run(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	beside.Wait()
	return err
}

// receiver reads the stream, and tells the source what was recorded. It owns the connection.
type receiver struct {
	f       *Follower
	conn    *pgx.Conn
	decoder *decoder
	events  chan event
	open    bool      // within a transaction
	told    time.Time // when the source last heard what the ledger has

	// The ledger has what commits before from, and what the read of the tables has seen. Its rows are
	// not decoded: they were counted, and one that was invalid may have been corrected.
	from pglogrepl.LSN
	seen *seen
	had  bool // the open transaction is one of these
}

// run sends events until the stream or ctx ends.
func (r *receiver) run(ctx context.Context) {
	defer close(r.events)
	defer r.conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the position is in the ledger
	defer context.AfterFunc(ctx, func() { _ = r.conn.PgConn().Conn().SetReadDeadline(time.Now()) })()
	for {
		e, err := r.next(ctx)
		if err != nil {
			e = event{err: err}
		}
		if !r.send(ctx, e) || err != nil {
			return
		}
	}
}

// next returns the next event.
func (r *receiver) next(ctx context.Context) (event, error) {
	for heard := time.Now(); ; {
		if time.Since(r.told) >= statusEvery {
			if err := r.status(ctx); err != nil {
				return event{}, err
			}
		}
		m, err := r.conn.PgConn().ReceiveMessage(context.Background()) //nolint:contextcheck // deadlines cost less than contexts
		switch {
		case err != nil && ctx.Err() == nil && pgconn.Timeout(err):
			if time.Since(heard) > r.f.limits.silence {
				return event{}, fmt.Errorf("the source has been silent for %v", r.f.limits.silence)
			}
			continue
		case err != nil:
			return event{}, fmt.Errorf("read the stream: %w", err)
		}
		heard = time.Now()
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			return event{}, fmt.Errorf("the source ended the stream: %w", pgconn.ErrorResponseToPgError(m))
		case *pgproto3.CopyData:
			if e, says, err := r.read(ctx, m.Data); says || err != nil {
				return e, err
			}
		}
	}
}

// read returns the event of a message of the replication protocol, if there is one.
func (r *receiver) read(ctx context.Context, data []byte) (e event, says bool, err error) {
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		k, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err == nil && k.ReplyRequested {
			err = r.status(ctx)
		}
		r.f.progress.walEnd.Store(uint64(k.ServerWALEnd))
		return event{end: k.ServerWALEnd, at: k.ServerTime}, !r.open, err
	case pglogrepl.XLogDataByteID:
		x, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return e, false, err
		}
		r.f.progress.walEnd.Store(max(r.f.progress.walEnd.Load(), uint64(x.ServerWALEnd)))
		m, err := pglogrepl.Parse(x.WALData)
		if err != nil {
			return e, false, err
		}
		return r.decode(ctx, m)
	default:
		return e, false, fmt.Errorf("the stream has a message %q", data[0])
	}
}

func (r *receiver) decode(ctx context.Context, m pglogrepl.Message) (e event, says bool, err error) {
	if b, begins := m.(*pglogrepl.BeginMessage); begins {
		r.had = b.FinalLSN < r.from || r.seen.has(transaction{b.FinalLSN, b.Xid, b.CommitTime.UnixMicro()})
	}
	if _, describes := m.(*pglogrepl.RelationMessage); describes || !r.had {
		e.changes, err = r.decoder.decode(m)
	}
	switch bad, invalid := errors.AsType[*rowError](err); {
	case invalid:
		if err := r.f.invalid.refuse(ctx, bad); err != nil {
			return e, false, err
		}
	case err != nil && !errors.Is(err, errLacks):
		return e, false, &StopError{err}
	case err != nil:
		return e, false, err
	}
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		r.open, e.begin, e.at = true, transaction{m.FinalLSN, m.Xid, m.CommitTime.UnixMicro()}, m.CommitTime
	case *pglogrepl.CommitMessage:
		r.open, e.end, e.at = false, m.TransactionEndLSN, m.CommitTime
	}
	return e, e.begin.commit > 0 || e.end > 0 || len(e.changes) > 0, nil
}

// send waits until the event is taken, and keeps the source from giving up meanwhile.
func (r *receiver) send(ctx context.Context, e event) bool {
	select {
	case r.events <- e:
		return true
	default:
	}
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		select {
		case r.events <- e:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
			if r.status(ctx) != nil {
				continue // reading finds the reason
			}
		}
	}
}

// status tells the source what the ledger has, so that it keeps no more than the rest. The source
// answers. Reads end when the next status is due.
func (r *receiver) status(ctx context.Context) error {
	at := pglogrepl.LSN(r.f.progress.recorded.Load())
	if uint64(at) >= r.f.progress.walEnd.Load() {
		r.f.progress.committed.Store(time.Now().UnixNano()) // nothing is lacking now
	}
	err := pglogrepl.SendStandbyStatusUpdate(ctx, r.conn.PgConn(), pglogrepl.StandbyStatusUpdate{WALWritePosition: at, ReplyRequested: true})
	if err != nil {
		return fmt.Errorf("confirm the position: %w", err)
	}
	r.told = time.Now()
	_ = r.conn.PgConn().Conn().SetReadDeadline(r.told.Add(statusEvery)) // fails if the connection is closed: so do reads
	return ctx.Err()                                                    // which may have ended before
}

// applier records events in groups: as many transactions of the source as wait, up to the size of a
// group. It records only what a look at the catalog has proved, which began after that was
// received. While a group is recorded, the next is received and looked at.
type applier struct {
	f      *Follower
	src    *activity.Source
	events <-chan event
	ended  error // of the stream; nil: events may come

	at    position // in the ledger
	moved time.Time
	idle  time.Duration // how long a position alone waits: twice as long each time, until a transaction comes

	replay   replay
	pending  []activity.SourceChange
	received mark        // the whole transactions of pending
	begun    transaction // the open one
	skips    bool        // the ledger has it, and the position is behind it
	read     *seen       // what the read of the tables has seen after the position; nil: nothing
	n        int         // changes of it so far

	begin  chan<- struct{} // tells the watcher to look
	looks  <-chan lookedAt
	looked mark      // what the look in progress proves
	busy   bool      // a look is in progress
	proved mark      // is recorded next, if it is more than at
	seen   time.Time // when the last look ended
	fresh  freshness

	recording *recording // in progress; nil: none is

	touched *touched        // nil: nothing audits
	mending <-chan *mending // from the auditor
}

// recording is a group that is being recorded.
type recording struct {
	mark

	began   time.Time
	ended   chan error
	mending *mending // it records what an audit has found, and no part of the stream; nil: it does
}

// mark is a part of the stream that ends with a transaction, or within one after a part of it.
type mark struct {
	to        position
	changes   int       // how many of pending belong to it
	committed time.Time // when the source committed the last transaction
}

func newApplier(f *Follower, src *activity.Source, at position, again replay, events <-chan event, w *watcher) *applier {
	a := &applier{f: f, src: src, events: events, at: at, replay: again, idle: moveEvery, begin: w.begin, looks: w.ended}
	a.received = mark{to: at, committed: time.Now()}
	a.proved = a.received
	a.read, _ = parseSeen(at.seen) // parsed before
	return a
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
		if a.ended != nil || len(a.pending) > a.f.group.most() {
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
		a.look()
		a.record(ctx)
		if a.ended != nil && a.received.to == a.at {
			return errors.Join(context.Cause(ctx), a.ended)
		}
		timer.Reset(a.idle)
		if err := a.wait(ctx, events, timer.C); err != nil {
			return err
		}
	}
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
	case l := <-a.looks:
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
func (a *applier) take(e event, ok bool) (err error) {
	switch {
	case !ok:
		a.ended = errors.New("the stream ended")
		return nil
	case e.err != nil:
		a.ended = e.err
		return nil //nolint:nilerr // what was received before comes first
	case e.begin.commit > 0:
		a.begun, a.n = e.begin, 0
		if a.skips, err = a.replay.skips(e.begin); err != nil {
			return err
		}
		if !a.skips {
			a.received.committed = e.at
		}
	}
	if a.skips {
		a.skips = e.end == 0 // it ends
		return nil
	}
	for _, c := range e.changes {
		if err := a.add(c); err != nil {
			return err
		}
	}
	if e.end > 0 {
		return a.end(e)
	}
	return nil
}

// add adds a change of the open transaction.
func (a *applier) add(c activity.SourceChange) error {
	a.touched.add(item{c.Kind, c.User, c.Target}, a.begun.commit)
	a.n++
	if a.begun.commit == a.at.within && a.n <= a.at.done {
		return nil // recorded before
	}
	r := &a.received
	if a.pending = append(a.pending, c); len(a.pending)-r.changes > a.f.group.part() {
		r.to.done, r.to.within, r.changes = a.n, a.begun.commit, len(a.pending)
	}
	return nil
}

// end ends the open transaction, or moves the position while none is open.
func (a *applier) end(e event) error {
	r := &a.received
	if e.end <= r.to.lsn {
		return nil
	}
	if err := a.replay.passed(e.end); err != nil {
		return err
	}
	r.committed = e.at
	if a.begun.commit == r.to.within { // otherwise that transaction is still to come
		r.to.done, r.to.within = 0, 0
	}
	if a.begun.commit > 0 {
		r.to.last = a.begun
	}
	r.to.lsn, r.changes, a.begun = e.end, len(a.pending), transaction{}
	if a.read != nil && e.end >= a.read.until {
		r.to.seen, a.read = "", nil
	}
	return nil
}

// look begins a look at the catalog, if one would prove more, or if the last was some time ago. So
// the ledger hears that a source is followed that commits nothing.
func (a *applier) look() {
	more := a.received.to != a.proved.to && !a.waits(a.received)
	if a.busy || !more && time.Since(a.seen) < lookEvery {
		return
	}
	a.looked, a.busy = a.received, true
	a.begin <- struct{}{}
}

// prove takes the result of a look.
func (a *applier) prove(l lookedAt) error {
	a.busy, a.seen = false, time.Now()
	if l.err != nil {
		return l.err
	}
	a.fresh.saw(l.end, l.began)
	a.tell()
	a.proved = a.looked
	a.proved.to.catalog, a.received.to.catalog = l.sum, l.sum
	if a.recording == nil && a.proved.to == a.at {
		select {
		case a.f.progress.idle <- struct{}{}:
		default:
		}
	}
	return nil
}

// tell notes until when the ledger lacks nothing, for the next renewal of the lease.
func (a *applier) tell() {
	if until := a.fresh.at(a.at.lsn); !until.IsZero() {
		a.f.progress.lacksAfter.Store(&until)
	}
}

// mend begins to record what an audit has found, but for what was touched since. The position
// stays, so nothing is lost for the stream if that fails. Or it has the next group note that the
// audit has ended.
func (a *applier) mend(ctx context.Context, m *mending) {
	if m.audited != 0 {
		for _, k := range []*mark{&a.received, &a.looked, &a.proved} {
			k.to.audited = m.audited
		}
		m.done <- nil
		return
	}
	at := a.at
	found := changesOf(slices.DeleteFunc(m.found, func(one finding) bool { return a.touched.has(one.side) }))
	a.recording = &recording{mark: mark{to: at}, ended: make(chan error, 1), mending: m}
	go func(ended chan<- error) { ended <- a.src.Record(ctx, at.text(), found) }(a.recording.ended)
}

// waits reports whether it is too early for a mark that is a position alone.
func (a *applier) waits(m mark) bool {
	return m.changes == 0 && a.ended == nil && time.Since(a.moved) < a.idle
}

// record begins to record what is proved, and the position after it.
func (a *applier) record(ctx context.Context) {
	if a.recording != nil || a.proved.to == a.at || a.waits(a.proved) {
		return
	}
	r := &recording{mark: a.proved, began: time.Now(), ended: make(chan error, 1)}
	group := a.pending[:r.changes]
	a.pending = slices.Clone(a.pending[r.changes:])
	for _, m := range []*mark{&a.received, &a.looked, &a.proved} { // a look in progress proves the group, too
		m.changes -= r.changes
	}
	a.recording = r
	fresh := a.fresh // a copy: it is so only once the group is recorded
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
			a.f.log.WarnContext(ctx, "the ledger is slow: recording in smaller groups", "changes", a.f.group.most())
		}
		return err // whether the ledger has the group is not known: a new lease tells
	}
	a.moved = time.Now()
	if r.changes > 0 {
		a.f.group.worked(a.moved.Sub(r.began))
	}
	if r.changes > 0 || r.to.lsn-a.at.lsn > quiet {
		a.idle = moveEvery
	} else {
		a.idle = min(2*a.idle, maxIdle)
	}
	a.at = r.to
	a.f.progress.committed.Store(r.committed.UnixNano())
	a.f.progress.recorded.Store(uint64(a.at.lsn))
	a.f.progress.audited.Store(a.at.audited)
	a.tell()
	return nil
}
