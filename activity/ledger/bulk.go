package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Prepared is a list of changes that were validated and sorted. Preparing 100,000 changes takes
// a large part of the time of recording them. A caller can prepare changes while others are
// being recorded.
type Prepared struct {
	plan *plan
	of   Identity // of the ledger that prepared them
}

// Prepare validates and sorts changes for RecordPrepared. The caller must not modify them
// afterwards. An error names an invalid row.
func (l *Ledger) Prepare(changes []Change) (*Prepared, error) {
	p, err := newPlan(l.id, changes)
	if err != nil {
		return nil, fmt.Errorf("ledger: prepare: %w", err)
	}
	return &Prepared{p, l.id}, nil
}

// RecordPrepared is Record for many changes whose rows are mostly new. It writes rows without
// looking for them first. It differs from Record in nothing else. The same Prepared may be recorded
// again after an error, but not concurrently.
//
// PostgreSQL ends a transaction after some seconds, and until then other writers of its pages wait.
// So record at most some 10,000 changes at a time there.
func (l *Ledger) RecordPrepared(ctx context.Context, now time.Time, p *Prepared) (receipt Receipt, err error) {
	n := len(p.plan.changes)
	if n == 0 {
		return Receipt{}, nil
	}
	err = l.call(ctx, &Call{Operation: "record_prepared"}, func(ctx context.Context) error {
		if p.of != l.id {
			return errors.New("prepared for another ledger")
		}
		receipt, err = l.db.recordMany(ctx, p.plan, now)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: record %d changes: %w", n, err)
	}
	return receipt, nil
}

// unsure returns the entries to read before any decision: those that are removed, and those that a
// limited change has or counts. All others count as new until the write fails.
func (p *plan) unsure() (some []*entry) {
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
