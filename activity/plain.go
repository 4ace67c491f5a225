package activity

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
)

// PlainConfig configures a [Plain].
type PlainConfig struct {
	_ struct{} // fields are named

	// Store holds one filter, and nothing else.
	Store favfilter.Store
	// Pages is the number of pages of a new filter, a power of two. 0: as many as the filter in the
	// store has, or 16384 for a new one.
	Pages uint32
	// Kinds are the kinds of activities, none with a limit or the effect Keep. Default:
	// BuiltinKinds().
	Kinds *Kinds

	// FalsePositiveRate is as in [Config].
	FalsePositiveRate float64

	// Persist makes the store's contents durable, for a store that writes its changes to disk
	// later. Record calls it. Default: a no-op.
	Persist func(context.Context) error

	// Now is the clock that decides when activities are recorded. Default: time.Now.
	Now    func() time.Time
	Logger *slog.Logger // default: discards
}

// Plain implements [Activities] without a ledger: the pages are the only copy of every kind. An
// activity that is reported as present, rightly or by a false positive, is not recorded again. An
// undo may be [Stuck]. Data that the store loses is lost. A Plain is safe for concurrent use.
type Plain struct {
	reader

	pages   *pages.Alone
	persist func(context.Context) error
}

// OpenPlain returns a Plain. It opens the filter that the store holds with that filter's seed and
// number of pages. If the store holds none, OpenPlain creates one with a random seed and c.Pages
// pages.
//
// Errors wrap [favfilter.ErrMismatch] if the store holds another filter, or a [*NoLedgerError] if a
// kind has a limit or keeps posts.
func OpenPlain(ctx context.Context, c PlainConfig) (*Plain, error) {
	common := Config{
		FalsePositiveRate: c.FalsePositiveRate,
		Kinds:             c.Kinds,
		Persist:           c.Persist,
		Logger:            c.Logger,
	}
	common.setDefaults()
	if err := checkRate(common.FalsePositiveRate); err != nil {
		return nil, fmt.Errorf("open a filter without a ledger: %w", err)
	}
	for _, k := range common.Kinds.All() {
		if k.Limit > 0 {
			return nil, fmt.Errorf(
				"open a filter without a ledger: kind %q: %w", k.Name, &NoLedgerError{"a limit"},
			)
		}
		if k.Effect == Keep {
			return nil, fmt.Errorf(
				"open a filter without a ledger: kind %q: %w", k.Name, &NoLedgerError{"a kind that keeps"},
			)
		}
	}
	rates := common.Kinds.Rates(common.FalsePositiveRate)
	alone, err := pages.OpenAlone(ctx, pages.AloneConfig{
		Store: c.Store, Pages: c.Pages, KeyRate: rates.Key, Kinds: common.Kinds.plainRows(),
		Now: c.Now, Logger: common.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open a filter without a ledger: %w", err)
	}
	p := &Plain{
		reader: reader{
			source: alone, inside: alone, kinds: common.Kinds, rates: rates, weights: alone.Weights(),
		},
		pages:   alone,
		persist: common.Persist,
	}
	if err := p.openWindows(c.Store, common.Logger); err != nil {
		p.Close()
		return nil, fmt.Errorf("open a filter without a ledger: %w", err)
	}
	return p, nil
}

// plainRows returns the kinds of rows, by name. Without a ledger, nothing remembers with which
// weight a kind was declared first. So weights do not depend on what may change.
func (ks *Kinds) plainRows() map[string]pages.RowKind {
	rows := make(map[string]pages.RowKind)
	for _, k := range ks.all {
		target := string(k.Target)
		row := pages.RowKind{
			Owner: ledger.User, Target: target,
			Weight: pages.Weight(target, k.InText()), Phrases: k.InText(),
		}
		rows[k.Name] = row
		row.Owner, row.Target = target, ledger.User
		rows[k.Mirror()] = row
	}
	return rows
}

// Record records activities as if one after another, and returns the outcome of each: [Stuck] for
// an undo that was not possible. When Record returns nil, every [View] that begins afterwards has
// the activities. Errors are as those of [Recorder.Record].
//
// Consecutive additions share a call of the store, and so do consecutive removals.
func (p *Plain) Record(ctx context.Context, activities []Activity) ([]Outcome, error) {
	return p.NewBatch().recordAll(ctx, activities)
}

// NewBatch returns an empty batch of activities to record.
func (p *Plain) NewBatch() *Batch { return &Batch{r: &p.reader, check: p.check, write: p.write} }

// Confirm returns a [*NoLedgerError].
func (p *Plain) Confirm(context.Context, string, []Claim) ([]Evidence, error) {
	return nil, &NoLedgerError{"to confirm activities"}
}

// Await returns an [*InvalidError], unless nothing is wanted: nothing is followed without a ledger.
func (p *Plain) Await(_ context.Context, want Freshness) error {
	switch {
	case want.After != "":
		return notFollowed(fieldAfter)
	case want.Within > 0:
		return notFollowed(fieldWithin)
	}
	return nil
}

// Behind returns nil: nothing is followed without a ledger.
func (p *Plain) Behind([]Kind) []Degraded { return nil }

// check is [Kinds.Canonical], and refuses activities that only a ledger can keep.
func (p *Plain) check(a Activity) (Activity, error) {
	a, err := p.kinds.Canonical(a)
	if err != nil {
		return a, err
	}
	var field string
	switch k, _ := p.kinds.Named(a.Kind); {
	case !a.Until.IsZero():
		field = "until"
	case k.InLedger() && !a.Since.IsZero():
		field = "since"
	default:
		return a, nil
	}
	return a, &InvalidError{
		Code:    CodeNoLedger,
		Field:   field,
		Message: (&NoLedgerError{"an activity with a time"}).Error(),
	}
}

func (p *Plain) write(ctx context.Context, call *prepared) error {
	if err := p.writeRows(ctx, call); err != nil {
		return fmt.Errorf(
			"record %d activities: %w", len(call.activities), pages.Unavailable("pages", err),
		)
	}
	return nil
}

// writeRows records the activities that pages have, in their order, and makes them durable.
func (p *Plain) writeRows(ctx context.Context, call *prepared) error {
	for from, to := 0, 0; from < len(call.rows); from = to {
		remove := call.row(from).Remove
		for to < len(call.rows) && call.row(to).Remove == remove {
			to++
		}
		if err := p.writeRun(ctx, call, from, to, remove); err != nil {
			return err
		}
	}
	// Nothing else could rebuild the pages.
	return p.persist(ctx)
}

// writeRun writes the rows from to until-1, which all add or all remove.
func (p *Plain) writeRun(ctx context.Context, call *prepared, from, until int, remove bool) error {
	outcomes := call.outcomes
	var keys []string
	var owner []int
	for n := from; n < until; n++ {
		i, a := call.rows[n], call.row(n)
		k, _ := p.kinds.Named(a.Kind)
		own, mirror, mirrored := k.rows(a.User, a.Target)
		keys, owner = append(keys, own.key()), append(owner, i)
		if mirrored {
			keys, owner = append(keys, mirror.key()), append(owner, i)
		}
	}
	change := p.pages.Add
	if remove {
		change = p.pages.Remove
	}
	results, err := change(ctx, keys...)
	if err != nil {
		return err
	}
	for n, result := range results {
		outcomes[owner[n]] = max(outcomes[owner[n]], plainOutcome(result))
	}
	// A key that is Stuck on one side must stay on the other side, too.
	var back []string
	for n, result := range results {
		if result == favfilter.Removed && outcomes[owner[n]] == Stuck {
			back = append(back, keys[n])
		}
	}
	if len(back) > 0 {
		_, err = p.pages.Add(ctx, back...)
	}
	return err
}

// plainOutcome returns the outcome of an activity, given that of one of its keys.
func plainOutcome(o favfilter.Outcome) Outcome {
	switch o {
	case favfilter.Added, favfilter.Removed:
		return Changed
	case favfilter.Stuck:
		return Stuck
	default:
		return Unchanged
	}
}
