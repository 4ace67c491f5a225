package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// Claim is what a View reports, and what may be a false positive: that a user has an activity of a
// kind with Target.
type Claim struct {
	Kind   Kind // one that the ledger keeps
	Target string
}

// Evidence is what the ledger has of a [Claim]: none of the two for a false positive.
type Evidence struct {
	Direct  *Item // what the user does; nil: nothing
	Reverse *Item // for a two-way kind, what the target does, with the target's id; nil: nothing
}

// Confirm asks the ledger, in one query, which of the claims about user are true. The
// evidence is in the order of claims. What is not true is counted as a false positive. Errors are an
// [*UnavailableError], or that of ctx.
func (r *Recorder) Confirm(ctx context.Context, user string, claims []Claim) ([]Evidence, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	evidence, err := r.evidence(ctx, user, claims, r.now())
	if err != nil {
		return nil, fmt.Errorf("confirm %d activities: %w", len(claims), err)
	}
	for _, e := range evidence {
		if e == (Evidence{}) {
			r.stats.falsePositives.Add(1)
		}
	}
	r.stats.confirmed.Add(uint64(len(claims)))
	return evidence, nil
}

// evidence is what the ledger has of the claims about user, what has ended by now left out.
func (r *Recorder) evidence(ctx context.Context, user string, claims []Claim, now time.Time) ([]Evidence, error) {
	items := make([]ledger.Item, 0, 2*len(claims))
	for _, c := range claims {
		items = append(items, ledger.Item{Kind: c.Kind.Name, Target: c.Target})
		if c.Kind.Reverse != "" {
			items = append(items, ledger.Item{Kind: c.Kind.Reverse, Target: c.Target})
		}
	}
	rows, err := r.lookup(ctx, user, items, now)
	if err != nil {
		return nil, err
	}
	evidence := make([]Evidence, len(claims))
	for i, c := range claims {
		evidence[i].Direct = rows[ledger.Item{Kind: c.Kind.Name, Target: c.Target}]
		if c.Kind.Reverse != "" {
			evidence[i].Reverse = rows[ledger.Item{Kind: c.Kind.Reverse, Target: c.Target}]
		}
	}
	return evidence, nil
}

// lookup finds rows of user in the ledger, those that have ended by now left out.
func (r *Recorder) lookup(ctx context.Context, user string, items []ledger.Item, now time.Time) (map[ledger.Item]*Item, error) {
	rows, err := r.ledger.Lookup(ctx, ledger.LookupQuery{
		Hash: userHash(r.identity.Seed, user), Owner: user, Now: now, Items: items,
	})
	if err != nil {
		return nil, unavailable("ledger", err)
	}
	found := make(map[ledger.Item]*Item, len(rows))
	for _, row := range rows {
		found[ledger.Item{Kind: row.Kind, Target: row.Target}] = &Item{Target: row.Target, Since: row.Since, Until: row.Until}
	}
	return found, nil
}
