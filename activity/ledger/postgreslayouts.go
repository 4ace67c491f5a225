package ledger

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// queue queues a query. It scans each row of the result into the destinations, and calls each.
func queue(b *pgx.Batch, s statement, each func() error) {
	b.Queue(s.sql, s.args...).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, s.into, each)
		return err
	})
}

// queueLayouts queues a read of the layouts.
func queueLayouts(b *pgx.Batch, l *Layouts) {
	b.Queue(allLayoutsSQL).Query(func(rows pgx.Rows) error {
		var r layoutRow
		var all []layoutRow
		_, err := pgx.ForEachRow(rows, []any{&r.pages, &r.state}, func() error {
			all = append(all, r)
			return nil
		})
		if err == nil {
			*l, err = layoutsOf(all)
		}
		return err
	})
}

// place assumes that the current layout is the one that was read last. If it is not, place reads
// again.
func (d *postgresDatabase) place(ctx context.Context, hash uint64) (p Place, err error) {
	current := d.assumedLayouts().Current
	for {
		var r layoutRow
		s := statement{
			placeSQL, []any{stored(hash), d.id.PageIn(current, hash)},
			[]any{&p.Page, &p.Sequence, &p.Left, &r.pages, &r.state},
		}
		rows, err := collect(ctx, d, s, func() layoutRow { return r })
		if err == nil {
			p.Layouts, err = layoutsOf(rows)
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
// more adds reads that run under the locks. lockPages returns the states of the pages.
//
// The pages depend on the layouts, which the same round trip reads. lockPages assumes the
// layouts that were read last, and retries if they have changed since.
func (t postgresTransaction) lockPages(
	ctx context.Context, p *plan, more func(b *pgx.Batch),
) (map[uint32]PageState, error) {
	for assumed := t.d.assumedLayouts(); ; assumed = p.layouts {
		p.forget()
		states, err := t.lockPagesOf(ctx, assumed, p, more)
		if !errors.Is(err, errLayoutsDiffer) {
			return states, err
		}
		if _, err := t.conn.Exec(ctx, `ROLLBACK`); err != nil {
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
func (t postgresTransaction) lockPagesOf(
	ctx context.Context, l Layouts, p *plan, more func(b *pgx.Batch),
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
	var hash int64
	var page uint32
	var s PageState
	queue(b, statement{lockPagesSQL, []any{pages}, []any{&page, &s.Sequence, &s.Left}}, func() error {
		states[page] = s
		return nil
	})
	t.d.queueIncarnation(b)
	into := []any{&hash, &page, &s.Sequence, &s.Left}
	queue(b, statement{lockDedicatedSQL, []any{p.storedUsers()}, into}, func() error {
		p.owners[unstored(hash)], states[page] = page, s
		return nil
	})
	more(b)
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	now := p.layouts
	t.d.assumed.Store(&now)
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

// queueIncarnation queues a check that the transaction is in the ledger that was opened.
func (d *postgresDatabase) queueIncarnation(b *pgx.Batch) {
	var value *string
	queue(b, statement{sql: incarnationSQL, into: []any{&value}}, func() error { return d.checkRead(value) })
}
