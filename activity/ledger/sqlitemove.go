package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

func (d *sqliteDatabase) move(ctx context.Context, m move) (pages []PageChange, err error) {
	err = d.transact(ctx, func(t transaction) error {
		detached := context.WithoutCancel(ctx)
		var h home
		var count int64
		row := t.QueryRowContext(detached, homeSQL, m.shared, stored(m.hash))
		if err := row.Scan(&h.shared, &h.page, &h.own, &h.greatest, &count); err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		var moves bool
		if pages, moves, err = m.decide(h); err != nil || !moves {
			return err
		}
		shared, own := pages[0], pages[1]
		steps := []struct {
			sql  string
			args []any
		}{
			{moveSQL, []any{shared.Page, shared.Sequence, count, 1}},
			{moveSQL, []any{own.Page, own.Sequence, count, 0}}, // 1 more if it was there before
			{removeOwnerSQL, []any{stored(m.hash)}},
		}
		if m.out {
			steps[2].sql, steps[2].args = addOwnerSQL, []any{stored(m.hash), own.Page}
		}
		for _, step := range steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := t.ExecContext(detached, step.sql, step.args...); err != nil {
				return fmt.Errorf("move: %w", err)
			}
		}
		return nil
	})
	return pages, err
}

// place reads where the shared pages of a plan stand, and tells it which of its users have a
// page of their own; where that stands is returned, too.
func (t transaction) place(ctx context.Context, p *plan) (map[uint32]Standing, error) {
	pages := p.pageNumbers()
	standing := make(map[uint32]Standing, len(pages))
	err := query(ctx, t, t.statements.standing, pages, func(page int64) []any {
		return []any{page}
	}, func(rows *sql.Rows) error {
		var page uint32
		var s Standing
		err := rows.Scan(&page, &s.Sequence, &s.Moves)
		standing[page] = s
		return err
	})
	if err != nil {
		return nil, err
	}
	err = query(ctx, t, t.statements.homes, p.mayHaveMoved(standing), func(hash int64) []any {
		return []any{hash}
	}, func(rows *sql.Rows) error {
		var hash int64
		var page uint32
		var s Standing
		err := rows.Scan(&hash, &page, &s.Sequence)
		standing[page] = s
		p.place(hash, page)
		return err
	})
	return standing, err
}

func (d *sqliteDatabase) owners(ctx context.Context, pages []uint32) (owners []Owner, moves map[uint32]uint32, err error) {
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	defer tx.Rollback() // nothing to commit

	if len(pages) == 0 {
		rows, err := tx.QueryContext(ctx, movedSQL)
		if moves, err = scanMoves(rows, err); err != nil {
			return nil, nil, err
		}
		owners, err = d.ownersOf(ctx, tx, hashRange{0, ^uint64(0)})
		return owners, moves, err
	}
	moves = make(map[uint32]uint32)
	for _, page := range pages {
		s, _, err := scanStanding(tx.StmtContext(ctx, d.read.sequence).QueryRowContext(ctx, page))
		if err != nil {
			return nil, nil, err
		}
		if s.Moves == 0 {
			continue
		}
		moves[page] = s.Moves
		some, err := d.ownersOf(ctx, tx, d.id.hashes(page))
		if err != nil {
			return nil, nil, err
		}
		owners = append(owners, some...)
	}
	return owners, moves, nil
}

// ownersOf returns the users of a range of hashes who have pages of their own, in order of
// hash.
func (d *sqliteDatabase) ownersOf(ctx context.Context, tx *sql.Tx, r hashRange) (owners []Owner, err error) {
	rows, err := tx.StmtContext(ctx, d.read.owners).QueryContext(ctx, stored(r.least), stored(r.greatest))
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var hash int64
		var o Owner
		err := rows.Scan(&hash, &o.Page)
		o.Hash = unstored(hash)
		owners = append(owners, o)
		return err
	})
	return owners, err
}

// held are the hashes whose rows a page has that stands there.
func (d *sqliteDatabase) held(ctx context.Context, tx *sql.Tx, page uint32, s Standing) ([]hashRange, error) {
	if page < OwnPages {
		all := d.id.hashes(page)
		if s.Moves == 0 {
			return []hashRange{all}, nil
		}
		owners, err := d.ownersOf(ctx, tx, all)
		hashes := make([]uint64, len(owners))
		for i, o := range owners {
			hashes[i] = o.Hash
		}
		return all.without(hashes), err
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

func scanMoves(rows *sql.Rows, err error) (map[uint32]uint32, error) {
	moves := make(map[uint32]uint32)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var page, n uint32
		err := rows.Scan(&page, &n)
		moves[page] = n
		return err
	})
	return moves, err
}
