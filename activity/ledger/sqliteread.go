package ledger

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sqliteQueries runs statements on a pool of connections, or in a transaction.
type sqliteQueries struct {
	on interface {
		PrepareContext(ctx context.Context, sql string) (*sql.Stmt, error)
	}
	tx       *sql.Tx              // nil: none
	whole    bool                 // statements run to their end, even when ctx ends
	prepared map[string]*sql.Stmt // by SQL; others are prepared for each run
}

// in returns the queries of a transaction of the pool.
func (q sqliteQueries) in(tx *sql.Tx) sqliteQueries {
	q.on, q.tx = tx, tx
	return q
}

// query runs once: no failure is temporary. It runs a statement for columns in batches, until ctx
// ends. The last batch may repeat its last row, which changes nothing: fewer batches are faster.
func (q sqliteQueries) query(ctx context.Context, s statement) error {
	if s.idle() {
		return nil
	}
	s.start()
	if s.columns == nil {
		return s.finish(q.run(ctx, s))
	}
	batch, values, width := s, s.values(), len(s.columns)
	for len(values) > 0 && ctx.Err() == nil {
		size := maxBatch
		for size*width >= 2*len(values) {
			size /= 4
		}
		n := min(size*width, len(values))
		batch.sql = rowsSQL(s.sql, size)
		batch.args = slices.Concat(values[:n], slices.Repeat(values[n-width:n], size-n/width), s.args)
		if err := q.run(ctx, batch); err != nil {
			return err
		}
		values = values[n:]
	}
	return s.finish(ctx.Err())
}

// values returns the values of the columns, row by row.
func (s statement) values() []any {
	n := s.rows()
	all := make([]any, 0, n*len(s.columns))
	for i := range n {
		for _, column := range s.columns {
			switch c := column.(type) {
			case []int64:
				all = append(all, c[i])
			case []string:
				all = append(all, c[i])
			case []*int64: // may end early
				var value *int64
				if i < len(c) {
					value = c[i]
				}
				all = append(all, value)
			}
		}
	}
	return all
}

// run runs SQL with arguments.
func (q sqliteQueries) run(ctx context.Context, s statement) (err error) {
	if q.whole {
		ctx = context.WithoutCancel(ctx)
	}
	stmt, prepared := q.prepared[s.sql]
	if !prepared {
		if stmt, err = q.on.PrepareContext(ctx, s.sql); err != nil {
			return err
		}
		defer stmt.Close() //nolint:errcheck // the error of the run counts
	} else if q.tx != nil {
		stmt = q.tx.StmtContext(ctx, stmt)
	}
	if s.into == nil {
		_, err = stmt.ExecContext(ctx, s.args...)
		return err
	}
	rows, err := stmt.QueryContext(ctx, s.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(s.into...); err != nil {
			return err
		}
		if err := s.take(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// reading runs do in a read-only transaction.
func (d *sqliteDatabase) reading(ctx context.Context, do func(q sqliteQueries) error) error {
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing to commit
	return do(d.reads.in(tx))
}

// keys reads all targets of an owner and kind as one value, to save the cost of a row.
func (d *sqliteDatabase) keys(
	ctx context.Context, page uint32,
) (rows []Row, s PageState, err error) {
	var hash int64
	var owner, kind, targets string
	s, err = d.inPage(ctx, page, func(q sqliteQueries, ranges []hashRange) error {
		if err := q.checkLarge(ctx, ranges); err != nil {
			return err
		}
		return q.each(ctx, ranges, statement{
			sql:  keysSQL,
			into: []any{&hash, &owner, &kind, &targets},
			each: func() error {
				first := len(rows)
				rows = slices.Grow(rows, strings.Count(targets, targetsEnd)+1)
				for target := range strings.SplitSeq(targets, targetsEnd) {
					rows = append(rows, Row{Hash: unstored(hash), Owner: owner, Kind: kind, Target: target})
				}
				inOrder(rows[first:])
				return nil
			},
		})
	})
	return rows, s, err
}

// each runs a query for each range of hashes.
func (q sqliteQueries) each(ctx context.Context, ranges []hashRange, s statement) error {
	for _, in := range ranges {
		s.args = in.args()
		if err := q.query(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// eachRow reads rows one by one, in one transaction.
func (d *sqliteDatabase) eachRow(
	ctx context.Context, page uint32, each func(r Row) error,
) (PageState, error) {
	return d.inPage(ctx, page, func(q sqliteQueries, ranges []hashRange) error {
		var r scanned
		return q.each(ctx, ranges, statement{sql: snapshotSQL, into: r.all(), each: func() error {
			return each(r.row())
		}})
	})
}

// checkLarge returns ErrLargePage if the ranges of hashes have more than LargePage rows.
func (q sqliteQueries) checkLarge(ctx context.Context, ranges []hashRange) error {
	most := int64(LargePage + 1)
	for _, in := range ranges {
		n, err := readNumber(ctx, q, countRangeSQL, append(in.args(), most)...)
		if err != nil {
			return err
		}
		if most -= n; most <= 0 {
			return ErrLargePage
		}
	}
	return nil
}

// inPage runs do in a read-only transaction, with the ranges of hashes of a page, and returns
// the state of the page.
func (d *sqliteDatabase) inPage(
	ctx context.Context, page uint32, do func(q sqliteQueries, ranges []hashRange) error,
) (s PageState, err error) {
	err = d.reading(ctx, func(q sqliteQueries) error {
		if s, err = readState(ctx, q, d.id, page); err != nil {
			return err
		}
		query, args := ownerRangeSQL, []any{page}
		if page < DedicatedPages {
			query, args = rangesSQL, d.id.hashes(page).args()
		}
		var least, greatest int64
		read := statement{sql: query, args: args, into: []any{&least, &greatest}}
		ranges, err := collect(ctx, q, read, func() hashRange {
			return hashRange{unstored(least), unstored(greatest)}
		})
		if err != nil {
			return err
		}
		return do(q, ranges)
	})
	return s, err
}

// changed uses the numbers of transactions, which commit in the order of their numbers. It reads
// Next first: the number of the first transaction that the snapshot cannot see.
func (d *sqliteDatabase) changed(
	ctx context.Context, since Cursor, each func(page uint32, s PageState) error,
) (p Progress, err error) {
	err = d.reading(ctx, func(q sqliteQueries) error {
		next, err := readNumber(ctx, q, progressSQL)
		if err != nil {
			return err
		}
		now := time.Now()
		p = Progress{Next: Cursor(strconv.FormatInt(next, 10)), Clock: now, At: now}
		first := since.count(next)
		if p.Layouts, err = readLayouts(ctx, q); err != nil {
			return err
		}
		if err := q.query(ctx, sourcesQuery(&p.Sources)); err != nil {
			return err
		}
		var hash int64
		var page uint32
		var s PageState
		p.Owners = make(map[uint64]uint32)
		owners := statement{
			sql:  newOwnersSQL,
			args: []any{first},
			into: []any{&hash, &page},
			each: func() error {
				p.Owners[unstored(hash)] = page
				return nil
			},
		}
		if err := q.query(ctx, owners); err != nil {
			return err
		}
		return q.query(ctx, statement{
			sql: changedSQL, args: []any{first}, into: []any{&page, &s.Sequence, &s.Left},
			each: func() error { return each(page, s) },
		})
	})
	return p, err
}

// count returns the number of the transaction to continue from. next is the number of the next
// transaction. If the ledger was set back, count returns 0, the beginning.
func (c Cursor) count(next int64) int64 {
	first, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil || first > next {
		return 0
	}
	return first
}
