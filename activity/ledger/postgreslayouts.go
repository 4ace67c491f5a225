package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// queueLayouts queues a read of the layouts.
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

// queueNewLayouts queues statements that replace the layouts.
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

// changeLayouts locks the table against writers, which lock it in a shared mode.
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

// place assumes that the current layout is the one that was read last. If it is not, place reads
// again.
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

// errLayoutsDiffer means that a transaction assumed outdated layouts.
var errLayoutsDiffer = errors.New("the layouts have changed")

// lockPages begins a transaction, and locks the pages of the plan's users against other writers.
// queue adds reads that run under the locks. lockPages returns the states of the pages.
//
// The pages depend on the layouts, which the same round trip reads. lockPages assumes the
// layouts that were read last, and retries if they have changed since.
func (d *postgresDatabase) lockPages(
	ctx context.Context, conn *pgx.Conn, p *plan, queue func(b *pgx.Batch),
) (map[uint32]PageState, error) {
	for assumed := d.assumedLayouts(); ; assumed = p.layouts {
		p.forget()
		states, err := d.lockPagesOf(ctx, conn, assumed, p, queue)
		if !errors.Is(err, errLayoutsDiffer) {
			return states, err
		}
		if _, err := conn.Exec(ctx, `ROLLBACK`); err != nil {
			return nil, err
		}
	}
}

// assumedLayouts returns the layouts that were read last. Before the first read, it returns the
// first layout.
func (d *postgresDatabase) assumedLayouts() Layouts {
	if l := d.assumed.Load(); l != nil {
		return *l
	}
	return Layouts{Current: d.id.Pages}
}

// lockPagesOf is lockPages for the given layouts.
func (d *postgresDatabase) lockPagesOf(
	ctx context.Context, conn *pgx.Conn, l Layouts, p *plan, queue func(b *pgx.Batch),
) (map[uint32]PageState, error) {
	pages := p.sharedPages(l)
	states := make(map[uint32]PageState, len(pages))
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(shareSQL)
	queueLayouts(b, &p.layouts)
	if len(p.changes) > 0 {
		b.Queue(allKindsSQL).Query(func(rows pgx.Rows) error {
			kinds, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Kind])
			return cmp.Or(err, p.checkKinds(kinds))
		})
	}
	b.Queue(createPagesSQL, pages)
	b.Queue(lockPagesSQL, pages).Query(func(rows pgx.Rows) error {
		var page uint32
		var s PageState
		_, err := pgx.ForEachRow(rows, []any{&page, &s.Sequence, &s.Left}, func() error {
			states[page] = s
			return nil
		})
		return err
	})
	d.queueIncarnation(b)
	b.Queue(lockDedicatedSQL, p.storedUsers()).Query(func(rows pgx.Rows) error {
		var hash int64
		var page uint32
		var s PageState
		_, err := pgx.ForEachRow(rows, []any{&hash, &page, &s.Sequence, &s.Left}, func() error {
			p.owners[unstored(hash)], states[page] = page, s
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
	return states, nil
}

// storedUsers returns the plan's users as an array for SQL.
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
		states, err := d.lockPages(limited, conn, p, func(b *pgx.Batch) {
			b.Queue(lockNumbersSQL)
			b.Queue(greatestPageSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&s.greatest) })
		})
		if err != nil {
			return nil, fmt.Errorf("look up pages: %w", err)
		}
		s.layouts, s.owned, s.states = p.layouts, p.owners[m.hash], states
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

// queueIncarnation queues a check that the transaction is in the ledger that was opened.
func (d *postgresDatabase) queueIncarnation(b *pgx.Batch) {
	b.Queue(incarnationSQL).QueryRow(func(row pgx.Row) error {
		var value string
		if err := row.Scan(&value); err != nil {
			return err
		}
		return d.checkRead(&value)
	})
}
