package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// sqliteTransaction is a writing transaction. Its methods check ctx between statements. Each
// statement and the commit run to their end: they are short, and SQLite closes the connection of
// an interrupted one.
type sqliteTransaction struct {
	d       *sqliteDatabase
	queries sqliteQueries
}

func (t sqliteTransaction) query(ctx context.Context, s statement) error {
	return t.queries.query(context.WithoutCancel(ctx), s)
}

// transact waits for the writer's connection and for locks until ctx ends, runs do in a writing
// transaction, and commits. If do fails, or ctx ends before the commit, the transaction has no
// effect. The end of ctx does not interrupt a statement.
func (d *sqliteDatabase) transact(
	ctx context.Context, _ time.Duration, do func(ctx context.Context, t transaction) error,
) error {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	tx, err := d.writer.BeginTx(detached, nil)
	stop()
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // a no-op after a commit
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := cmp.Or(do(ctx, sqliteTransaction{d, d.writes.in(tx)}), ctx.Err()); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &undecidedError{err}
	}
	return nil
}

// begin, lock, lockLayouts, lockKinds and recentAnyOf exclude nobody: the transaction has the write
// lock.
func (t sqliteTransaction) begin(context.Context) error { return nil }

func (t sqliteTransaction) lockLayouts(ctx context.Context) (Layouts, error) {
	return readLayouts(ctx, t)
}

func (t sqliteTransaction) lock(ctx context.Context, p *plan, now time.Time) (states map[uint32]PageState, err error) {
	p.forget()
	if p.layouts, err = t.lockLayouts(ctx); err != nil {
		return nil, err
	}
	kinds, err := readKinds(ctx, t)
	if err := cmp.Or(err, p.checkKinds(kinds)); err != nil {
		return nil, err
	}
	if states, err = t.states(ctx, p); err != nil {
		return nil, err
	}
	// A page that never changed has no rows.
	some := slices.DeleteFunc(slices.Clone(p.entries), func(e *entry) bool {
		return states[p.id.PageIn(p.layouts.Current, e.hash)].Sequence == 0
	})
	if err := t.lookup(ctx, p, some); err != nil {
		return nil, err
	}
	return states, t.tally(ctx, p.tallies, now)
}

// states reads the dedicated pages of the plan's users, and the states of the users' pages.
func (t sqliteTransaction) states(ctx context.Context, p *plan) (map[uint32]PageState, error) {
	pages := p.sharedPages(p.layouts)
	var hash int64
	var page uint32
	err := inBatches(ctx, t, ownedPagesSQL, p.users(), func(hash uint64) []any { return []any{stored(hash)} },
		statement{into: []any{&hash, &page}, each: func() error {
			p.owners[unstored(hash)] = page
			pages = append(pages, int64(page))
			return nil
		}})
	if err != nil {
		return nil, err
	}
	states := make(map[uint32]PageState, len(pages))
	var s PageState
	err = inBatches(ctx, t, pageStatesSQL, pages, func(page int64) []any { return []any{page} },
		statement{into: []any{&page, &s.Sequence, &s.Left}, each: func() error {
			states[page] = s
			return nil
		}})
	return states, err
}

// lookup tells the plan which of the entries in some exist.
func (t sqliteTransaction) lookup(ctx context.Context, p *plan, some []*entry) error {
	var r scanned
	return inBatches(ctx, t, lookupSQL, some, (*entry).args, statement{into: r.all(), each: func() error {
		p.found(r.row())
		return nil
	}})
}

// tally counts the rows that a plan limits. It uses the highest bound for all of them: counting
// the others further does no harm.
func (t sqliteTransaction) tally(ctx context.Context, tallies []*tally, now time.Time) error {
	if len(tallies) == 0 {
		return nil
	}
	most := slices.MaxFunc(tallies, func(a, b *tally) int { return cmp.Compare(a.most, b.most) }).most
	number := -1
	var i int
	var found int64
	return inBatches(ctx, t, tallySQL, tallies, func(wanted *tally) []any {
		number++
		return []any{number, stored(wanted.hash), wanted.owner, wanted.kind}
	}, statement{args: []any{now.UnixMicro(), most}, into: []any{&i, &found}, each: func() error {
		tallies[i].found = found
		return nil
	}})
}

func (t sqliteTransaction) write(ctx context.Context, upserts, removals []*entry, raised []raisedPage) error {
	if err := t.upsert(ctx, upserts); err != nil {
		return err
	}
	err := inBatches(ctx, t, deleteSQL, removals, (*entry).args, statement{})
	if err != nil || len(raised) == 0 {
		return err
	}
	count, err := readNumber(ctx, t, progressSQL)
	if err != nil {
		return err
	}
	return inBatches(ctx, t, raiseSQL, raised, func(r raisedPage) []any {
		return []any{r.page, r.Sequence, r.Left, count}
	}, statement{})
}

// upsert writes entries, and replaces those that exist.
func (t sqliteTransaction) upsert(ctx context.Context, entries []*entry) error {
	return inBatches(ctx, t, insertSQL, entries, (*entry).values, statement{})
}

func (t sqliteTransaction) greatest(ctx context.Context) (uint32, error) {
	number, err := readNumber(ctx, t, greatestPageSQL)
	return uint32(number), err
}

func (t sqliteTransaction) dedicate(ctx context.Context, hash uint64, page uint32) error {
	count, err := readNumber(ctx, t, progressSQL)
	if err != nil {
		return err
	}
	return t.query(ctx, statement{sql: addOwnerSQL, args: []any{stored(hash), page, count}})
}

func (t sqliteTransaction) lockKinds(ctx context.Context) ([]Kind, error) { return readKinds(ctx, t) }

// anyOf searches for rows on another connection, which can be interrupted.
func (t sqliteTransaction) anyOf(ctx context.Context, names []string) (bool, error) {
	n, err := readNumber(ctx, t.d, kindRowsSQL, names[0], names[len(names)-1])
	return n > 0, err
}

func (sqliteTransaction) recentAnyOf(context.Context) (func(context.Context, []string) (bool, error), error) {
	return func(context.Context, []string) (bool, error) { return false, nil }, nil
}

// adopt has nothing to do: transactions have the numbers of the file.
func (sqliteTransaction) adopt(context.Context, Options) error { return nil }

// inBatches splits items into batches, and runs a statement for each, until ctx ends or one fails.
// The arguments of the items come before those of s.
func inBatches[T any](
	ctx context.Context, on queryer, sql func(n int) string, items []T, args func(T) []any, s statement,
) error {
	rest := s.args
	for _, size := range batchSizes() {
		for len(items) >= size {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.sql, s.args = sql(size), nil
			for _, item := range items[:size] {
				s.args = append(s.args, args(item)...)
			}
			s.args = append(s.args, rest...)
			if err := on.query(ctx, s); err != nil {
				return err
			}
			items = items[size:]
		}
	}
	return nil
}
