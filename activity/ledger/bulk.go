package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Prepared is changes made ready to be recorded: checked, and their rows in order. To prepare a hundred thousand takes
// as long as a good part of recording them does, and can be done beside that.
type Prepared struct {
	plan *plan
	of   Identity // of the ledger that they were prepared for
}

// Prepare makes changes ready for RecordPrepared. They must not be altered any more. An error names an invalid row.
func (l *Ledger) Prepare(changes []Change) (*Prepared, error) {
	p, err := newPlan(l.id, changes)
	if err != nil {
		return nil, fmt.Errorf("ledger: prepare: %w", err)
	}
	return &Prepared{p, l.id}, nil
}

// RecordPrepared is Record for so many changes that most of their rows are expected to be new: these are not looked for
// before they are written. Nothing else sets it apart. What is prepared may be recorded again after an error, but not twice at once.
//
// PostgreSQL ends a transaction that takes longer than some seconds, and until it ends no other writer gets at the pages that
// it touches: so no more than some ten thousand changes should go there at a time.
func (l *Ledger) RecordPrepared(ctx context.Context, now time.Time, p *Prepared) (receipt Receipt, err error) {
	n := len(p.plan.changes)
	if n == 0 {
		return Receipt{}, nil
	}
	err = l.use(func() error {
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

// unsure are the entries that the database has to be asked for before anything can be decided: what is removed or limited. The
// others are taken for new until writing them proves them otherwise.
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
		if careful[e] {
			some = append(some, e)
		}
	}
	return some
}

// additions are the entries to be written that the database is not known to have.
func (p *plan) additions() (fresh []*entry) {
	fresh = make([]*entry, 0, len(p.entries))
	for _, e := range p.entries {
		if e.is && !e.was {
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// rewrites are the entries that the database has and that get other times or go.
func (p *plan) rewrites() (upserts, removals []*entry) {
	upserts, removals = p.writes()
	return slices.DeleteFunc(upserts, func(e *entry) bool { return !e.was }), removals
}
