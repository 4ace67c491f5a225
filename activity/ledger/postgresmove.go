package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// move locks the home page first, as every writer does who has to do with its
// users, and then the others.
func (d *postgresDatabase) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		s, err := d.lockMove(limited, conn, m)
		if err != nil {
			return nil, fmt.Errorf("look up pages: %w", err)
		}
		o, err := m.decide(s)
		if err != nil {
			return nil, err
		}
		receipt = o.receipt
		b := &pgx.Batch{}
		if len(o.raised) == 0 {
			return b, nil
		}
		b.Queue(movePagesSQL, numbers(o.raised))
		if m.out {
			b.Queue(newPageSQL, o.own.Page, int64(o.own.Sequence))
			b.Queue(putOwnerSQL, stored(m.hash), o.own.Page)
		} else {
			b.Queue(deleteOwnerSQL, stored(m.hash))
		}
		return b, nil
	})
	if err != nil {
		return Receipt{}, err
	}
	return receipt, nil
}

// numbers are those of pages, for an array.
func numbers(pages []PageChange) []int64 {
	all := make([]int64, len(pages))
	for i, p := range pages {
		all[i] = int64(p.Page)
	}
	return all
}

// lockMove begins a transaction, locks the user's pages against other writers, and the
// numbers of pages against others who give them out.
func (d *postgresDatabase) lockMove(ctx context.Context, conn *pgx.Conn, m move) (s moveState, err error) {
	p := &plan{id: d.id}
	home := []int64{int64(m.home)}
	s.standing = make(map[uint32]footing)
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(createPagesSQL, home)
	b.Queue(lockPagesSQL, home).Query(scanFootings(s.standing))
	d.queueIncarnation(b)
	p.queuePlaced(b, []uint64{m.hash}, s.standing)
	b.Queue(lockNumbersSQL)
	b.Queue(greatestPageSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&s.greatest) })
	err = conn.SendBatch(ctx, b).Close()
	s.whereabouts = whereabouts{page: m.home, left: m.home}
	if w, moved := p.placed[m.hash]; moved {
		s.whereabouts = w
	}
	return s, err
}

// queueIncarnation has a transaction make sure whose ledger it is in.
func (d *postgresDatabase) queueIncarnation(b *pgx.Batch) {
	b.Queue(incarnationSQL).QueryRow(func(row pgx.Row) error {
		var value string
		if err := row.Scan(&value); err != nil {
			return err
		}
		return d.checkRead(&value)
	})
}

// lockPlaced tells the plan, whose home pages are locked, where its users are who were moved, and
// locks those pages, too. It is a round trip where anybody was ever moved.
func (p *plan) lockPlaced(ctx context.Context, conn *pgx.Conn, standing map[uint32]footing) error {
	hashes := p.mayHaveMoved(standing)
	if len(hashes) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	p.queuePlaced(b, hashes, standing)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	_, owners := p.otherPages()
	for page, hash := range owners {
		standing[page] = footing{standing[page].Standing, hash}
	}
	return nil
}

// queuePlaced has the plan told where users are, and those pages locked.
func (p *plan) queuePlaced(b *pgx.Batch, hashes []uint64, standing map[uint32]footing) {
	n := len(hashes)
	wanted, least := make([]int64, n), make([]int64, n)
	for i, hash := range hashes {
		wanted[i], least[i] = stored(hash), stored(p.id.hashes(p.id.Page(hash)).least)
	}
	b.Queue(placedSQL, wanted, least).Query(func(rows pgx.Rows) error {
		var hash int64
		var own, page, left *uint32
		_, err := pgx.ForEachRow(rows, []any{&hash, &own, &page, &left}, func() error {
			if own == nil {
				own = new(uint32)
			}
			p.placeAs(hash, *own, page, left)
			return nil
		})
		return err
	})
	b.Queue(lockPlacedSQL, wanted, least).Query(scanFootings(standing))
}

// scanFootings reads rows of the columns page, sequence, moves, least.
func scanFootings(standing map[uint32]footing) func(rows pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var page uint32
		var s Standing
		var least int64
		_, err := pgx.ForEachRow(rows, []any{&page, &s.Sequence, &s.Moves, &least}, func() error {
			standing[page] = newFooting(page, s, least)
			return nil
		})
		return err
	}
}

func (d *postgresDatabase) placements(ctx context.Context, homes []uint32) (found *placements, err error) {
	query, args := allPlacementsSQL, []any(nil)
	if len(homes) > 0 {
		n := len(homes)
		numbers, least, greatest := make([]int64, n), make([]int64, n), make([]int64, n)
		for i, home := range homes {
			hashes := d.id.hashes(home)
			numbers[i], least[i], greatest[i] = int64(home), stored(hashes.least), stored(hashes.greatest)
		}
		query, args = placementsSQL, []any{numbers, least, greatest}
	}
	var hash, slot *int64
	var page, moves uint32
	err = d.read(ctx, query, args, []any{&hash, &page, &moves, &slot},
		func() { found = &placements{moves: make(map[uint32]uint32)} },
		func() error {
			switch {
			case hash == nil:
				found.moves[page] = moves
			case slot == nil:
				found.owners = append(found.owners, Owner{Hash: unstored(*hash), Page: page})
			default:
				r := rangeRow{cell: cell{least: unstored(*hash), page: page}, slot: unstored(*slot), moves: moves}
				found.ranges = append(found.ranges, r)
			}
			return nil
		})
	return found, err
}
