package ledger

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// postgresSession runs queries on a connection, once.
type postgresSession struct{ conn *pgx.Conn }

func (p postgresSession) query(ctx context.Context, s statement) error {
	if s.into == nil {
		_, err := p.conn.Exec(ctx, s.sql, s.args...)
		return err
	}
	rows, err := p.conn.Query(ctx, s.sql, slices.Concat(s.columns, s.args)...)
	if err != nil {
		return err
	}
	return s.scan(rows)
}

// scan scans the rows of a result.
func (s statement) scan(rows pgx.Rows) error {
	s.start()
	_, err := pgx.ForEachRow(rows, s.into, s.take)
	return s.finish(err)
}

// send runs statements in one round trip.
func send(ctx context.Context, conn *pgx.Conn, all ...statement) error {
	b := &pgx.Batch{}
	for _, s := range all {
		if s.idle() {
			continue
		}
		if queued := b.Queue(s.sql, slices.Concat(s.columns, s.args)...); s.into != nil {
			queued.Query(s.scan)
		}
	}
	return conn.SendBatch(ctx, b).Close()
}

func (d *postgresDatabase) query(ctx context.Context, s statement) error {
	return d.attempt(ctx, d.pool, callTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		return postgresSession{conn}.query(ctx, s)
	})
}

// keys reads a page in one statement. For a page without rows the query returns one row without an
// owner.
func (d *postgresDatabase) keys(ctx context.Context, page uint32) ([]Row, PageState, error) {
	var s PageState
	var r scanned
	query, args := d.pageQuery(page)
	read := statement{sql: query + atMostSQL, args: args, into: append([]any{&s.Sequence, &s.Left}, r.all()...)}
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

// eachRow reads a page with a cursor, in one snapshot. Before the first rows, it retries failures
// that may be temporary. Later it cannot, because it has passed rows on.
func (d *postgresDatabase) eachRow(ctx context.Context, page uint32, each func(rows []Row) error) (s PageState, err error) {
	var failed error
	err = d.attempt(ctx, d.pool, 0, func(ctx context.Context, conn *pgx.Conn) (err error) {
		passed := false
		s, err = d.fetchPage(ctx, conn, page, func(rows []Row) error {
			passed = true
			return each(rows)
		})
		if err != nil && passed {
			failed = err
			rollBack(ctx, conn)
			return nil
		}
		return err
	})
	return s, cmp.Or(err, failed)
}

// fetchPage reads a page in a transaction of its own. callTimeout limits each step. For a page
// without rows, the query returns one row without an owner.
func (d *postgresDatabase) fetchPage(
	ctx context.Context, conn *pgx.Conn, page uint32, each func(rows []Row) error,
) (s PageState, err error) {
	step := func(st statement) error {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return postgresSession{conn}.query(limited, st)
	}
	query, args := d.pageQuery(page)
	for _, st := range []statement{{sql: beginSnapshotSQL}, {sql: declareSQL + query, args: args}} {
		if err := step(st); err != nil {
			return PageState{}, err
		}
	}
	for first := true; ; first = false {
		n := 0
		var r scanned
		rows := make([]Row, 0, rowsAtOnce)
		err := step(statement{
			sql: fetchSQL, args: []any{pgx.QueryExecModeDescribeExec}, into: append([]any{&s.Sequence, &s.Left}, r.all()...),
			each: func() error {
				n++
				if r.owner != "" {
					rows = append(rows, r.row())
				}
				return nil
			},
		})
		if err == nil && first && n == 0 {
			err = ErrGone
		}
		if err == nil && len(rows) > 0 {
			err = each(rows)
		}
		if err != nil {
			return PageState{}, err
		}
		if n < rowsAtOnce {
			return s, step(statement{sql: `ROLLBACK`})
		}
	}
}
