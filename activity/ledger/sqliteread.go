package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
)

func (d *sqliteDatabase) snapshot(ctx context.Context, page uint32) (rows []Row, s PageState, err error) {
	s, err = d.inPage(ctx, page, func(tx *sql.Tx, held []hashRange) error {
		rows, err = d.heldRows(ctx, tx, held, d.read.snapshot, scanRows)
		return err
	})
	return rows, s, err
}

// keys reads all targets of an owner and kind as one value, to save the cost of a row.
func (d *sqliteDatabase) keys(ctx context.Context, page uint32) (rows []Row, s PageState, err error) {
	s, err = d.inPage(ctx, page, func(tx *sql.Tx, held []hashRange) error {
		if err := d.checkLarge(ctx, tx, held); err != nil {
			return err
		}
		rows, err = d.heldRows(ctx, tx, held, d.read.keys, scanGroups)
		if failed, ok := errors.AsType[*sqlite.Error](err); ok && failed.Code() == tooBig {
			rows, err = d.heldRows(ctx, tx, held, d.read.snapshot, scanRows)
			rows = withoutTimes(rows)
		}
		return err
	})
	return rows, s, err
}

// tooBig is the code of SQLite's error for a value of more than a billion bytes.
const tooBig = 18

// eachRow reads rows one by one, in one transaction.
func (d *sqliteDatabase) eachRow(ctx context.Context, page uint32, each func(rows []Row) error) (PageState, error) {
	return d.inPage(ctx, page, func(tx *sql.Tx, held []hashRange) error {
		c := chunks{rows: make([]Row, 0, rowsAtOnce), each: each}
		var r scanned
		into := r.all()
		for _, in := range held {
			rows, err := tx.StmtContext(ctx, d.read.snapshot).QueryContext(ctx, stored(in.least), stored(in.greatest))
			err = eachRow(rows, err, func(rows *sql.Rows) error {
				if err := rows.Scan(into...); err != nil {
					return err
				}
				return c.add(r.row())
			})
			if err != nil {
				return err
			}
		}
		return c.flush()
	})
}

// checkLarge returns ErrLargePage if the ranges of hashes have more than LargePage rows.
func (d *sqliteDatabase) checkLarge(ctx context.Context, tx *sql.Tx, held []hashRange) error {
	count := tx.StmtContext(ctx, d.read.countRange)
	most := LargePage + 1
	for _, in := range held {
		var n int
		if err := count.QueryRowContext(ctx, stored(in.least), stored(in.greatest), most).Scan(&n); err != nil {
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
	ctx context.Context, page uint32, do func(tx *sql.Tx, held []hashRange) error,
) (s PageState, err error) {
	err = d.reading(ctx, func(tx *sql.Tx) error {
		var held []hashRange
		if s, held, err = d.held(ctx, tx, page); err != nil {
			return err
		}
		return do(tx, held)
	})
	if err != nil {
		return PageState{}, err
	}
	return s, nil
}

// heldRows reads the rows of ranges of hashes.
func (d *sqliteDatabase) heldRows(
	ctx context.Context, tx *sql.Tx, held []hashRange, stmt *sql.Stmt, scan func(*sql.Rows, error) ([]Row, error),
) (rows []Row, _ error) {
	for _, r := range held {
		//nolint:rowserrcheck // scan does
		found, err := tx.StmtContext(ctx, stmt).QueryContext(ctx, stored(r.least), stored(r.greatest))
		some, err := scan(found, err)
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	return rows, nil
}

func (d *sqliteDatabase) sequence(ctx context.Context, page uint32) (sequence uint64, err error) {
	err = d.reading(ctx, func(tx *sql.Tx) error {
		s, _, err := d.held(ctx, tx, page)
		sequence = s.Sequence
		return err
	})
	return sequence, err
}

// readPageState reads the state of a page.
func (d *sqliteDatabase) readPageState(ctx context.Context, tx *sql.Tx, page uint32) (s PageState, err error) {
	err = tx.StmtContext(ctx, d.read.sequence).QueryRowContext(ctx, page).Scan(&s.Sequence, &s.Left)
	if errors.Is(err, sql.ErrNoRows) {
		return PageState{}, nil
	}
	return s, err
}

func sqliteCursor(next int64) Cursor { return Cursor(strconv.FormatInt(next, 10)) }

// count returns the number of the transaction to continue from. next is the number of the next
// transaction. If the ledger was set back, count returns 0, the beginning.
func (c Cursor) count(next int64) int64 {
	first, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil || first > next {
		return 0
	}
	return first
}

func (d *sqliteDatabase) ended(ctx context.Context, now time.Time, limit int) ([]Row, error) {
	rows, err := d.read.ended.QueryContext(ctx, now.UnixMicro(), limit)
	return scanRows(rows, err)
}

func (d *sqliteDatabase) list(ctx context.Context, q ListQuery) ([]Row, error) {
	stmt, args := d.read.listNewest, []any{stored(q.Hash), q.Owner, q.Kind, q.Now.UnixMicro(), q.Limit}
	if q.Before != nil {
		stmt, args = d.read.listBefore, append(args, q.Before.Since.UnixMicro(), q.Before.Target)
	}
	var list []Row
	rows, err := stmt.QueryContext(ctx, args...)
	r := scanned{hash: stored(q.Hash), owner: q.Owner, kind: q.Kind}
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		err := rows.Scan(&r.target, &r.since, &r.until)
		list = append(list, r.row())
		return err
	})
	return list, err
}

func (d *sqliteDatabase) lookup(ctx context.Context, wanted []*entry) (rows []Row, err error) {
	err = inBatches(ctx, wanted, (*entry).args, func(n int, args []any) error {
		found, err := d.read.lookup[n].QueryContext(ctx, args...)
		some, err := scanRows(found, err)
		rows = append(rows, some...)
		return err
	})
	return rows, err
}

func (d *sqliteDatabase) count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (n int, err error) {
	err = d.read.count.QueryRowContext(ctx, stored(hash), owner, kind, now.UnixMicro()).Scan(&n)
	return n, err
}

func (d *sqliteDatabase) counts(ctx context.Context, hash uint64, owner string, now time.Time) (map[string]int, error) {
	counts := make(map[string]int)
	rows, err := d.read.counts.QueryContext(ctx, stored(hash), owner, now.UnixMicro())
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var kind string
		var n int
		err := rows.Scan(&kind, &n)
		counts[kind] = n
		return err
	})
	return counts, err
}

func (d *sqliteDatabase) owned(ctx context.Context, hash uint64, owner string, after Item, limit int) ([]Row, error) {
	rows, err := d.read.owned.QueryContext(ctx, stored(hash), owner, after.Kind, after.Target, limit)
	return scanRows(rows, err)
}

func (d *sqliteDatabase) all(ctx context.Context, after key, limit int) ([]Row, error) {
	rows, err := d.read.all.QueryContext(ctx, stored(after.hash), after.owner, after.kind, after.target, limit)
	return scanRows(rows, err)
}

func (d *sqliteDatabase) naming(ctx context.Context, targetHash uint64, target string, limit int) ([]Row, error) {
	rows, err := d.read.naming.QueryContext(ctx, stored(targetHash), target, limit)
	return scanRows(rows, err)
}

func (d *sqliteDatabase) checkpoint(ctx context.Context, id string) (value string, found bool, err error) {
	err = d.read.checkpoint.QueryRowContext(ctx, id).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return value, err == nil, err
}

func (d *sqliteDatabase) ping(ctx context.Context) error {
	var pages string
	return d.read.pages.QueryRowContext(ctx).Scan(&pages)
}

// eachRow calls do for each row of a query, and closes the rows. err is the error of the query.
func eachRow(rows *sql.Rows, err error, do func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scanRows reads rows of the columns hash, owner, kind, target, since, until.
func scanRows(found *sql.Rows, err error) (rows []Row, _ error) {
	var r scanned
	into := r.all()
	err = eachRow(found, err, func(found *sql.Rows) error {
		err := found.Scan(into...)
		rows = append(rows, r.row())
		return err
	})
	return rows, err
}

// scanGroups reads rows of the columns hash, owner, kind and targets.
func scanGroups(found *sql.Rows, err error) (rows []Row, _ error) {
	err = eachRow(found, err, func(found *sql.Rows) error {
		var hash int64
		var owner, kind, targets string
		if err := found.Scan(&hash, &owner, &kind, &targets); err != nil {
			return err
		}
		first := len(rows)
		rows = slices.Grow(rows, strings.Count(targets, targetsEnd)+1)
		for target := range strings.SplitSeq(targets, targetsEnd) {
			rows = append(rows, Row{Hash: unstored(hash), Owner: owner, Kind: kind, Target: target})
		}
		// The table returns them in this order, but does not guarantee it.
		order := func(a, b Row) int { return cmp.Compare(a.Target, b.Target) }
		if group := rows[first:]; !slices.IsSortedFunc(group, order) {
			slices.SortFunc(group, order)
		}
		return nil
	})
	return rows, err
}
