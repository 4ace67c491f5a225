package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"
)

func (d *sqliteDatabase) cut(ctx context.Context) (c Cut, err error) {
	var asked string
	var reshaped, done int
	if err := d.readers.QueryRowContext(ctx, cutSQL, d.id.Pages).Scan(&asked, &reshaped, &done); err != nil {
		return Cut{}, err
	}
	return d.id.parseCut(asked, reshaped, done)
}

func (d *sqliteDatabase) setCut(ctx context.Context, pages uint32) error {
	return d.transact(ctx, func(t transaction) error {
		_, err := t.ExecContext(context.WithoutCancel(ctx), setMetaSQL, cutName, strconv.FormatUint(uint64(pages), 10))
		return err
	})
}

func (d *sqliteDatabase) shape(ctx context.Context, s span) (shape, error) {
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return shape{}, err
	}
	defer tx.Rollback() // nothing to commit
	return d.shapeOf(ctx, tx, s)
}

// shapeOf reads how a span is placed. There is one process, which knows when: nobody asks for times.
func (d *sqliteDatabase) shapeOf(ctx context.Context, tx *sql.Tx, s span) (found shape, err error) {
	ranges, err := rangesOf(ctx, tx, d.id.hashesOf(s))
	if err != nil {
		return shape{}, err
	}
	for _, r := range ranges {
		found.rows = append(found.rows, r.cell)
	}
	found.cut = make(map[uint32]uint32)
	rows, err := tx.QueryContext(ctx, homesSQL, s.first, s.last)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var home, pages uint32
		var at int64
		err := rows.Scan(&home, &pages, &at)
		found.cut[home] = pages
		return err
	})
	return found, err
}

// rangesOf reads the rows of ranges that begin in a range of hashes, in order.
func rangesOf(ctx context.Context, tx *sql.Tx, r hashRange) (ranges []rangeRow, err error) {
	rows, err := tx.QueryContext(ctx, rangesSQL, stored(r.least), stored(r.greatest))
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var r rangeRow
		var least, slot int64
		err := rows.Scan(&least, &r.page, &r.left, &slot, &r.moves)
		r.least, r.slot = unstored(least), unstored(slot)
		ranges = append(ranges, r)
		return err
	})
	return ranges, err
}

func (d *sqliteDatabase) reserve(ctx context.Context, n int) (first uint32, err error) {
	err = d.transact(ctx, func(t transaction) error {
		detached := context.WithoutCancel(ctx)
		var greatest uint32
		var count int64
		if err := t.QueryRowContext(detached, greatestSQL).Scan(&greatest, &count); err != nil {
			return err
		}
		var last uint32
		if first, last, err = numbersAfter(greatest, n); err != nil {
			return err
		}
		_, err := t.ExecContext(detached, setMetaSQL, numbersName, strconv.FormatUint(uint64(last), 10))
		return err
	})
	return first, err
}

func (d *sqliteDatabase) reshape(ctx context.Context, p *ReshapePlan) (pages []PageChange, err error) {
	err = d.transact(ctx, func(t transaction) error {
		detached := context.WithoutCancel(ctx)
		var asked string
		if err := t.QueryRowContext(detached, askedSQL).Scan(&asked); err != nil {
			return fmt.Errorf("look up the number of pages: %w", err)
		}
		if err := p.checkAsked(asked); err != nil {
			return err
		}
		s, err := d.shapeOf(detached, t.Tx, p.span())
		if err != nil {
			return fmt.Errorf("look up homes: %w", err)
		}
		if err := p.check(d.id, s); err != nil {
			return err
		}
		standing := make(map[uint32]footing)
		if err := t.standing(ctx, p.touchedNumbers(d.id), standing); err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		there, made, err := p.raised(d.id, standing)
		if err != nil {
			return err
		}
		pages = slices.Concat(there, made)
		return t.reshape(ctx, d.id, p, there, made)
	})
	return pages, err
}

// reshape writes what a plan comes to.
func (t transaction) reshape(ctx context.Context, id Identity, p *ReshapePlan, there, made []PageChange) error {
	detached := context.WithoutCancel(ctx)
	var greatest, count int64
	if err := t.QueryRowContext(detached, greatestSQL).Scan(&greatest, &count); err != nil {
		return err
	}
	hashes := id.hashesOf(p.span())
	steps := []step{{removeRangesSQL, []any{stored(hashes.least), stored(hashes.greatest)}}}
	for _, c := range id.rows(p.after) {
		steps = append(steps, step{addRangeSQL, []any{stored(c.least), c.page, c.left}})
	}
	for _, page := range there {
		steps = append(steps, step{moveSQL, []any{page.Page, page.Sequence, count}})
	}
	for _, page := range made {
		steps = append(steps, step{makeSQL, []any{page.Page, page.Sequence, count, stored(page.Owner)}})
	}
	now := time.Now().UnixMicro()
	for _, home := range p.Homes {
		steps = append(steps, step{setHomeSQL, []any{home, p.Pages, now}})
	}
	prepared := make(map[string]*sql.Stmt) // closed with the transaction
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		stmt := prepared[s.sql]
		if stmt == nil {
			var err error
			if stmt, err = t.PrepareContext(detached, s.sql); err != nil {
				return err
			}
			prepared[s.sql] = stmt
		}
		if _, err := stmt.ExecContext(detached, s.args...); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// held are the hashes whose rows a page has that stands there.
func (d *sqliteDatabase) held(ctx context.Context, tx *sql.Tx, page uint32, s Standing) ([]hashRange, error) {
	if page < OwnPages && s.Moves == 0 {
		return []hashRange{d.id.hashes(page)}, nil
	}
	shared, found, err := d.rangeOf(ctx, tx, page)
	if err != nil {
		return nil, err
	}
	if found {
		owners, err := d.ownersOf(ctx, tx, shared)
		hashes := make([]uint64, len(owners))
		for i, o := range owners {
			hashes[i] = o.Hash
		}
		return shared.without(hashes), err
	}
	var held []hashRange
	rows, err := tx.QueryContext(ctx, ownerSQL, page)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var hash int64
		err := rows.Scan(&hash)
		held = append(held, hashRange{unstored(hash), unstored(hash)})
		return err
	})
	return held, err
}

// rangeOf are the hashes of users who share the page.
func (d *sqliteDatabase) rangeOf(ctx context.Context, tx *sql.Tx, page uint32) (r hashRange, found bool, err error) {
	var next *int64
	if page < OwnPages {
		r = d.id.hashes(page)
		rows, err := tx.QueryContext(ctx, otherSQL, stored(r.least), stored(r.greatest), page)
		err = eachRow(rows, err, func(rows *sql.Rows) error { return rows.Scan(&next) })
		if err != nil || next == nil {
			return r, true, err
		}
		r.greatest = unstored(*next) - 1
		return r, unstored(*next) > r.least, nil
	}
	var least, last *int64
	err = tx.QueryRowContext(ctx, rangeSQL, page).Scan(&least, &last)
	if err != nil || least == nil {
		return r, false, err
	}
	r = hashRange{unstored(*least), d.id.hashes(d.id.Page(unstored(*last))).greatest}
	err = tx.QueryRowContext(ctx, behindSQL, *last, stored(r.greatest)).Scan(&next)
	if err == nil && next != nil {
		r.greatest = unstored(*next) - 1
	}
	return r, true, err
}
