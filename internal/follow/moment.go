package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// moment is the moment of the source in which its tables are read: a transaction that sees it, and
// where in the log the stream continues.
//
// A new slot exports a snapshot of exactly what was committed before the slot's place in the log.
// That snapshot ends with the process. The slot stays, so a read that was interrupted needs no new
// one, which would wait for all open transactions again. It reads in a later snapshot
// ([Follower.resume]), and leaves out those transactions of the stream that this snapshot has seen
// ([seen]).
type moment struct {
	tx    pgx.Tx
	lsn   pglogrepl.LSN // of the slot
	next  uint64        // see [begun]; 0: that of an audit, which does not go on
	seen  string        // see [position]
	known *catalog
}

// oneSnapshot returns the options of a transaction whose reads share a snapshot.
func oneSnapshot() pgx.TxOptions {
	return pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
}

// newMoment creates the slot of a read, and begins to read in its snapshot.
func (f *Follower) newMoment(
	ctx context.Context, exporter, conn *pgx.Conn, r *reading,
) (m moment, err error) {
	if r.slot == f.source.name {
		if err := f.source.dropSlot(ctx, conn); err != nil {
			return m, err
		}
	}
	snapshot, err := f.createSlot(ctx, exporter, conn, r)
	if err != nil {
		return m, err
	}
	m.lsn = snapshot.lsn
	if m.tx, err = conn.BeginTx(ctx, oneSnapshot()); err != nil {
		return m, err
	}
	_, err = conn.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+snapshot.name+"'")
	if err == nil && r.slot == f.source.name {
		m.next, err = nextTransaction(ctx, exporter)
	}
	// A temporary slot must not keep the source's log for as long as the read takes.
	_ = exporter.Close(ctx)
	if err == nil {
		m.known, err = f.source.catalogOf(ctx, conn)
	}
	if err != nil {
		_ = m.tx.Rollback(context.WithoutCancel(ctx))
	}
	return m, err
}

// nextTransaction returns an id that is larger than those of all transactions so far. It takes one,
// and rolls back: a commit would wait for a synchronous standby.
func nextTransaction(ctx context.Context, conn *pgx.Conn) (id uint64, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text::bigint`).Scan(&id)
	return id, errors.Join(err, tx.Rollback(ctx))
}

// begun is a full read that has begun: the slot is there, and the ledger lacks rows. The ledger
// keeps it as its position, which says to all that the source has not been read whole.
type begun struct {
	position // of the slot

	// next is a transaction id. All that were committed before the slot's place in the log have
	// smaller ones.
	next uint64
}

func (b begun) text() ledger.Position {
	return (ledger.Reading + " " + b.position.text()).With("next", strconv.FormatUint(b.next, 10))
}

func (b begun) String() string { return string(b.text()) }

// parseBegun parses the position of the ledger. It reports false for any other.
func parseBegun(text ledger.Position) (b begun, ok bool) {
	at, next, _ := strings.Cut(strings.TrimPrefix(string(text), ledger.Reading+" "), " next=")
	if b.position, ok = parsePosition(ledger.Position(at)); !ok {
		return begun{}, false
	}
	b.next, _ = strconv.ParseUint(next, 10, 64)
	return b, b.text() == text
}

// resume goes on with a read, if its slot is as it was, in a new snapshot. It reports false if the
// read needs another slot.
//
// All that was committed before the slot's place must be in the snapshot. A commit that waits for a
// synchronous standby is in the log, and no snapshot has it yet. So no transaction from before may
// be open. The catalog must be the one with which the read began: otherwise the stream may lack
// rows of transactions that the snapshot does not have.
func (f *Follower) resume(
	ctx context.Context, conn *pgx.Conn, is server, b *begun,
) (m moment, ok bool, err error) {
	if b == nil || b.tables != f.fingerprint || is != (server{b.system, b.timeline}) {
		return m, false, nil
	}
	if err := f.source.freeSlot(ctx, conn); err != nil {
		return m, false, err
	}
	state, err := f.source.slotState(ctx, conn)
	if err != nil || state != slotReady {
		return m, false, err
	}
	if confirmed, err := f.source.checkSlot(ctx, conn, b.lsn); err != nil || confirmed != b.lsn {
		return m, false, nil //nolint:nilerr // another slot has the name
	}
	m.lsn, m.next = b.lsn, b.next
	if m.tx, err = conn.BeginTx(ctx, oneSnapshot()); err != nil {
		return m, false, err
	}
	var oldest uint64
	err = conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() || '@' || s,
			pg_snapshot_xmin(s)::text::bigint
		FROM pg_current_snapshot() AS s`).Scan(&m.seen, &oldest)
	if err == nil {
		m.known, err = f.source.catalogOf(ctx, conn)
	}
	timeline := fmt.Sprintf("%08X", is.timeline)
	if err != nil || oldest < b.next ||
		!m.known.grewFrom(b.catalog) || m.known.timeline != timeline {
		_ = m.tx.Rollback(context.WithoutCancel(ctx))
		return m, false, err
	}
	f.log.InfoContext(
		ctx, "going on with the full read that was interrupted", "position", b.lsn.String(),
	)
	return m, true, nil
}

// seen are the transactions that a snapshot has, in which the tables were read. Nil has none.
type seen struct {
	until pglogrepl.LSN // all of them commit before
	next  uint32        // no larger transaction id is one of them
	open  map[uint32]bool
}

// parseSeen parses a snapshot as position has it, such as 0/16B3748@750:754:750,752. It reports
// false for another form. Nil is that of "".
func parseSeen(text string) (s *seen, ok bool) {
	if text == "" {
		return nil, true
	}
	s = &seen{open: make(map[uint32]bool)}
	until, snapshot, _ := strings.Cut(text, "@")
	parts := strings.Split(snapshot, ":")
	var err error
	if s.until, err = pglogrepl.ParseLSN(until); err != nil || len(parts) != 3 {
		return nil, false
	}
	next, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return nil, false
	}
	s.next = uint32(next) // the stream has the lower half of ids
	for id := range strings.SplitSeq(parts[2], ",") {
		open, err := strconv.ParseUint(id, 10, 64)
		if err != nil && parts[2] != "" {
			return nil, false
		}
		s.open[uint32(open)] = true
	}
	return s, true
}

// has reports whether the snapshot has a transaction of the stream. Transaction ids begin again
// after 2^32, and those of transactions that commit before until lie within half of that.
func (s *seen) has(x transaction) bool {
	return s != nil && x.commit < s.until && int32(x.xid-s.next) < 0 && !s.open[x.xid]
}
