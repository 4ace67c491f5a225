package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/feedfilter/feedfilter/activity"
)

// statusEvery is how often the source hears what the ledger has.
const statusEvery = time.Second

// event is what a message of the stream says.
type event struct {
	begin   transaction // that begins; zero: none does
	at      time.Time   // when it commits, or the source sent all up to end, by the source's clock
	changes []activity.SourceChange
	end     pglogrepl.LSN // all up to there has been sent; 0: not known
	err     error         // the stream cannot go on
}

// startStream begins to stream with what the source does not know that the ledger has. It returns
// from where: see [source.checkSlot].
func (s *source) startStream(
	ctx context.Context, look *pgx.Conn, o *origin,
) (confirmed pglogrepl.LSN, err error) {
	if err := s.copySlot(ctx, look, o.conn); err != nil {
		return 0, err
	}
	publication := strings.ReplaceAll(quote(s.publication), "'", "''")
	options := pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: []string{"proto_version '1'", "publication_names '" + publication + "'"},
	}
	if err := pglogrepl.StartReplication(ctx, o.conn.PgConn(), s.name, 0, options); err != nil {
		return 0, err
	}
	return s.checkSlot(ctx, look, o.at.lsn) // nobody else changes the slot from now on
}

// stream records the changes of the source from where o says, until ctx ends or the stream does. It
// looks at the catalog on another connection, look, and closes that of o.
func (f *Follower) stream(
	ctx context.Context, src *activity.Source, look *pgx.Conn, o *origin,
) error {
	confirmed, err := f.source.startStream(ctx, look, o)
	if err != nil {
		err = fmt.Errorf("start the stream at %s: %w", o.at.lsn, f.source.mayReplicate(o.conn, err))
		_ = o.conn.Close(context.WithoutCancel(ctx))
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &receiver{
		f:       f,
		conn:    o.conn,
		decoder: newDecoder(f.mapper.known(o.known), f.figures.changes, o.known.roots),
		events:  make(chan event, maxGroup),
	}
	r.from = o.at.lsn
	r.seen, _ = parseSeen(o.at.seen) // parsed before
	w := &watcher{
		f:     f,
		conn:  look,
		known: o.known,
		begin: make(chan struct{}, 1),
		ended: make(chan lookedAt, 1),
	}
	a := newApplier(f, src, o.at, newReplay(o.at, confirmed), r.events, w)
	var beside sync.WaitGroup
	beside.Go(func() { r.run(ctx) })
	beside.Go(func() { w.run(ctx) })
	if f.options.Resync || f.options.ResyncEvery > 0 {
		mend := make(chan *mending)
		a.touched, a.mending = newTouched(partsOf(src)), mend
		u := &auditor{
			f:       f,
			src:     src,
			known:   o.known,
			server:  server{o.at.system, o.at.timeline},
			touched: a.touched,
			mend:    mend,
		}
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
		//nolint:contextcheck // deadlines cost less than contexts
		m, err := r.conn.PgConn().ReceiveMessage(context.Background())
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
			err := pgconn.ErrorResponseToPgError(m)
			return event{}, fmt.Errorf("the source ended the stream: %w", err)
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

func (r *receiver) decode(
	ctx context.Context, m pglogrepl.Message,
) (e event, says bool, err error) {
	if b, begins := m.(*pglogrepl.BeginMessage); begins {
		e.begin = transaction{b.FinalLSN, b.Xid, b.CommitTime.UnixMicro()}
		r.had = b.FinalLSN < r.from || r.seen.has(e.begin)
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
		r.open, e.at = true, m.CommitTime
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
	status := pglogrepl.StandbyStatusUpdate{WALWritePosition: at, ReplyRequested: true}
	err := pglogrepl.SendStandbyStatusUpdate(ctx, r.conn.PgConn(), status)
	if err != nil {
		return fmt.Errorf("confirm the position: %w", err)
	}
	r.told = time.Now()
	// It fails if the connection is closed: so do reads.
	_ = r.conn.PgConn().Conn().SetReadDeadline(r.told.Add(statusEvery))
	return ctx.Err() // which may have ended before
}
