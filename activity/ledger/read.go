package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// sequencesAtOnce is how many pages Sequences reads in one go.
const sequencesAtOnce = 1024

// Snapshot returns all rows of a page, in order of hash, owner, kind, target,
// and the sequence that they belong to, 0 if the page never changed: both as
// they stand after one and the same Record. A page that the ledger does not
// have is an error.
func (l *Ledger) Snapshot(ctx context.Context, page uint32) (rows []Row, sequence uint64, err error) {
	if err = l.checkPage(page); err == nil {
		err = l.use(func() error {
			rows, sequence, err = l.snapshot(ctx, page)
			return err
		})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("ledger: read page %d: %w", page, ended(ctx, err))
	}
	return rows, sequence, nil
}

func (l *Ledger) snapshot(ctx context.Context, page uint32) ([]Row, uint64, error) {
	tx, err := l.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	defer tx.Rollback() // nothing to commit

	sequence, err := scanSequence(tx.StmtContext(ctx, l.read.sequence).QueryRowContext(ctx, page))
	if err != nil {
		return nil, 0, err
	}
	least, greatest := l.id.hashes(page)
	found, err := tx.StmtContext(ctx, l.read.snapshot).QueryContext(ctx, stored(least), stored(greatest))
	var rows []Row
	err = eachRow(found, err, func(found *sql.Rows) error {
		r, err := scanRow(found)
		rows = append(rows, r)
		return err
	})
	return rows, sequence, err
}

// Sequence returns where a page has to stand, 0 if it never changed.
func (l *Ledger) Sequence(ctx context.Context, page uint32) (sequence uint64, err error) {
	if err = l.checkPage(page); err == nil {
		err = l.use(func() error {
			sequence, err = scanSequence(l.read.sequence.QueryRowContext(ctx, page))
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("ledger: read sequence of page %d: %w", page, ended(ctx, err))
	}
	return sequence, nil
}

// Sequences calls each for every page that was ever changed, in ascending
// order, with the sequence it stood at some time during the call. No
// transaction is open meanwhile: each may take its time and use the ledger.
// An error of each ends the call and is returned as it is.
func (l *Ledger) Sequences(ctx context.Context, each func(page uint32, sequence uint64) error) error {
	type standing struct {
		page     uint32
		sequence uint64
	}
	for after := int64(-1); ; {
		var some []standing
		err := l.use(func() error {
			rows, err := l.read.sequences.QueryContext(ctx, after, sequencesAtOnce)
			return eachRow(rows, err, func(rows *sql.Rows) error {
				var s standing
				err := rows.Scan(&s.page, &s.sequence)
				some = append(some, s)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("ledger: read sequences: %w", ended(ctx, err))
		}
		for _, s := range some {
			if err := each(s.page, s.sequence); err != nil {
				return err
			}
		}
		if len(some) < sequencesAtOnce {
			return nil
		}
		after = int64(some[len(some)-1].page)
	}
}

// ListQuery asks for rows of one owner and kind.
type ListQuery struct {
	Hash        uint64 // the owner's, as recorded
	Owner, Kind string
	Limit       int       // the most rows to return, at least 1
	Before      *Position // nil: from the newest on
}

// Position is a row's place in a list: the list goes on with what comes after
// it, the row itself excluded. The row need not exist any more.
type Position struct {
	Since  time.Time
	Target string
}

// List returns the newest rows first; rows of the same microsecond are in
// ascending order of target, byte by byte. The time it takes depends on
// Limit, not on how many rows the owner has or how many share a time. Listing
// on from the last row's Position returns every row once that is there
// throughout.
func (l *Ledger) List(ctx context.Context, q ListQuery) (rows []Row, err error) {
	if err = q.validate(); err == nil {
		err = l.use(func() error {
			rows, err = l.list(ctx, q)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: list %q: %w", q.Kind, ended(ctx, err))
	}
	return rows, nil
}

func (q ListQuery) validate() error {
	if q.Limit < 1 {
		return fmt.Errorf("limit: %d is less than 1", q.Limit)
	}
	if err := validateID("owner", q.Owner); err != nil {
		return err
	}
	return validateID("kind", q.Kind)
}

func (l *Ledger) list(ctx context.Context, q ListQuery) ([]Row, error) {
	stmt, args := l.read.listNewest, []any{stored(q.Hash), q.Owner, q.Kind, q.Limit}
	if q.Before != nil {
		stmt, args = l.read.listBefore, append(args, q.Before.Since.UnixMicro(), q.Before.Target)
	}
	var list []Row
	rows, err := stmt.QueryContext(ctx, args...)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		r := Row{Hash: q.Hash, Owner: q.Owner, Kind: q.Kind}
		var since int64
		err := rows.Scan(&r.Target, &since)
		r.Since = time.UnixMicro(since).UTC()
		list = append(list, r)
		return err
	})
	return list, err
}

// eachRow calls do for each of the rows that a query returned with err, and
// closes them.
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

// scanRow reads the columns hash, owner, kind, target, since.
func scanRow(rows *sql.Rows) (Row, error) {
	var r Row
	var hash, since int64
	err := rows.Scan(&hash, &r.Owner, &r.Kind, &r.Target, &since)
	r.Hash, r.Since = unstored(hash), time.UnixMicro(since).UTC()
	return r, err
}

func scanSequence(row *sql.Row) (uint64, error) {
	var sequence uint64
	err := row.Scan(&sequence)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return sequence, err
}

// stored is a hash as the ledger stores it: SQL integers are signed, and with
// the top bit flipped they sort as the unsigned hashes do.
func stored(hash uint64) int64 { return int64(hash ^ 1<<63) }

func unstored(hash int64) uint64 { return uint64(hash) ^ 1<<63 }
