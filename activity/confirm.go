package activity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// Claim says that a user has an activity of Kind with Target. A View reports it, and it may be a
// false positive.
type Claim struct {
	Kind   *Kind  // one that the ledger keeps
	Target string // as it is recorded: see [Fold.ID]
	// Sides are those on which the activity may be: Direct is the user's, and Reverse the target's
	// with the user, of a two-way kind or one with Fanout.
	Sides Match
}

// items returns the user's rows that the claim is about, on each of its sides. One without a kind
// is none.
func (c *Claim) items(user string) (direct, reverse ledger.Item) {
	own, other := c.Kind.facing(user, c.Target)
	if c.Sides&Direct != 0 {
		direct = own.item()
	}
	if c.Sides&Reverse != 0 {
		reverse = other.item()
	}
	return direct, reverse
}

// Evidence is what the ledger has about a [Claim]. For a false positive both fields are nil.
type Evidence struct {
	Direct  *Item // the user's activity; nil: none
	Reverse *Item // the target's activity, with the target's id; nil: none
}

// Confirm asks the ledger, in one query, which of the claims about user are true. If the user has
// the name of a phrase that a fan-out claims as well, that takes a second query. It returns the
// evidence in the order of claims, and counts claims without evidence as false positives. Errors
// are an [*UnavailableError], or that of ctx.
func (r *Recorder) Confirm(ctx context.Context, user string, claims []Claim) ([]Evidence, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	evidence, err := r.evidence(ctx, user, claims, r.pages.Now())
	if err != nil {
		return nil, fmt.Errorf("confirm %d activities: %w", len(claims), err)
	}
	for _, e := range evidence {
		if e == (Evidence{}) {
			r.tally.falsePositives.Add(1)
		}
	}
	r.tally.confirmed.Add(uint64(len(claims)))
	return evidence, nil
}

// evidence returns what the ledger has about the claims, without activities that have ended by now.
func (r *Recorder) evidence(
	ctx context.Context, user string, claims []Claim, now time.Time,
) ([]Evidence, error) {
	// The rows of a user, and those of a phrase of the same name, may be in different places.
	items := make(map[uint64][]ledger.Item, 1)
	for i := range claims {
		c := &claims[i]
		direct, reverse := c.items(user)
		if direct.Kind != "" {
			hash := r.userHash(user)
			items[hash] = append(items[hash], direct)
		}
		if reverse.Kind != "" {
			hash := r.ownerHash(c.Kind, &row{kind: reverse.Kind, owner: user})
			items[hash] = append(items[hash], reverse)
		}
	}
	rows := make(map[ledger.Item]*Item, len(claims))
	for hash, some := range items {
		found, err := r.lookup(ctx, hash, user, some, now)
		if err != nil {
			return nil, err
		}
		maps.Copy(rows, found)
	}
	evidence := make([]Evidence, len(claims))
	for i := range claims {
		direct, reverse := claims[i].items(user)
		evidence[i] = Evidence{Direct: rows[direct], Reverse: rows[reverse]}
	}
	return evidence, nil
}

// lookup finds rows of an owner in the ledger, given the hash that places it. It returns none that
// has ended by now.
func (r *Recorder) lookup(
	ctx context.Context, hash uint64, owner string, items []ledger.Item, now time.Time,
) (map[ledger.Item]*Item, error) {
	q := ledger.LookupQuery{Hash: hash, Owner: owner, Now: now, Items: items}
	rows, err := ask(r, func() ([]ledger.Row, error) { return r.ledger.Lookup(ctx, q) })
	if err != nil {
		return nil, err
	}
	found := make(map[ledger.Item]*Item, len(rows))
	for _, row := range rows {
		found[ledger.Item{Kind: row.Kind, Target: row.Target}] = &Item{
			Target: row.Target,
			Since:  row.Since,
			Until:  row.Until,
		}
	}
	return found, nil
}

// Truth is what the ledger has about an answer that was given from a page.
type Truth struct {
	// Evidence is in the order of the claims. It includes activities that have ended but are not
	// removed yet, because their keys are still in the page.
	Evidence []Evidence

	// Sequence is the ledger's sequence of the page after the evidence was read; 0 if nobody is on
	// the page any more.
	Sequence uint64

	// Same reports whether that sequence is the one that was asked about. If so, the page did not
	// change in between, and it must hold exactly the evidence. Same is also true if an activity
	// got another end, or was recorded again after it had ended, since neither changes a page.
	Same bool
}

// Truth asks the ledger about claims on user, whose page a View has read as at says. It takes two
// queries. Unlike [Recorder.Confirm], Truth counts nothing. Errors are an [*UnavailableError], or
// that of ctx.
func (r *Recorder) Truth(
	ctx context.Context, user string, at pages.PageAt, claims []Claim,
) (Truth, error) {
	evidence, err := r.evidence(ctx, user, claims, time.Time{})
	if err != nil {
		return Truth{}, fmt.Errorf("read the truth of %d activities: %w", len(claims), err)
	}
	// After the evidence: sequences only rise, and a page is never ahead of its ledger.
	sequence, err := r.ledger.Sequence(ctx, at.Page)
	if errors.Is(err, ledger.ErrGone) {
		return Truth{Evidence: evidence}, nil
	}
	if err != nil {
		err = pages.Unavailable("ledger", err)
		return Truth{}, fmt.Errorf("read the truth of page %d: %w", at.Page, err)
	}
	return Truth{evidence, sequence, sequence == at.Sequence}, nil
}
