package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// eachRow reads a page with a cursor, in one snapshot. What fails before the first rows is tried again where that may help;
// afterwards it is not, because the rows have been passed on.
func (d *postgresDatabase) eachRow(ctx context.Context, page uint32, each func(rows []Row) error) (s Standing, err error) {
	var failed error
	err = d.retry(ctx, d.pool, func(ctx context.Context, conn *pgx.Conn) error {
		c := cursor{conn: conn, each: each}
		var err error
		s, err = d.fetchPage(ctx, &c, page)
		if err != nil && c.passed {
			failed = err
			rollBack(ctx, conn)
			return nil
		}
		return err
	})
	if err == nil {
		err = failed
	}
	return s, err
}

// cursor reads rows in a transaction of its own.
type cursor struct {
	conn   *pgx.Conn
	each   func(rows []Row) error
	passed bool // rows were passed on
}

func (d *postgresDatabase) fetchPage(ctx context.Context, c *cursor, page uint32) (s Standing, err error) {
	if err := c.exec(ctx, beginSnapshotSQL); err != nil {
		return Standing{}, err
	}
	found, err := c.standing(ctx, page, &s)
	if err != nil {
		return Standing{}, err
	}
	hashes := d.id.hashes(page)
	query, args := pageSQL, []any{page, stored(hashes.least), stored(hashes.greatest)}
	switch {
	case page >= OwnPages && !found:
		return Standing{}, errNoOwnPage
	case page >= OwnPages:
		query, args = rangePageSQL, []any{page, int64(d.id.hashes(0).greatest)}
	case s.Moves > 0:
		query = movedPageSQL
	}
	if err := c.exec(ctx, declareSQL+query, args...); err != nil {
		return Standing{}, err
	}
	for {
		n, err := c.fetch(ctx)
		if err != nil {
			return Standing{}, err
		}
		if n < rowsAtOnce {
			return s, c.exec(ctx, `ROLLBACK`)
		}
	}
}

// exec is within callTimeout, as every step is.
func (c *cursor) exec(ctx context.Context, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.conn.Exec(ctx, sql, args...)
	return err
}

func (c *cursor) standing(ctx context.Context, page uint32, s *Standing) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := c.conn.Query(ctx, pageStandingSQL, page)
	if err != nil {
		return false, err
	}
	_, err = pgx.ForEachRow(rows, []any{&s.Sequence, &s.Moves}, func() error {
		found = true
		return nil
	})
	return found, err
}

// fetch passes the next rows on, and returns how many there were: a page without any has one without an owner.
func (c *cursor) fetch(ctx context.Context) (n int, err error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := c.conn.Query(limited, fetchSQL, pgx.QueryExecModeDescribeExec)
	if err != nil {
		return 0, err
	}
	var r scanned
	var s Standing
	rows := make([]Row, 0, rowsAtOnce)
	_, err = pgx.ForEachRow(found, append([]any{&s.Sequence, &s.Moves}, r.all()...), func() error {
		n++
		if r.owner != "" {
			rows = append(rows, r.row())
		}
		return nil
	})
	if err != nil || len(rows) == 0 {
		return n, err
	}
	c.passed = true
	return n, c.each(rows)
}
