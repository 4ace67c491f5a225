package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// record takes two round trips. The first one locks the pages and reads the rows, the second one
// writes and commits. Each statement sees what was committed when it began (READ COMMITTED). So
// the reads see everything that was committed before the locks were granted.
func (d *postgresDatabase) record(ctx context.Context, p *plan, now time.Time) (receipt Receipt, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		states, err := d.lock(limited, conn, p, p.entries, now)
		if err != nil {
			return nil, fmt.Errorf("look up rows: %w", err)
		}
		changed, refused := p.decide(now)
		f := p.effect(states)
		receipt = p.receipt(changed, refused, f)
		upserts, removals := p.writes()
		return writeBatch(upserts, removals, f.raised), nil
	})
	if err != nil {
		return Receipt{}, err
	}
	return receipt, nil
}

func (d *postgresDatabase) setCheckpoint(ctx context.Context, id, value string) error {
	return d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		if _, err := conn.Exec(limited, beginSQL); err != nil {
			return nil, err
		}
		b := &pgx.Batch{}
		if value == "" {
			b.Queue(deleteCheckpointSQL, id)
		} else {
			b.Queue(putCheckpointSQL, id, value)
		}
		return b, nil
	})
}

// transact runs a transaction. begin starts it, within callTimeout and until ctx ends, and returns
// the remaining statements. transact then runs these and commits, even if ctx ends.
//
// transact commits even if no statement remains. Such a transaction repeats a visible one whose
// wait for its standby may have been cut short. The lock on a page makes the commit a logged one,
// which waits for both.
func (d *postgresDatabase) transact(
	ctx context.Context, begin func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error),
) error {
	return d.transactBy(ctx, d.attempt, begin)
}

// transactBy is transact with another function than attempt for the retries.
func (d *postgresDatabase) transactBy(
	ctx context.Context,
	attempt func(context.Context, *pgxpool.Pool, func(context.Context, *pgx.Conn) error) error,
	begin func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error),
) error {
	err := attempt(ctx, d.pool, func(limited context.Context, conn *pgx.Conn) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		rest, err := begin(limited, conn)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return commit(ctx, conn, rest)
	})
	if _, undecided := errors.AsType[*undecidedError](err); undecided {
		return err
	}
	return interrupted(ctx, err)
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

// noteWarning keeps warnings for commit. If an administrator or a timeout ends the wait for a
// standby, the server only warns that the commit may be lost.
func noteWarning(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warningKey] = notice.Message
	}
}

// lock begins a transaction and locks the pages of the plan against other writers. It tells the
// plan which of the entries in some exist, and counts the rows of limited owners and kinds. It
// returns the states of the pages.
func (d *postgresDatabase) lock(
	ctx context.Context, conn *pgx.Conn, p *plan, some []*entry, now time.Time,
) (map[uint32]PageState, error) {
	return d.lockPages(ctx, conn, p, func(b *pgx.Batch) {
		if len(some) > 0 {
			queueLookup(b, p, some)
		}
		if len(p.tallies) > 0 {
			queueTallies(b, p.tallies, now)
		}
		if p.hasEnded() {
			b.Queue(clockSQL).QueryRow(func(row pgx.Row) error {
				var us int64
				err := row.Scan(&us)
				p.clock = time.UnixMicro(us)
				return err
			})
		}
	})
}

// queueLookup queues a read that tells the plan which of the entries in some exist.
func queueLookup(b *pgx.Batch, p *plan, some []*entry) {
	keys := columnsOf(some)
	b.Queue(lookupRowsSQL, keys.hash, keys.owner, keys.kind, keys.target).Query(func(rows pgx.Rows) error {
		var r scanned
		_, err := pgx.ForEachRow(rows, r.all(), func() error {
			p.found(r.row())
			return nil
		})
		return err
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
	b.Queue(tallyRowsSQL, hash, owner, kind, most, now.UnixMicro()).Query(func(rows pgx.Rows) error {
		var number, found int64
		_, err := pgx.ForEachRow(rows, []any{&number, &found}, func() error {
			tallies[number-1].found = found
			return nil
		})
		return err
	})
}

// writeBatch returns the statements that write rows and raise pages.
func writeBatch(upserts, removals []*entry, raised []raisedPage) *pgx.Batch {
	b := &pgx.Batch{}
	if len(upserts) > 0 {
		c := columnsOf(upserts)
		b.Queue(upsertRowsSQL, c.hash, c.owner, c.kind, c.target, c.since, c.until, c.targetHash)
	}
	if len(removals) > 0 {
		c := columnsOf(removals)
		b.Queue(deleteRowsSQL, c.hash, c.owner, c.kind, c.target)
	}
	queueRaises(b, raised)
	return b
}

// queueRaises queues a statement that stores the new states of existing pages.
func queueRaises(b *pgx.Batch, raised []raisedPage) {
	if len(raised) == 0 {
		return
	}
	n := len(raised)
	pages, sequences, left := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, r := range raised {
		pages[i], sequences[i], left[i] = int64(r.page), int64(r.Sequence), int64(r.Left)
	}
	b.Queue(raisePagesSQL, pages, sequences, left)
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
