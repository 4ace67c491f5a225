package ledger

import (
	"context"
	"errors"
	"slices"
	"time"
)

// place assumes that the current layout is the one that was read last. If it is not, place reads
// again.
func (d *postgresDatabase) place(ctx context.Context, hash uint64) (p Place, err error) {
	current := d.assumedLayouts().Current
	for {
		s := layoutsQuery(&p.Layouts)
		s.sql, s.args = placeSQL, []any{stored(hash), d.id.PageIn(current, hash)}
		s.into = append([]any{&p.Page, &p.Sequence, &p.Left}, s.into...)
		if err := d.query(ctx, s); err != nil {
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

// lock depends on the layouts, which its round trip reads. It assumes the layouts that were read
// last, and retries if they have changed since.
func (t postgresTransaction) lock(ctx context.Context, p *plan, now time.Time) (map[uint32]PageState, error) {
	reads := []statement{p.lookup()} // under the locks
	if len(p.tallies) > 0 {
		reads = append(reads, countTallies(p.tallies, now))
	}
	if p.hasEnded() {
		var us int64
		reads = append(reads, statement{sql: clockSQL, into: []any{&us}, each: func() error {
			p.clock = time.UnixMicro(us)
			return nil
		}})
	}
	for assumed := t.d.assumedLayouts(); ; assumed = p.layouts {
		p.forget()
		states, err := t.lockPages(ctx, assumed, p, reads)
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

// lockPages begins a transaction, locks the pages of the plan's users in the given layouts against
// other writers, and reads. It returns the states of the pages.
func (t postgresTransaction) lockPages(
	ctx context.Context, l Layouts, p *plan, reads []statement,
) (map[uint32]PageState, error) {
	pages := p.sharedPages(l)
	states := make(map[uint32]PageState, len(pages))
	var hash int64
	var page uint32
	var s PageState
	var kinds []Kind
	declared := kindsQuery(&kinds)
	declared.end = func() error { return p.checkKinds(kinds) }
	all := []statement{
		{sql: beginSQL}, {sql: shareSQL}, layoutsQuery(&p.layouts), declared, {sql: createPagesSQL, args: []any{pages}},
		{sql: lockPagesSQL, args: []any{pages}, into: []any{&page, &s.Sequence, &s.Left}, each: func() error {
			states[page] = s
			return nil
		}},
		t.d.opened(),
		{sql: lockDedicatedSQL, args: []any{p.storedUsers()}, into: []any{&hash, &page, &s.Sequence, &s.Left}, each: func() error {
			p.owners[unstored(hash)], states[page] = page, s
			return nil
		}},
	}
	if err := send(ctx, t.conn, slices.Concat(all, reads)...); err != nil {
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
