package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresTransaction takes two round trips. The first one locks and reads, the second one writes
// and commits. Each statement sees what was committed when it began (READ COMMITTED). So the reads
// see everything that was committed before the locks were granted.
type postgresTransaction struct {
	d    *postgresDatabase
	conn *pgx.Conn
	rest *pgx.Batch // the second round trip
}

// transact runs a transaction. do runs within callTimeout and until ctx ends. transact then writes
// and commits, even if ctx ends.
//
// transact commits even if do writes nothing. Such a transaction repeats a visible one whose
// wait for its standby may have been cut short. The lock on a page makes the commit a logged one,
// which waits for both.
func (d *postgresDatabase) transact(ctx context.Context, do func(ctx context.Context, t transaction) error) error {
	return d.transactBy(ctx, d.attempt, func(ctx context.Context, t postgresTransaction) error { return do(ctx, t) })
}

// transactBy is transact with another function than attempt for the retries.
func (d *postgresDatabase) transactBy(
	ctx context.Context,
	attempt func(context.Context, *pgxpool.Pool, func(context.Context, *pgx.Conn) error) error,
	do func(limited context.Context, t postgresTransaction) error,
) error {
	return attempt(ctx, d.pool, func(limited context.Context, conn *pgx.Conn) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := postgresTransaction{d, conn, &pgx.Batch{}}
		if err := do(limited, t); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return commit(ctx, conn, t.rest)
	})
}

// commit runs the rest of a transaction and commits it.
func commit(ctx context.Context, conn *pgx.Conn, rest *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	said := conn.PgConn().CustomData()
	delete(said, warningKey)
	rest.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the server answered %s", tag)
		}
		return nil
	})
	if err := conn.SendBatch(ctx, rest).Close(); err != nil {
		return &undecidedError{err}
	}
	if warning, ok := said[warningKey].(string); ok {
		return &undecidedError{errors.New(warning)}
	}
	return nil
}

// warningKey is the key of the server's last warning in a connection's custom data.
const warningKey = "warning"

// keepWarning keeps warnings for commit. If an administrator or a timeout ends the wait for a
// standby, the server only warns that the commit may be lost.
func keepWarning(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warningKey] = notice.Message
	}
}

func (t postgresTransaction) begin(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	t.d.queueIncarnation(b)
	return t.conn.SendBatch(ctx, b).Close()
}

func (t postgresTransaction) query(ctx context.Context, s statement, reset func(), each func() error) error {
	return postgresSession{t.conn}.query(ctx, s, reset, each)
}

// exec runs the statement in the second round trip.
func (t postgresTransaction) exec(_ context.Context, sql string, args ...any) error {
	t.rest.Queue(sql, args...)
	return nil
}

func (t postgresTransaction) lock(
	ctx context.Context, p *plan, some []*entry, now time.Time,
) (map[uint32]PageState, error) {
	return t.lockPages(ctx, p, func(b *pgx.Batch) {
		if len(some) > 0 {
			queueLookup(b, p, some)
		}
		if len(p.tallies) > 0 {
			queueTallies(b, p.tallies, now)
		}
		if p.hasEnded() {
			var us int64
			queue(b, statement{sql: clockSQL, into: []any{&us}}, func() error {
				p.clock = time.UnixMicro(us)
				return nil
			})
		}
	})
}

// queueLookup queues a read that tells the plan which of the entries in some exist.
func queueLookup(b *pgx.Batch, p *plan, some []*entry) {
	c := columnsOf(some)
	var r scanned
	queue(b, statement{lookupRowsSQL, []any{c.hash, c.owner, c.kind, c.target}, r.all()}, func() error {
		p.found(r.row())
		return nil
	})
}

// queueTallies queues a count of rows, which runs after the locks.
func queueTallies(b *pgx.Batch, tallies []*tally, now time.Time) {
	n := len(tallies)
	hash, most := make([]int64, n), make([]int64, n)
	owner, kind := make([]string, n), make([]string, n)
	for i, t := range tallies {
		hash[i], owner[i], kind[i], most[i] = stored(t.hash), t.owner, t.kind, t.most
	}
	var number, found int64
	args := []any{hash, owner, kind, most, now.UnixMicro()}
	queue(b, statement{tallyRowsSQL, args, []any{&number, &found}}, func() error {
		tallies[number-1].found = found
		return nil
	})
}

func (t postgresTransaction) write(_ context.Context, upserts, removals []*entry, raised []raisedPage) error {
	if len(upserts) > 0 {
		c := columnsOf(upserts)
		t.rest.Queue(upsertRowsSQL, c.hash, c.owner, c.kind, c.target, c.since, c.until, c.targetHash)
	}
	if len(removals) > 0 {
		c := columnsOf(removals)
		t.rest.Queue(deleteRowsSQL, c.hash, c.owner, c.kind, c.target)
	}
	if n := len(raised); n > 0 {
		pages, sequences, left := make([]int64, n), make([]int64, n), make([]int64, n)
		for i, r := range raised {
			pages[i], sequences[i], left[i] = int64(r.page), int64(r.Sequence), int64(r.Left)
		}
		t.rest.Queue(raisePagesSQL, pages, sequences, left)
	}
	return nil
}

// insert copies the rows into the table. If one of them exists, it undoes the copy, and writes the
// others with the rest. So recording existing rows costs an extra try.
func (t postgresTransaction) insert(ctx context.Context, p *plan) (met bool, err error) {
	fresh := p.additions()
	if _, err := t.conn.Exec(ctx, `SAVEPOINT copying`); err != nil {
		return false, err
	}
	_, err = t.conn.CopyFrom(ctx, pgx.Identifier{"entries"},
		[]string{"hash", "owner", "kind", "target", "since", "until", "target_hash"},
		pgx.CopyFromSlice(len(fresh), func(i int) ([]any, error) { return fresh[i].values(), nil }))
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != codeUnique {
		return false, err
	}
	// A failed transaction prepares no statement, so the lookup is not in the same batch.
	if _, err := t.conn.Exec(ctx, `ROLLBACK TO copying`); err != nil {
		return false, err
	}
	b := &pgx.Batch{}
	queueLookup(b, p, fresh)
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		return false, err
	}
	return true, t.write(ctx, slices.DeleteFunc(fresh, func(e *entry) bool { return e.was }), nil, nil)
}

func (t postgresTransaction) greatest(ctx context.Context) (page uint32, err error) {
	b := &pgx.Batch{}
	b.Queue(lockNumbersSQL)
	queue(b, statement{sql: greatestPageSQL, into: []any{&page}}, func() error { return nil })
	err = t.conn.SendBatch(ctx, b).Close()
	return page, err
}

func (t postgresTransaction) dedicate(_ context.Context, hash uint64, page uint32) error {
	t.rest.Queue(createPagesSQL, []int64{int64(page)})
	t.rest.Queue(putOwnerSQL, stored(hash), page)
	return nil
}

// lockLayouts locks the table against writers, which lock it in a shared mode.
func (t postgresTransaction) lockLayouts(ctx context.Context) (l Layouts, err error) {
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(lockLayoutsSQL)
	t.d.queueIncarnation(b)
	queueLayouts(b, &l)
	err = t.conn.SendBatch(ctx, b).Close()
	return l, err
}

// columns are entries as arrays, for unnest.
type columns struct {
	hash, since         []int64
	until               []*int64
	owner, kind, target []string
	targetHash          []*int64 // empty if no entry names a user
}

// columnsOf returns the entries with their times after the changes.
func columnsOf(entries []*entry) columns {
	n := len(entries)
	c := columns{
		hash: make([]int64, n), since: make([]int64, n), until: make([]*int64, n),
		owner: make([]string, n), kind: make([]string, n), target: make([]string, n),
		targetHash: []*int64{},
	}
	for i, e := range entries {
		c.hash[i], c.owner[i], c.kind[i], c.target[i] = stored(e.hash), e.owner, e.kind, e.target
		c.since[i], c.until[i] = e.after.since.UnixMicro(), storedUntil(e.after.until)
		if e.targetHash != nil {
			if len(c.targetHash) == 0 {
				c.targetHash = make([]*int64, n)
			}
			c.targetHash[i] = e.targetHash
		}
	}
	return c
}
