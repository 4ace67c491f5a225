package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// move locks the shared page first, as every writer does who has to do with its
// users, and then the user's own.
func (d *postgresDatabase) move(ctx context.Context, m move) (pages []PageChange, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		h, err := d.lockHome(limited, conn, m)
		if err != nil {
			return nil, fmt.Errorf("look up pages: %w", err)
		}
		var moves bool
		if pages, moves, err = m.decide(h); err != nil {
			return nil, err
		}
		b := &pgx.Batch{}
		switch {
		case !moves:
		case m.out:
			b.Queue(movePagesSQL, []int64{int64(m.shared)})
			b.Queue(newPageSQL, pages[1].Page, int64(pages[1].Sequence))
			b.Queue(putOwnerSQL, stored(m.hash), pages[1].Page)
		default:
			b.Queue(movePagesSQL, []int64{int64(m.shared), int64(pages[1].Page)})
			b.Queue(deleteOwnerSQL, stored(m.hash))
		}
		return b, nil
	})
	if err != nil {
		return nil, err
	}
	return pages, nil
}

// lockHome begins a transaction, locks the user's pages against other writers, and the
// numbers of own pages against other moves.
func (d *postgresDatabase) lockHome(ctx context.Context, conn *pgx.Conn, m move) (h home, err error) {
	shared := []int64{int64(m.shared)}
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(createPagesSQL, shared)
	b.Queue(lockPagesSQL, shared).QueryRow(func(row pgx.Row) error {
		return row.Scan(nil, &h.shared, nil)
	})
	d.queueIncarnation(b)
	b.Queue(lockHomesSQL, []int64{stored(m.hash)}).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{nil, &h.page, &h.own}, func() error { return nil })
		return err
	})
	b.Queue(lockNumbersSQL)
	b.Queue(greatestPageSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&h.greatest) })
	return h, conn.SendBatch(ctx, b).Close()
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

// lockOwn tells the plan, whose shared pages are locked, which of its users have a page of their own, and
// locks these pages, too. It is a round trip where anybody has ever moved.
func (p *plan) lockOwn(ctx context.Context, conn *pgx.Conn, standing map[uint32]Standing) error {
	hashes := p.mayHaveMoved(standing)
	if len(hashes) == 0 {
		return nil
	}
	rows, err := conn.Query(ctx, lockHomesSQL, hashes)
	if err != nil {
		return err
	}
	var hash int64
	var page uint32
	var s Standing
	_, err = pgx.ForEachRow(rows, []any{&hash, &page, &s.Sequence}, func() error {
		standing[page] = s
		p.place(hash, page)
		return nil
	})
	return err
}

func (d *postgresDatabase) owners(ctx context.Context, pages []uint32) (owners []Owner, moves map[uint32]uint32, err error) {
	query, args := allOwnersSQL, []any(nil)
	if len(pages) > 0 {
		n := len(pages)
		numbers, least, greatest := make([]int64, n), make([]int64, n), make([]int64, n)
		for i, page := range pages {
			hashes := d.id.hashes(page)
			numbers[i], least[i], greatest[i] = int64(page), stored(hashes.least), stored(hashes.greatest)
		}
		query, args = ownersOfSQL, []any{numbers, least, greatest}
	}
	var hash *int64 // nil: of a page, and not of a user
	var page, n uint32
	err = d.read(ctx, query, args, []any{&hash, &page, &n}, func() { owners, moves = nil, make(map[uint32]uint32) }, func() error {
		if hash == nil {
			moves[page] = n
		} else {
			owners = append(owners, Owner{Hash: unstored(*hash), Page: page})
		}
		return nil
	})
	return owners, moves, err
}
