package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresTransaction takes two round trips. The first one locks and reads, the second one writes
// and commits. Each statement sees what was committed when it began (READ COMMITTED). So the reads
// see everything that was committed before the locks were granted.
type postgresTransaction struct {
	d      *postgresDatabase
	conn   *pgx.Conn
	rest   *pgx.Batch // the second round trip
	oldest *int64     // see lockKinds
}

// transact runs a transaction. do runs within the limit and until ctx ends. transact then writes
// and commits, even if ctx ends.
//
// transact commits even if do writes nothing. Such a transaction repeats a visible one whose
// wait for its standby may have been cut short. The lock on a page makes the commit a logged one,
// which waits for both.
func (d *postgresDatabase) transact(
	ctx context.Context, limit time.Duration, do func(ctx context.Context, t transaction) error,
) error {
	return d.attempt(ctx, d.pool, limit, func(limited context.Context, conn *pgx.Conn) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := postgresTransaction{d, conn, &pgx.Batch{}, new(int64)}
		if err := cmp.Or(do(limited, t), ctx.Err()); err != nil {
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
	return send(ctx, t.conn, statement{sql: beginSQL}, t.d.opened())
}

// query runs a statement without a result in the second round trip.
func (t postgresTransaction) query(ctx context.Context, s statement) error {
	if s.into == nil {
		t.rest.Queue(s.sql, s.args...)
		return nil
	}
	return postgresSession{t.conn}.query(ctx, s)
}

// lookup is a query that tells the plan which of its entries exist.
func (p *plan) lookup() statement {
	var r scanned
	return statement{sql: lookupRowsSQL, args: columnsOf(p.entries)[:4], into: r.all(), each: func() error {
		p.found(r.row())
		return nil
	}}
}

// countTallies is a query that counts rows, and runs after the locks.
func countTallies(tallies []*tally, now time.Time) statement {
	n := len(tallies)
	hash, most := make([]int64, n), make([]int64, n)
	owner, kind := make([]string, n), make([]string, n)
	for i, t := range tallies {
		hash[i], owner[i], kind[i], most[i] = stored(t.hash), t.owner, t.kind, t.most
	}
	var number, found int64
	args := []any{hash, owner, kind, most, now.UnixMicro()}
	return statement{sql: tallyRowsSQL, args: args, into: []any{&number, &found}, each: func() error {
		tallies[number-1].found = found
		return nil
	}}
}

func (t postgresTransaction) write(_ context.Context, upserts, removals []*entry, raised []raisedPage) error {
	if len(upserts) > 0 {
		t.rest.Queue(upsertRowsSQL, columnsOf(upserts)...)
	}
	if len(removals) > 0 {
		t.rest.Queue(deleteRowsSQL, columnsOf(removals)[:4]...)
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

func (t postgresTransaction) greatest(ctx context.Context) (page uint32, err error) {
	err = send(ctx, t.conn, statement{sql: lockNumbersSQL}, statement{sql: greatestPageSQL, into: []any{&page}})
	return page, err
}

func (t postgresTransaction) dedicate(_ context.Context, hash uint64, page uint32) error {
	t.rest.Queue(createPagesSQL, []int64{int64(page)})
	t.rest.Queue(putOwnerSQL, stored(hash), page)
	return nil
}

// lockLayouts locks the table against writers, which lock it in a shared mode.
func (t postgresTransaction) lockLayouts(ctx context.Context) (l Layouts, err error) {
	err = send(ctx, t.conn, statement{sql: beginSQL}, statement{sql: lockLayoutsSQL}, t.d.opened(), layoutsQuery(&l))
	return l, err
}

// lockKinds also reads the oldest running transaction, for recentAnyOf.
func (t postgresTransaction) lockKinds(ctx context.Context) (kinds []Kind, err error) {
	err = send(ctx, t.conn, statement{sql: beginSQL}, statement{sql: noTimeLimitSQL}, statement{sql: lockKindsSQL},
		t.d.opened(), kindsQuery(&kinds), statement{sql: oldestRunningSQL, into: []any{t.oldest}})
	return kinds, err
}

func (t postgresTransaction) anyOf(ctx context.Context, names []string) (found bool, err error) {
	err = t.query(ctx, statement{sql: anyOfKindsSQL, args: []any{names}, into: []any{&found}})
	return found, err
}

// recentAnyOf waits for writers in progress, and lets no other begin before the transaction ends.
// It searches the pages that changed since the oldest transaction.
func (t postgresTransaction) recentAnyOf(ctx context.Context) (func(context.Context, []string) (bool, error), error) {
	if _, err := t.conn.Exec(ctx, excludeWritersSQL); err != nil {
		return nil, err
	}
	var page uint32
	var hash int64
	var least, greatest []int64
	s := statement{sql: recentPagesSQL, args: []any{*t.oldest}, into: []any{&page, &hash}, each: func() error {
		first, last := hash, hash
		if page < DedicatedPages {
			of := t.d.id.hashes(page)
			first, last = stored(of.least), stored(of.greatest)
		}
		least, greatest = append(least, first), append(greatest, last)
		return nil
	}}
	return func(ctx context.Context, names []string) (found bool, err error) {
		err = t.query(ctx, statement{sql: anyWithinSQL, args: []any{names, least, greatest}, into: []any{&found}})
		return found, err
	}, t.query(ctx, s)
}

// columnsOf returns entries as arrays for unnest: hash, owner, kind, target, since, until, target
// hash. The times are those after the changes. The last array is empty if no entry names a user.
func columnsOf(entries []*entry) []any {
	n := len(entries)
	hash, since, until := make([]int64, n), make([]int64, n), make([]*int64, n)
	owner, kind, target := make([]string, n), make([]string, n), make([]string, n)
	targetHash := []*int64{}
	for i, e := range entries {
		hash[i], owner[i], kind[i], target[i] = stored(e.hash), e.owner, e.kind, e.target
		since[i], until[i] = e.after.since.UnixMicro(), storedUntil(e.after.until)
		if e.targetHash != nil {
			if len(targetHash) == 0 {
				targetHash = make([]*int64, n)
			}
			targetHash[i] = e.targetHash
		}
	}
	return []any{hash, owner, kind, target, since, until, targetHash}
}
