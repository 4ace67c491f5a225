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
	return ask(ctx, l, &Call{Operation: "record"}, recording(changes), func(ctx context.Context) (Receipt, error) {
		p, err := newPlan(l.id, changes)
		if err != nil {
			return Receipt{}, err
		}
		return record(ctx, l.db, p, now, false)
	})
}

func recording(changes []Change) string {
	return fmt.Sprintf("ledger: record %d changes", len(changes))
}

// Prepared is a list of changes of a ledger that were validated and sorted. Preparing 100,000
// changes takes a large part of the time of recording them. A caller can prepare changes while
// others are being recorded.
type Prepared struct {
	plan   *plan
	ledger *Ledger
}

// Prepare validates and sorts changes for [Prepared.Record]. The caller must not modify them
// afterwards. An error names an invalid row.
func (l *Ledger) Prepare(changes []Change) (*Prepared, error) {
	p, err := newPlan(l.id, changes)
	if err != nil {
		return nil, fmt.Errorf("ledger: prepare: %w", err)
	}
	return &Prepared{p, l}, nil
}

// Record is [Ledger.Record] for many changes whose rows are mostly new. It writes rows without
// looking for them first. It differs from that in nothing else. The same Prepared may be recorded
// again after an error, but not concurrently.
//
// PostgreSQL ends a transaction after some seconds, and until then other writers of its pages wait.
// So record at most some 10,000 changes at a time there.
func (p *Prepared) Record(ctx context.Context, now time.Time) (Receipt, error) {
	if len(p.plan.changes) == 0 {
		return Receipt{}, nil
	}
	what := recording(p.plan.changes)
	return ask(ctx, p.ledger, &Call{Operation: "record_prepared"}, what, func(ctx context.Context) (Receipt, error) {
		return record(ctx, p.ledger.db, p.plan, now, true)
	})
}

// toLookUp returns the entries to read before any decision: those that are removed, and those that
// a limited change has or counts. All others count as new until the write fails.
func (p *plan) toLookUp() (some []*entry) {
	careful := make(map[*entry]bool)
	number := 0
	for _, c := range p.changes {
		if c.Remove || c.Limit > 0 {
			for _, e := range p.named[number : number+len(c.Rows)] {
				careful[e] = true
			}
		}
		number += len(c.Rows)
	}
	for _, e := range p.entries {
		if careful[e] || e.tally != nil {
			some = append(some, e)
		}
	}
	return some
}

// additions returns the entries to write that were not found in the database.
func (p *plan) additions() (fresh []*entry) {
	fresh = make([]*entry, 0, len(p.entries))
	for _, e := range p.entries {
		if e.is && !e.was {
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// rewrites returns the existing entries that get new times, and those that are removed.
func (p *plan) rewrites() (upserts, removals []*entry) {
	upserts, removals = p.writes()
	return slices.DeleteFunc(upserts, func(e *entry) bool { return !e.was }), removals
}
