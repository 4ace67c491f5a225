package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

func (d *sqliteDatabase) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = d.transact(ctx, func(t transaction) error {
		detached := context.WithoutCancel(ctx)
		s, count, err := t.moveState(ctx, d.id, m)
		if err != nil {
			return fmt.Errorf("look up pages: %w", err)
		}
		o, err := m.decide(s)
		if receipt = o.receipt; err != nil || len(o.raised) == 0 {
			return err
		}
		steps := []step{{removeOwnerSQL, []any{stored(m.hash)}}}
		if m.out {
			steps = []step{
				{addOwnerSQL, []any{stored(m.hash), o.own.Page}},
				{makeSQL, []any{o.own.Page, o.own.Sequence, count, nil}},
			}
		}
		for _, p := range o.raised {
			steps = append(steps, step{moveSQL, []any{p.Page, p.Sequence, count}})
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
	return receipt, err
}

// step is a statement with its arguments.
type step struct {
	sql  string
	args []any
}

// moveState reads what a move has to know, and the count of its transaction.
func (t transaction) moveState(ctx context.Context, id Identity, m move) (s moveState, count int64, err error) {
	p := &plan{id: id}
	if err := t.whereabouts(ctx, p, []uint64{m.hash}); err != nil {
		return s, 0, err
	}
	s.whereabouts = whereabouts{page: m.home, left: m.home}
	if w, moved := p.placed[m.hash]; moved {
		s.whereabouts = w
	}
	s.standing = make(map[uint32]footing)
	pages, _ := p.otherPages()
	if err := t.standing(ctx, append(pages, int64(m.home)), s.standing); err != nil {
		return s, 0, err
	}
	err = t.QueryRowContext(context.WithoutCancel(ctx), greatestSQL).Scan(&s.greatest, &count)
	return s, count, err
}

// place reads where the home pages of a plan stand, and tells it where its users are who were moved; where those
// pages stand is returned, too.
func (t transaction) place(ctx context.Context, p *plan) (map[uint32]footing, error) {
	homes := p.pageNumbers()
	standing := make(map[uint32]footing, len(homes))
	if err := t.standing(ctx, homes, standing); err != nil {
		return nil, err
	}
	hashes := p.mayHaveMoved(standing)
	if len(hashes) == 0 {
		return standing, nil
	}
	if err := t.whereabouts(ctx, p, hashes); err != nil {
		return nil, err
	}
	pages, owners := p.otherPages()
	err := t.standing(ctx, pages, standing)
	for page, hash := range owners {
		standing[page] = footing{standing[page].Standing, hash}
	}
	return standing, err
}

// standing reads where pages stand.
func (t transaction) standing(ctx context.Context, pages []int64, standing map[uint32]footing) error {
	return query(ctx, t, t.statements.standing, pages, func(page int64) []any {
		return []any{page}
	}, func(rows *sql.Rows) error {
		var page uint32
		var least int64
		var s Standing
		err := rows.Scan(&page, &s.Sequence, &s.Moves, &least)
		standing[page] = newFooting(page, s, least)
		return err
	})
}

// whereabouts tells the plan which pages have to do with users.
func (t transaction) whereabouts(ctx context.Context, p *plan, hashes []uint64) error {
	return query(ctx, t, t.statements.whereabouts, hashes, func(hash uint64) []any {
		return []any{stored(hash), stored(p.id.hashes(p.id.Page(hash)).least)}
	}, func(rows *sql.Rows) error {
		var hash int64
		var own uint32
		var page, left *uint32
		err := rows.Scan(&hash, &own, &page, &left)
		p.placeAs(hash, own, page, left)
		return err
	})
}

// placements reads all in one transaction.
func (d *sqliteDatabase) placements(ctx context.Context, homes []uint32) (*placements, error) {
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // nothing to commit

	found := &placements{}
	if len(homes) == 0 {
		rows, err := tx.QueryContext(ctx, movedSQL)
		if found.moves, err = scanMoves(rows, err); err != nil {
			return nil, err
		}
		return found, d.addPlacements(ctx, tx, found, hashRange{0, ^uint64(0)})
	}
	found.moves = make(map[uint32]uint32)
	for _, home := range homes {
		s, _, err := scanStanding(tx.StmtContext(ctx, d.read.sequence).QueryRowContext(ctx, home))
		if err != nil {
			return nil, err
		}
		if s.Moves == 0 {
			continue
		}
		found.moves[home] = s.Moves
		if err := d.addPlacements(ctx, tx, found, d.id.hashes(home)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// addPlacements reads where users of a range of hashes are.
func (d *sqliteDatabase) addPlacements(ctx context.Context, tx *sql.Tx, found *placements, r hashRange) error {
	owners, err := d.ownersOf(ctx, tx, r)
	if err != nil {
		return err
	}
	found.owners = append(found.owners, owners...)
	ranges, err := rangesOf(ctx, tx, r)
	found.ranges = append(found.ranges, ranges...)
	return err
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
