package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// queueLayouts has the layouts read.
func queueLayouts(b *pgx.Batch, l *Layouts) {
	b.Queue(allLayoutsSQL).Query(func(rows pgx.Rows) error {
		*l = Layouts{}
		var r layoutRow
		_, err := pgx.ForEachRow(rows, []any{&r.pages, &r.state}, func() error {
			*l = l.with(r)
			return nil
		})
		if err != nil {
			return err
		}
		return l.check()
	})
}

// queueNewLayouts has the layouts replaced.
func queueNewLayouts(b *pgx.Batch, l Layouts) {
	b.Queue(deleteLayoutsSQL)
	for _, r := range l.rows() {
		b.Queue(putLayoutSQL, r.pages, r.state)
	}
}

func (d *postgresDatabase) layouts(ctx context.Context) (l Layouts, err error) {
	err = d.attempt(ctx, d.pool, func(ctx context.Context, conn *pgx.Conn) error {
		b := &pgx.Batch{}
		queueLayouts(b, &l)
		return conn.SendBatch(ctx, b).Close()
	})
	return l, err
}

// changeLayouts locks the table, which every writer locks in a mode that others share.
func (d *postgresDatabase) changeLayouts(
	ctx context.Context, decide func(Layouts) (Layouts, error),
) (after Layouts, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		var before Layouts
		b := &pgx.Batch{}
		b.Queue(beginSQL)
		b.Queue(lockLayoutsSQL)
		d.queueIncarnation(b)
		queueLayouts(b, &before)
		if err := conn.SendBatch(limited, b).Close(); err != nil {
			return nil, err
		}
		rest := &pgx.Batch{}
		if after, err = decide(before); err == nil && after != before {
			queueNewLayouts(rest, after)
		}
		return rest, err
	})
	return after, err
}

func (d *postgresDatabase) seed(ctx context.Context, from, to, first, last uint32) error {
	args := []any{d.id.PageIn(from, 0), d.id.PageIn(to, 0), to / from, first, last}
	return d.exec(ctx, func(b *pgx.Batch) {
		b.Queue(seedPagesSQL, args...)
		b.Queue(seedRestSQL, args...)
	})
}

func (d *postgresDatabase) removePages(ctx context.Context, first, last uint32) error {
	return d.exec(ctx, func(b *pgx.Batch) { b.Queue(deletePagesSQL, first, last) })
}

// exec runs statements in a transaction.
func (d *postgresDatabase) exec(ctx context.Context, queue func(b *pgx.Batch)) error {
	return d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		b := &pgx.Batch{}
		b.Queue(beginSQL)
		d.queueIncarnation(b)
		if err := conn.SendBatch(limited, b).Close(); err != nil {
			return nil, err
		}
		rest := &pgx.Batch{}
		queue(rest)
		return rest, nil
	})
}

// place assumes the current layout that was read last, and looks again if it is another one.
func (d *postgresDatabase) place(ctx context.Context, hash uint64) (p Place, err error) {
	current := d.assumedLayouts().Current
	for {
		var r layoutRow
		err = d.read(ctx, placeSQL, []any{stored(hash), d.id.PageIn(current, hash)},
			[]any{&p.Page, &p.Sequence, &p.Left, &r.pages, &r.state},
			func() { p.Layouts = Layouts{} },
			func() error {
				p.Layouts = p.Layouts.with(r)
				return nil
			})
		if err == nil {
			err = p.Layouts.check()
		}
		if err != nil {
			return Place{}, err
		}
		if p.Layouts.Current == current {
			return p, nil
		}
		current = p.Layouts.Current
	}
}

// errLayoutsDiffer says that a transaction assumed layouts that are no longer the ledger's.
var errLayoutsDiffer = errors.New("the layouts have changed")

// lockPages begins a transaction, and locks the pages of the plan's users against other writers. It
// queues what is to be read then, and returns the states of the pages.
//
// Which pages these are depends on the layouts, which are read in the same round trip: it assumes
// those that were read last, and begins again if they have changed since.
func (d *postgresDatabase) lockPages(
	ctx context.Context, conn *pgx.Conn, p *plan, queue func(b *pgx.Batch),
) (map[uint32]Standing, error) {
	for assumed := d.assumedLayouts(); ; assumed = p.layouts {
		p.forget()
		standing, err := d.lockPagesOf(ctx, conn, assumed, p, queue)
		if !errors.Is(err, errLayoutsDiffer) {
			return standing, err
		}
		if _, err := conn.Exec(ctx, `ROLLBACK`); err != nil {
			return nil, err
		}
	}
}

// assumedLayouts are the layouts that were read last; in the beginning, those of a ledger whose number
// of pages was never changed.
func (d *postgresDatabase) assumedLayouts() Layouts {
	if l := d.assumed.Load(); l != nil {
		return *l
	}
	return Layouts{Current: d.id.Pages}
}

// lockPagesOf is lockPages for the given layouts.
func (d *postgresDatabase) lockPagesOf(
	ctx context.Context, conn *pgx.Conn, l Layouts, p *plan, queue func(b *pgx.Batch),
) (map[uint32]Standing, error) {
	pages := p.sharedPages(l)
	standing := make(map[uint32]Standing, len(pages))
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(shareLayoutsSQL)
	queueLayouts(b, &p.layouts)
	b.Queue(createPagesSQL, pages)
	b.Queue(lockPagesSQL, pages).Query(func(rows pgx.Rows) error {
		var page uint32
		var s Standing
		_, err := pgx.ForEachRow(rows, []any{&page, &s.Sequence, &s.Left}, func() error {
			standing[page] = s
			return nil
		})
		return err
	})
	d.queueIncarnation(b)
	b.Queue(lockDedicatedSQL, p.storedUsers()).Query(func(rows pgx.Rows) error {
		var hash int64
		var page uint32
		var s Standing
		_, err := pgx.ForEachRow(rows, []any{&hash, &page, &s.Sequence, &s.Left}, func() error {
			p.owners[unstored(hash)], standing[page] = page, s
			return nil
		})
		return err
	})
	queue(b)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	now := p.layouts
	d.assumed.Store(&now)
	if now.Current != l.Current || now.Building != l.Building {
		return nil, errLayoutsDiffer
	}
	return standing, nil
}

// storedUsers are the plan's users, for an array.
func (p *plan) storedUsers() []int64 {
	users := p.users()
	hashes := make([]int64, len(users))
	for i, hash := range users {
		hashes[i] = stored(hash)
	}
	return hashes
}

func (d *postgresDatabase) move(ctx context.Context, m move) (receipt Receipt, err error) {
	err = d.transact(ctx, func(limited context.Context, conn *pgx.Conn) (*pgx.Batch, error) {
		p := &plan{id: d.id, entries: []*entry{{key: key{hash: m.hash}}}}
		var s moveState
		standing, err := d.lockPages(limited, conn, p, func(b *pgx.Batch) {
			b.Queue(lockNumbersSQL)
			b.Queue(greatestPageSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&s.greatest) })
		})
		if err != nil {
			return nil, fmt.Errorf("look up pages: %w", err)
		}
		s.layouts, s.owned, s.standing = p.layouts, p.owners[m.hash], standing
		o, err := m.decide(d.id, s)
		if err != nil {
			return nil, err
		}
		receipt = o.receipt
		b := &pgx.Batch{}
		if len(o.raised) == 0 {
			return b, nil
		}
		if m.dedicate {
			b.Queue(createPagesSQL, []int64{int64(o.made)})
			b.Queue(putOwnerSQL, stored(m.hash), o.made)
		} else {
			b.Queue(deleteOwnerSQL, stored(m.hash))
		}
		queueRaises(b, o.raised)
		return b, nil
	})
	if err != nil {
		return Receipt{}, err
	}
	return receipt, nil
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
