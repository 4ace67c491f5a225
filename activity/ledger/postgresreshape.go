package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

func (d *postgresDatabase) cut(ctx context.Context) (c Cut, err error) {
	var asked string
	var reshaped, done int
	err = d.read(ctx, readCutSQL, []any{d.id.Pages}, []any{&asked, &reshaped, &done}, func() {}, func() error { return nil })
	if err != nil {
		return Cut{}, err
	}
	return d.id.parseCut(asked, reshaped, done)
}

func (d *postgresDatabase) setCut(ctx context.Context, pages uint32) error {
	return d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		b := &pgx.Batch{}
		b.Queue(beginSQL)
		d.queueIncarnation(b)
		if err := conn.SendBatch(limited, b).Close(); err != nil {
			return nil, err
		}
		rest := &pgx.Batch{}
		rest.Queue(putMetaSQL, cutName, strconv.FormatUint(uint64(pages), 10))
		return rest, nil
	})
}

func (d *postgresDatabase) shape(ctx context.Context, s span) (found shape, err error) {
	err = d.attempt(ctx, d.pool, func(ctx context.Context, conn *pgx.Conn) error {
		found = shape{}
		b := &pgx.Batch{}
		d.queueShape(b, s, &found)
		return conn.SendBatch(ctx, b).Close()
	})
	return found, err
}

// queueShape has it read how a span is placed.
func (d *postgresDatabase) queueShape(b *pgx.Batch, s span, found *shape) {
	hashes := d.id.hashesOf(s)
	b.Queue(shapeRangesSQL, stored(hashes.least), stored(hashes.greatest)).Query(func(rows pgx.Rows) error {
		var least int64
		var c cell
		_, err := pgx.ForEachRow(rows, []any{&least, &c.page, &c.left}, func() error {
			c.least = unstored(least)
			found.rows = append(found.rows, c)
			return nil
		})
		return err
	})
	b.Queue(shapeHomesSQL, s.first, s.last).Query(func(rows pgx.Rows) error {
		found.cut = make(map[uint32]uint32)
		var now int64
		var home, pages *uint32
		var at *int64
		_, err := pgx.ForEachRow(rows, []any{&now, &home, &pages, &at}, func() error {
			found.now = time.UnixMicro(now)
			if home == nil {
				return nil
			}
			found.cut[*home] = *pages
			if last := time.UnixMicro(*at); last.After(found.reshaped) {
				found.reshaped = last
			}
			return nil
		})
		return err
	})
}

func (d *postgresDatabase) reserve(ctx context.Context, n int) (first uint32, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		var greatest, last uint32
		b := &pgx.Batch{}
		b.Queue(beginSQL)
		d.queueIncarnation(b)
		b.Queue(lockNumbersSQL)
		b.Queue(greatestPageSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&greatest) })
		if err := conn.SendBatch(limited, b).Close(); err != nil {
			return nil, err
		}
		if first, last, err = numbersAfter(greatest, n); err != nil {
			return nil, err
		}
		rest := &pgx.Batch{}
		rest.Queue(putMetaSQL, numbersName, strconv.FormatUint(uint64(last), 10))
		return rest, nil
	})
	return first, err
}

// reshape locks the home pages first, which keeps everybody from the others that their users are on. It locks those all the
// same, in order, as it is going to write them: writers of other homes, whose users have left them, lock them so.
func (d *postgresDatabase) reshape(ctx context.Context, p *ReshapePlan) (pages []PageChange, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		s, standing, err := d.lockShape(limited, conn, p)
		if err != nil {
			return nil, fmt.Errorf("look up homes: %w", err)
		}
		if err := p.check(d.id, s); err != nil {
			return nil, err
		}
		b := &pgx.Batch{}
		b.Queue(lockPagesSQL, p.touchedNumbers(d.id)).Query(scanFootings(standing))
		if err := conn.SendBatch(limited, b).Close(); err != nil {
			return nil, fmt.Errorf("look up pages: %w", err)
		}
		there, made, err := p.raised(d.id, standing)
		if err != nil {
			return nil, err
		}
		pages = slices.Concat(there, made)
		return d.reshapeBatch(p, there, made), nil
	})
	if err != nil {
		return nil, err
	}
	return pages, nil
}

// lockShape begins a transaction that has the homes of the plan to itself, and reads how they are placed.
func (d *postgresDatabase) lockShape(
	ctx context.Context, conn *pgx.Conn, p *ReshapePlan,
) (s shape, standing map[uint32]footing, err error) {
	homes := make([]int64, len(p.Homes))
	for i, home := range p.Homes {
		homes[i] = int64(home)
	}
	standing = make(map[uint32]footing, len(homes))
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(lockCutSQL).QueryRow(func(row pgx.Row) error {
		var asked string
		if err := row.Scan(&asked); err != nil {
			return err
		}
		return p.checkAsked(asked)
	})
	b.Queue(createPagesSQL, homes)
	b.Queue(lockPagesSQL, homes).Query(scanFootings(standing))
	d.queueIncarnation(b)
	d.queueShape(b, p.span(), &s)
	return s, standing, conn.SendBatch(ctx, b).Close()
}

// reshapeBatch is what a plan comes to.
func (d *postgresDatabase) reshapeBatch(p *ReshapePlan, there, made []PageChange) *pgx.Batch {
	hashes := d.id.hashesOf(p.span())
	rows := d.id.rows(p.after)
	n := len(rows)
	least, pages, left := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, c := range rows {
		least[i], pages[i], left[i] = stored(c.least), int64(c.page), int64(c.left)
	}
	first := make([]int64, len(made))
	for i, page := range made {
		first[i] = stored(page.Owner)
	}
	b := &pgx.Batch{}
	b.Queue(deleteRangesSQL, stored(hashes.least), stored(hashes.greatest))
	b.Queue(putRangesSQL, least, pages, left)
	b.Queue(movePagesSQL, numbers(there))
	b.Queue(makePagesSQL, numbers(made), first)
	b.Queue(putHomesSQL, int64(p.span().first), int64(p.Pages), int64(p.span().last))
	return b
}
