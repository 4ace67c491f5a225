package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Record applies the changes, in order, in one transaction: all of them or none. When Record
// returns without error, the changes are durable. They survive a crash of the process or the
// machine.
//
// A row that exists keeps its Since when it is recorded again, and takes the new Until. This is
// a change only if the Until differs. Removing a row that does not exist is a no-op. A row that
// one call removes and records again gets the new Since.
//
// A row whose Until is not after now has ended, and counts as absent. Recording it gives it a
// new Since and Until, and is a change. Removing it is not a change. The page still holds the
// key of an ended row. So recording the row again does not alter the page, while removing it
// takes the key out.
//
// A change with a Limit counts the rows that the changes before it leave. A removal makes room,
// an addition takes it. Record refuses a change only for rows that it adds. It never refuses a
// row that exists, whatever its new Until, even after a limit was lowered. Limits are exact,
// also with concurrent writers.
//
// An error that wraps ctx's error, or that names an invalid row, means that nothing changed.
// Record observes ctx until the commit begins, and not during the commit. After any other error
// the changes may or may not have happened. Repeat the call: repeating is safe, and leads to the
// same rows in both cases.
//
// Concurrent calls that touch the same page run one after another. A call without changes
// returns an empty Receipt.
func (l *Ledger) Record(ctx context.Context, now time.Time, changes []Change) (Receipt, error) {
	if len(changes) == 0 {
		return Receipt{}, nil
	}
	what := fmt.Sprintf("ledger: record %d changes", len(changes))
	return ask(ctx, l, &Call{Operation: "record"}, what, func(ctx context.Context) (Receipt, error) {
		p, err := newPlan(l.id, changes, nil)
		if err != nil {
			return Receipt{}, err
		}
		return l.execute(ctx, p, now)
	})
}

// execute executes the plan at the time now.
func (l *Ledger) execute(ctx context.Context, p *plan, now time.Time) (receipt Receipt, err error) {
	err = l.db.transact(ctx, callTimeout, func(ctx context.Context, t transaction) error {
		states, err := l.lock(ctx, t, p, l.countTallies(p, now), l.readClock(p), l.lookupRepeats(p))
		if err != nil {
			return fmt.Errorf("look up rows: %w", err)
		}
		receipt = Receipt{Layouts: p.layouts, Owners: p.owners}
		writes := make([]statement, 0, 5)
		if p.step == nil {
			receipt.Changed, receipt.Refused = p.decide(now)
		} else if writes, err = l.follow(ctx, t, p, now); err != nil {
			return err
		}
		f := p.effect(states)
		receipt.Pages = f.pages
		upserts, removals := p.writes()
		err = execAll(ctx, t, append(writes,
			statement{sql: l.sql.upsertRows, columns: columnsOf(upserts)},
			statement{sql: l.sql.deleteRows, columns: columnsOf(removals)[:4]},
			l.raise(f.raised)))
		if err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		return nil
	})
	return receipt, err
}

// lock begins a transaction, excludes other writers of the plan's users, and readies the plan for
// decide. It reads the layouts, the dedicated pages of the users, and which of the entries exist,
// and runs more reads under the locks. It returns the states of the users' pages.
//
// The pages depend on the layouts, which lock reads at the same time. So lock assumes the layouts
// that were read last, and begins again if they have changed since.
func (l *Ledger) lock(
	ctx context.Context, t transaction, p *plan, more ...statement,
) (map[uint32]PageState, error) {
	for assumed := l.assumedLayouts(); ; assumed = p.layouts {
		p.forget()
		pages := p.sharedPages(assumed)
		states := make(map[uint32]PageState, len(pages))
		var hash int64
		var page uint32
		var s PageState
		var r scanned
		var kinds []Kind
		all := []statement{
			{sql: l.sql.share}, layoutsQuery(&p.layouts), kindsQuery(&kinds),
			{sql: l.sql.createPages, columns: []any{pages}},
			{
				sql:     l.sql.lockPages,
				columns: []any{pages},
				into:    []any{&page, &s.Sequence, &s.Left},
				each: func() error {
					states[page] = s
					return nil
				},
			},
			{
				sql:     l.sql.lockDedicated,
				columns: []any{p.users()},
				into:    []any{&hash, &page, &s.Sequence, &s.Left},
				each: func() error {
					p.owners[unstored(hash)], states[page] = page, s
					return nil
				},
			},
			{sql: l.sql.lookupRows, columns: columnsOf(p.entries)[:4], into: r.all(), each: func() error {
				p.found(r.row())
				return nil
			}},
		}
		if err := t.begin(ctx, slices.Concat(all, more)...); err != nil {
			return nil, err
		}
		l.assume(p.layouts)
		if p.layouts.Current == assumed.Current && p.layouts.Building == assumed.Building {
			return states, p.checkKinds(kinds)
		}
	}
}

// assumedLayouts returns the layouts that were read last. Before the first read, it returns the
// first layout.
func (l *Ledger) assumedLayouts() Layouts {
	if last := l.common.layouts.Load(); last != nil {
		return *last
	}
	return Layouts{Current: l.id.Pages}
}

// assume keeps the layouts that were read last.
func (l *Ledger) assume(last Layouts) { l.common.layouts.Store(&last) }

// countTallies is a query that counts the rows that the plan limits.
func (l *Ledger) countTallies(p *plan, now time.Time) statement {
	n := len(p.tallies)
	number, hash := make([]int64, n), make([]int64, n)
	owner, kind := make([]string, n), make([]string, n)
	for i, t := range p.tallies {
		number[i], hash[i], owner[i], kind[i] = int64(i), stored(t.hash), t.owner, t.kind
	}
	var i, found int64
	return statement{
		sql:     l.sql.tallyRows,
		columns: []any{number, hash, owner, kind},
		args:    []any{now.UnixMicro(), p.most},
		into:    []any{&i, &found},
		each: func() error {
			p.tallies[i].found = found
			return nil
		},
	}
}

// readClock is a query that reads the clock of a database server, if the plan needs it.
func (l *Ledger) readClock(p *plan) (s statement) {
	if slices.ContainsFunc(p.changes, func(c Change) bool { return c.Ended }) {
		var us int64
		s = statement{sql: l.sql.clock, into: []any{&us}, each: func() error {
			p.clock = time.UnixMicro(us)
			return nil
		}}
	}
	return s
}

// raise is a statement that stores the states of pages.
func (l *Ledger) raise(raised []raisedPage) statement {
	n := len(raised)
	pages, sequences, left := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, r := range raised {
		pages[i], sequences[i], left[i] = int64(r.page), int64(r.Sequence), int64(r.Left)
	}
	return statement{sql: l.sql.raisePages, columns: []any{pages, sequences, left}}
}

// columnsOf returns the columns of entries: hash, owner, kind, target, since, until, target hash.
// The times are those after the changes. The last column is empty if no entry names a user.
func columnsOf(entries []*entry) []any {
	n := len(entries)
	hash, since, until := make([]int64, n), make([]int64, n), make([]*int64, n)
	owner, kind, target := make([]string, n), make([]string, n), make([]string, n)
	targetHash := []*int64{}
	for i, e := range entries {
		hash[i], owner[i], kind[i], target[i] = stored(e.hash), e.owner, e.kind, e.target
		since[i], until[i] = e.after.since.UnixMicro(), storedUntil(e.after.until)
		if e.targetHash != nil {
			if len(targetHash) == 0 {
				targetHash = make([]*int64, n)
			}
			targetHash[i] = e.targetHash
		}
	}
	return []any{hash, owner, kind, target, since, until, targetHash}
}
