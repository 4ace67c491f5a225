package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresTransaction takes two round trips. The first one locks and reads, the second one writes
// and commits. Each statement sees what was committed when it began (READ COMMITTED). So the reads
// see everything that was committed before the locks were granted.
type postgresTransaction struct {
	d    *postgresDatabase
	conn *pgx.Conn
	rest *pgx.Batch // the second round trip
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
	if limit > 0 {
		limit = d.callTimeout
	}
	return d.attempt(ctx, d.pool, limit, func(limited context.Context, conn *pgx.Conn) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := postgresTransaction{d, conn, &pgx.Batch{}}
		if err := cmp.Or(do(limited, t), ctx.Err()); err != nil {
			return err
		}
		return d.commit(ctx, conn, t.rest)
	})
}

// commit runs the rest of a transaction and commits it.
func (d *postgresDatabase) commit(ctx context.Context, conn *pgx.Conn, rest *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.callTimeout)
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

func (t postgresTransaction) begin(ctx context.Context, all ...statement) error {
	first := []statement{{sql: beginSQL}}
	if t.conn.PgConn().TxStatus() != 'I' {
		first = []statement{{sql: `ROLLBACK`}, {sql: beginSQL}}
	}
	return send(ctx, t.conn, slices.Concat(first, all, []statement{t.d.opened()})...)
}

// query runs a statement without a result in the second round trip.
func (t postgresTransaction) query(ctx context.Context, s statement) error {
	switch {
	case s.idle():
		return nil
	case s.into == nil:
		t.rest.Queue(s.sql, slices.Concat(s.columns, s.args)...)
		return nil
	}
	return postgresSession{t.conn}.query(ctx, s)
}

func (t postgresTransaction) anyOf(
	ctx context.Context, names []string, since int64,
) (found bool, err error) {
	s := statement{sql: anyOfKindsSQL, args: []any{names}, into: []any{&found}}
	if since > 0 {
		// Waits for writers in progress, and lets no other begin before the transaction ends.
		if _, err := t.conn.Exec(ctx, excludeWritersSQL); err != nil {
			return false, err
		}
		least, greatest, err := t.changedHashes(ctx, since)
		if err != nil {
			return false, err
		}
		s.sql, s.args = anyWithinSQL, []any{names, least, greatest}
	}
	err = t.query(ctx, s)
	return found, err
}

// changedHashes returns the ranges of hashes of the pages that transaction since or a later one
// changed.
func (t postgresTransaction) changedHashes(
	ctx context.Context, since int64,
) (least, greatest []int64, err error) {
	var page uint32
	var hash int64
	err = t.query(ctx, statement{
		sql:  recentPagesSQL,
		args: []any{since},
		into: []any{&page, &hash},
		each: func() error {
			first, last := hash, hash
			if page < DedicatedPages {
				of := t.d.id.hashes(page)
				first, last = stored(of.least), stored(of.greatest)
			}
			least, greatest = append(least, first), append(greatest, last)
			return nil
		},
	})
	return least, greatest, err
}
