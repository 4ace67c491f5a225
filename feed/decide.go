package feed

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/pause"
)

// ledgerDown is why kinds that keep are degraded.
const ledgerDown = "the ledger is unavailable"

// MaxConfirmed is the largest number of activities that one [Request] or [FanoutRequest] has the
// ledger confirm. It allows an activity for every id of the largest feed.
const MaxConfirmed = MaxIDs

// claim is what the ledger can confirm of a hit.
type claim struct {
	owner string // whose activity it is
	list  bool   // the owner is a list
	activity.Claim
}

// confirmation is what the ledger says of a claim.
type confirmation uint8

const (
	waiting   confirmation = iota + 1 // nothing yet
	denied                            // the ledger has no such activity
	confirmed                         // there is
)

// decision decides on candidates by their hits, in feeds and in fan-outs.
type decision struct {
	kinds  []activity.Kind // those of the request
	exact  bool            // only what the ledger confirmed counts, of kinds that it keeps
	owners []string        // of the claims, in the order in which the ledger is asked
	field  string          // that an error names
	// of returns what the ledger can confirm of a hit.
	of func(h *activity.Hit) claim

	claims    map[claim]confirmation // what the ledger is asked about, and what it says
	asked     map[string][]claim     // by owner, in one round of questions
	keepers   map[string][]claim     // by owner, of kinds that keep
	degraded  []activity.Degraded    // kinds that keep, and could not be confirmed
	overruled []activity.Hit         // for which nothing is dropped
}

// byCandidate yields the hits of each candidate.
func byCandidate(hits []activity.Hit) iter.Seq2[int, []activity.Hit] {
	return func(yield func(int, []activity.Hit) bool) {
		for len(hits) > 0 {
			var of []activity.Hit
			if of, hits = cut(hits, hits[0].Candidate); !yield(of[0].Candidate, of) {
				return
			}
		}
	}
}

// cut cuts the hits of a candidate off the front.
func cut(hits []activity.Hit, candidate int) (of, rest []activity.Hit) {
	n := 0
	for n < len(hits) && hits[n].Candidate == candidate {
		n++
	}
	return hits[:n], hits[n:]
}

// confirms reports whether decisions depend on the ledger.
func (d *decision) confirms() bool {
	return d.exact || slices.ContainsFunc(d.kinds, func(k activity.Kind) bool {
		return k.Effect == activity.Keep
	})
}

// keepTimeout is how long an answer that is not exact waits for the ledger: as long as feeds wait
// for a poll and for a question about their page.
const keepTimeout = 2 * time.Second

// confirm asks the ledger to confirm what the answer depends on, in one query for each owner. For
// an exact answer that is the first reason to drop each candidate, and annotations. If the ledger
// denies a reason, confirm asks in the same way about all others of that candidate. For any answer
// it is what kinds that keep would overrule drops with, in one more query. If that fails, they keep
// nothing.
func (d *decision) confirm(ctx context.Context, activities Activities, hits []activity.Hit) error {
	if !d.confirms() {
		return nil
	}
	d.claims, d.keepers = make(map[claim]confirmation), make(map[string][]claim)
	open := make([][]activity.Hit, 0, len(hits))
	for _, of := range byCandidate(hits) {
		open = append(open, of)
	}
	for _, all := range []bool{false, true} {
		d.asked = make(map[string][]claim)
		undecided := open[:0]
		for _, of := range open {
			if d.claimReasons(of, all) {
				undecided = append(undecided, of)
			}
			if len(d.claims) > MaxConfirmed {
				return tooManyClaims(d.field)
			}
		}
		open = undecided
		for _, owner := range d.owners {
			if err := d.ask(ctx, activities, owner, d.asked[owner]); err != nil {
				return err
			}
		}
	}
	return d.confirmKeepers(ctx, activities)
}

// confirmKeepers asks about what kinds that keep would overrule drops with, for confirm.
func (d *decision) confirmKeepers(ctx context.Context, activities Activities) error {
	var unkept []string // owners whose claims could not be confirmed
	ask := func(ctx context.Context) (err error) {
		unkept = nil
		for _, owner := range d.owners {
			if askErr := d.ask(ctx, activities, owner, d.keepers[owner]); askErr != nil {
				unkept, err = append(unkept, owner), askErr
			}
		}
		return err
	}
	if d.exact {
		return ask(ctx)
	}
	if err := pause.Within(ctx, keepTimeout, ask); err != nil && ctx.Err() != nil {
		return err
	}
	for _, owner := range unkept {
		d.degrade(d.keepers[owner])
	}
	return nil
}

func tooManyClaims(field string) error {
	return invalid(
		activity.CodeTooManyIDs, field,
		"more than %d activities for the ledger to confirm", MaxConfirmed,
	)
}

// ask asks the ledger about claims of one owner.
func (d *decision) ask(
	ctx context.Context, activities Activities, owner string, claims []claim,
) error {
	asked := make([]activity.Claim, len(claims))
	for i, c := range claims {
		asked[i] = c.Claim
	}
	evidence, err := activities.Confirm(ctx, owner, asked)
	for i, e := range evidence {
		if d.claims[claims[i]] = denied; e != (activity.Evidence{}) {
			d.claims[claims[i]] = confirmed
		}
	}
	return err
}

// degrade notes the kinds whose claims could not be confirmed.
func (d *decision) degrade(claims []claim) {
	for i := range d.kinds {
		k := &d.kinds[i]
		isNoted := func(d activity.Degraded) bool { return d.Kind == k.Name }
		noted := slices.ContainsFunc(d.degraded, isNoted)
		if !noted && slices.ContainsFunc(claims, func(c claim) bool { return c.Kind == k }) {
			d.degraded = append(d.degraded, activity.Degraded{Kind: k.Name, Reason: ledgerDown})
		}
	}
}

// claim returns what the ledger says of a hit. A new claim is added to those that it is asked
// about.
func (d *decision) claim(to map[string][]claim, h *activity.Hit) confirmation {
	c := d.of(h)
	said, known := d.claims[c]
	if !known {
		said = waiting
		d.claims[c] = waiting
		to[c.owner] = append(to[c.owner], c)
	}
	return said
}

// claimReasons claims the first reason to drop a candidate, or all that come before one that is
// confirmed, with what could overrule them. A reason that could be overruled does not end it. After
// all reasons come annotations. It reports whether the candidate waits for the ledger.
func (d *decision) claimReasons(hits []activity.Hit, all bool) (waits bool) {
	for i := range hits {
		h := &hits[i]
		if h.Kind.Effect != activity.Drop {
			continue
		}
		said := confirmed
		if d.exact && h.Kind.InLedger() {
			said = d.claim(d.asked, h)
		}
		waits = waits || said == waiting
		overrulable := false
		for keep := range over(hits, h) {
			d.claim(d.keepers, keep)
			overrulable = true
		}
		if !overrulable && (said == confirmed || !all) {
			return waits
		}
	}
	for i := range hits {
		if h := &hits[i]; d.exact && h.Kind.Effect == activity.Annotate && h.Kind.InLedger() {
			d.claim(d.asked, h)
		}
	}
	return waits
}

// over yields those of a candidate's hits that overrule, if they are confirmed, that it is dropped
// for another.
func over(hits []activity.Hit, drop *activity.Hit) iter.Seq[*activity.Hit] {
	return func(yield func(*activity.Hit) bool) {
		for i := range hits {
			keep := &hits[i]
			if overrules(keep.Kind, drop.Kind, keep.ID, drop.ID, drop.List) && !yield(keep) {
				return
			}
		}
	}
}

// overrules reports whether a kind that keeps overrules, because of one id of a post, that the post
// is dropped for another by a list; "": by the viewer. It does unless both are of the same facet,
// such as two users. All ids of a post's content count as one.
func overrules(keep, drop *activity.Kind, of, id, list string) bool {
	name := drop.Name
	if list != "" {
		name = activity.Lists
	}
	return keep.Effect == activity.Keep && slices.Contains(keep.Over, name) &&
		(of == id || keep.Target != drop.Target || keep.Target == activity.Post)
}

// counts reports whether a hit counts. In an exact answer, the ledger says so.
func (d *decision) counts(h *activity.Hit) bool {
	return !d.exact || !h.Kind.InLedger() || d.claims[d.of(h)] == confirmed
}

// reason returns the first of a candidate's hits for which it is dropped; nil: none.
func (d *decision) reason(hits []activity.Hit) *activity.Hit {
next:
	for i := range hits {
		h := &hits[i]
		if h.Kind.Effect != activity.Drop || !d.counts(h) {
			continue
		}
		for keep := range over(hits, h) {
			if d.claims[d.of(keep)] == confirmed {
				d.overruled = append(d.overruled, *h)
				continue next
			}
		}
		return h
	}
	return nil
}
