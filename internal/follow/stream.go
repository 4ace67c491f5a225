package follow

import (
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
)

const (
	// statusEvery is how often the source hears what the ledger has.
	statusEvery = time.Second
	// moveEvery bounds how often the position alone is recorded.
	moveEvery = 20 * time.Millisecond
)

// event is what a message of the stream says.
type event struct {
	begin   pglogrepl.LSN // a transaction begins, which commits there; 0: none
	at      time.Time     // when it commits, or the source sent all up to end, by the source's clock
	changes []activity.SourceChange
	end     pglogrepl.LSN // all up to there has been sent; 0: not known
	err     error         // the stream cannot go on
}

// stream records the changes of the source from a position on, until ctx ends or the stream does.
// It closes look, another connection.
func (f *Follower) stream(ctx context.Context, src *activity.Source, look *pgx.Conn, from position) error {
	conn, err := f.connect(ctx, true)
	if err != nil {
		return err
	}
	err = pglogrepl.StartReplication(ctx, conn.PgConn(), f.name, from.lsn, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names '" + f.name + "'"},
	})
	if err == nil {
		err = f.checkSlot(ctx, look, from.lsn) // which nobody else changes from now on
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return fmt.Errorf("start the stream at %s: %w", from.lsn, err)
	}
	_ = look.Close(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	r := &receiver{
		f: f, conn: conn, decoder: newDecoder(f.mapper), events: make(chan event, maxGroup),
	}
	a := &applier{f: f, src: src, events: r.events, at: from, to: from, committed: time.Now()}
	var beside sync.WaitGroup
	beside.Go(func() { r.run(ctx) })
	if f.Resync {
		a.touched, a.differ = newTouched(), make(chan []activity.SourceChange)
		beside.Go(func() { cancel(f.resync(ctx, src, a)) })
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
			if time.Since(heard) > r.f.silence {
				return event{}, fmt.Errorf("the source has been silent for %v", r.f.silence)
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
		r.f.walEnd.Store(uint64(k.ServerWALEnd))
		return event{end: k.ServerWALEnd, at: k.ServerTime}, !r.open, err
	case pglogrepl.XLogDataByteID:
		x, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return e, false, err
		}
		r.f.walEnd.Store(max(r.f.walEnd.Load(), uint64(x.ServerWALEnd)))
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
	e.changes, err = r.decoder.decode(m)
	switch bad, invalid := errors.AsType[*rowError](err); {
	case invalid:
		if err := r.f.refuse(ctx, bad); err != nil {
			return e, false, err
		}
	case err != nil && !errors.Is(err, errLacks):
		return e, false, &StopError{err}
	case err != nil:
		return e, false, err
	}
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		r.open, e.begin, e.at = true, m.FinalLSN, m.CommitTime
	case *pglogrepl.CommitMessage:
		r.open, e.end, e.at = false, m.TransactionEndLSN, m.CommitTime
	}
	return e, e.begin > 0 || e.end > 0 || len(e.changes) > 0, nil
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
	at := pglogrepl.LSN(r.f.recorded.Load())
	if uint64(at) >= r.f.walEnd.Load() {
		r.f.committed.Store(time.Now().UnixNano()) // nothing is lacking now
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
// group.
type applier struct {
	f      *Follower
	src    *activity.Source
	events <-chan event

	at, to position // in the ledger, and after the last whole transaction of pending
	moved  time.Time

	pending []activity.SourceChange
	whole   int           // of pending, changes of whole transactions
	begun   pglogrepl.LSN // commit of the open transaction
	// committed is when the source committed the last transaction that was taken.
	committed time.Time
	n         int // changes of it so far

	touched *touched                     // nil: no resync
	differ  chan []activity.SourceChange // found by the resync
}

func (a *applier) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select { // what waits already joins the group
		case e, ok := <-a.events:
			if err := a.take(ctx, e, ok); err != nil {
				return err
			}
			continue
		default:
		}
		if a.whole > 0 || a.to.lsn > a.at.lsn && time.Since(a.moved) >= moveEvery {
			if err := a.flush(ctx); err != nil {
				return err
			}
			continue
		}
		timer.Reset(moveEvery)
		select {
		case e, ok := <-a.events:
			if err := a.take(ctx, e, ok); err != nil {
				return err
			}
		case found := <-a.differ:
			if err := a.mend(ctx, found); err != nil {
				return err
			}
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take adds an event to the group.
func (a *applier) take(ctx context.Context, e event, ok bool) error {
	switch {
	case !ok:
		return errors.Join(context.Cause(ctx), errors.New("the stream ended"))
	case e.err != nil:
		return errors.Join(a.flush(ctx), e.err)
	case e.begin > 0:
		a.begun, a.n, a.committed = e.begin, 0, e.at
	}
	for _, c := range e.changes {
		if a.touched != nil {
			if err := a.touched.add(item{c.Kind, c.User, c.Target}); err != nil {
				return err
			}
		}
		a.n++
		if a.begun == a.at.within && a.n <= a.at.done {
			continue // recorded before
		}
		if a.pending = append(a.pending, c); len(a.pending)-a.whole > a.f.group.part() {
			a.to.done, a.to.within, a.whole = a.n, a.begun, len(a.pending)
		} else if len(a.pending) <= a.f.group.most() {
			continue
		}
		if err := a.flush(ctx); err != nil {
			return err
		}
	}
	if e.end > a.to.lsn {
		a.committed = e.at
		if a.begun == a.to.within { // otherwise that transaction is still to come
			a.to.done, a.to.within = 0, 0
		}
		a.to.lsn, a.whole, a.begun = e.end, len(a.pending), 0
	}
	return nil
}

// mend records what a resync found, but for what was touched since.
func (a *applier) mend(ctx context.Context, found []activity.SourceChange) error {
	found = slices.DeleteFunc(found, func(c activity.SourceChange) bool { return a.touched.has(item{c.Kind, c.User, c.Target}) })
	if len(found) == 0 {
		return nil
	}
	return a.src.Record(ctx, a.at.String(), found)
}

// flush records the whole transactions of the group, and the position after them.
func (a *applier) flush(ctx context.Context) error {
	if a.to == a.at {
		return nil
	}
	start := time.Now()
	if err := a.src.Record(ctx, a.to.String(), a.pending[:a.whole]); err != nil {
		if ctx.Err() == nil && a.f.group.failed(a.whole, err) {
			a.f.Log.WarnContext(ctx, "the ledger is slow: recording in smaller groups", "changes", a.f.group.most())
		}
		return err // whether the ledger has the group is not known: a new lease tells
	}
	a.f.group.worked(time.Since(start))
	a.pending = append(a.pending[:0], a.pending[a.whole:]...)
	a.at, a.whole, a.moved = a.to, 0, time.Now()
	a.f.committed.Store(a.committed.UnixNano())
	a.f.recorded.Store(uint64(a.at.lsn))
	return nil
}
