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
	return d.attempt(ctx, d.pool, d.callTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		return postgresSession{conn}.query(ctx, s)
	})
}

// keys reads a page in one statement. For a page without rows the query returns one row without an
// owner.
func (d *postgresDatabase) keys(ctx context.Context, page uint32) ([]Row, PageState, error) {
	var s PageState
	var r scanned
	query, args := d.pageQuery(page)
	read := statement{
		sql:  query + atMostSQL,
		args: args,
		into: append([]any{&s.Sequence, &s.Left}, r.all()...),
	}
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
	least, greatest := stored(hashes.least), stored(hashes.greatest)
	return sharedPageSQL, []any{page, least, greatest, d.id.LayoutOf(page)}
}

// eachRow reads a page in one statement, and so in one snapshot. Before the first row, it retries
// failures that may be temporary. Later it cannot, because it has passed rows on.
func (d *postgresDatabase) eachRow(
	ctx context.Context, page uint32, each func(r Row) error,
) (s PageState, err error) {
	query, args := d.pageQuery(page)
	var failed error
	err = d.stream(ctx, d.pool, func(ctx context.Context, conn *pgx.Conn, progress func()) error {
		var r scanned
		gone, passed := ErrGone, false
		read := statement{
			sql:  query,
			args: args,
			into: append([]any{&s.Sequence, &s.Left}, r.all()...),
			each: func() error {
				if gone = nil; r.owner == "" { // a page without rows
					return nil
				}
				passed = true
				progress()
				return each(r.row())
			},
		}
		err := send(ctx, conn, statement{sql: beginSnapshotSQL}, statement{sql: unlimitedSQL},
			read, statement{sql: `ROLLBACK`})
		if err != nil && passed {
			failed = err
			rollBack(ctx, conn)
			return nil
		}
		return cmp.Or(err, gone)
	})
	return s, cmp.Or(err, failed)
}
