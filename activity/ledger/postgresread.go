package ledger

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// postgresSession runs queries on a connection, once.
type postgresSession struct{ conn *pgx.Conn }

func (p postgresSession) query(ctx context.Context, s statement, reset func(), each func() error) error {
	reset()
	rows, err := p.conn.Query(ctx, s.sql, s.args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, s.into, each)
	return err
}

func (d *postgresDatabase) query(ctx context.Context, s statement, reset func(), each func() error) error {
	return d.attempt(ctx, d.pool, func(ctx context.Context, conn *pgx.Conn) error {
		return postgresSession{conn}.query(ctx, s, reset, each)
	})
}

// keys reads a page in one statement. For a page without rows the query returns one row without an
// owner.
func (d *postgresDatabase) keys(ctx context.Context, page uint32) ([]Row, PageState, error) {
	var s PageState
	var r scanned
	query, args := d.pageQuery(page)
	read := statement{query + atMostSQL, args, append([]any{&s.Sequence, &s.Left}, r.all()...)}
	rows, err := collect(ctx, d, read, func() Row {
		return Row{Hash: unstored(r.hash), Owner: r.owner, Kind: r.kind, Target: r.target}
	})
	switch {
	case err != nil:
		return nil, PageState{}, err
	case len(rows) == 0:
		return nil, PageState{}, ErrGone
	case len(rows) > LargePage:
		return nil, PageState{}, ErrLargePage
	case rows[0].Owner == "":
		return nil, s, nil
	}
	return inOrder(rows), s, nil
}

// pageQuery returns the query for the state and the rows of a page, with its arguments.
func (d *postgresDatabase) pageQuery(page uint32) (query string, args []any) {
	if page >= DedicatedPages {
		return dedicatedPageSQL, []any{page}
	}
	hashes := d.id.hashes(page)
	return sharedPageSQL, []any{page, stored(hashes.least), stored(hashes.greatest), d.id.LayoutOf(page)}
}

func (d *postgresDatabase) sequence(ctx context.Context, page uint32) (uint64, error) {
	query, args := sharedStateSQL, []any{page, d.id.LayoutOf(page)}
	if page >= DedicatedPages {
		query, args = dedicatedStateSQL, args[:1]
	}
	var sequence uint64
	found, err := collect(ctx, d, statement{query, args, []any{&sequence}}, func() uint64 { return sequence })
	if err == nil && len(found) == 0 {
		err = ErrGone
	}
	return sequence, err
}

func (d *postgresDatabase) lookup(ctx context.Context, wanted []*entry) (rows []Row, err error) {
	for some := range slices.Chunk(wanted, lookupAtOnce) {
		c := columnsOf(some)
		found, err := readRows(ctx, d, lookupRowsSQL, c.hash, c.owner, c.kind, c.target)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// eachRow reads a page with a cursor, in one snapshot. Before the first rows, it retries failures
// that may be temporary. Later it cannot, because it has passed rows on.
func (d *postgresDatabase) eachRow(ctx context.Context, page uint32, each func(rows []Row) error) (s PageState, err error) {
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

func (d *postgresDatabase) fetchPage(ctx context.Context, c *cursor, page uint32) (s PageState, err error) {
	if err := c.exec(ctx, beginSnapshotSQL); err != nil {
		return PageState{}, err
	}
	query, args := d.pageQuery(page)
	if err := c.exec(ctx, declareSQL+query, args...); err != nil {
		return PageState{}, err
	}
	found := false
	for {
		n, err := c.fetch(ctx, &s)
		if found = found || n > 0; err == nil && !found {
			err = ErrGone
		}
		if err != nil {
			return PageState{}, err
		}
		if n < rowsAtOnce {
			return s, c.exec(ctx, `ROLLBACK`)
		}
	}
}

// exec is limited by callTimeout, like every step.
func (c *cursor) exec(ctx context.Context, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.conn.Exec(ctx, sql, args...)
	return err
}

// fetch passes the next rows on, and returns how many the query returned. For a page without
// rows, the query returns one row without an owner. fetch stores the state of the page in s.
func (c *cursor) fetch(ctx context.Context, s *PageState) (n int, err error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := c.conn.Query(limited, fetchSQL, pgx.QueryExecModeDescribeExec)
	if err != nil {
		return 0, err
	}
	var r scanned
	rows := make([]Row, 0, rowsAtOnce)
	_, err = pgx.ForEachRow(found, append([]any{&s.Sequence, &s.Left}, r.all()...), func() error {
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
