package feed

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
)

// ledgerDown is why kinds that keep are degraded.
const ledgerDown = "the ledger is unavailable"

// MaxConfirmed is the largest number of activities that one [Request] or [FanoutRequest] has the
// ledger confirm. It allows an activity for every id of the largest feed.
const MaxConfirmed = MaxIDs

// claim is a report of the v-th view: that its owner has the i-th kind with id.
type claim struct {
	v, i int
	id   string
}

// overruled is a claim for which a post is not dropped, because a kind that keeps overrules it.
type overruled struct {
	at int // the post's index
	claim
}

// confirmation is what the ledger says of a claim.
type confirmation uint8

const (
	waiting   confirmation = iota + 1 // nothing yet
	denied                            // the ledger has no such activity
	confirmed                         // there is
)

// claim returns what the ledger says of a claim. A new one is added to those that the ledger is
// asked about.
func (l *look) claim(to *[]claim, c claim) confirmation {
	said, known := l.claims[c]
	if !known {
		said = waiting
		l.claims[c] = waiting
		*to = append(*to, c)
	}
	return said
}

// confirm asks the ledger to confirm what the answer depends on, in one query for the viewer, and
// one for each list. For an exact feed that is the first reason to drop each post, and annotations.
// If the ledger denies a reason, confirm asks in the same way about all others of that post. For
// any feed it is what kinds that keep would overrule drops with, in one more query. If that fails,
// they keep nothing.
func (l *look) confirm(ctx context.Context, activities activity.Activities, req Request) error {
	if !l.exact && l.keeps == l.marks {
		return nil
	}
	r, err := activity.WithLedger(activities, "to confirm activities")
	if err != nil {
		return err
	}
	l.claims = make(map[claim]confirmation)
	open := slices.Collect(l.hashed.found(len(req.Posts)))
	for _, all := range []bool{false, true} {
		l.asked = make([][]claim, 1+len(l.lists))
		undecided := open[:0]
		for _, p := range open {
			if l.claimReasons(&req.Posts[p], p, all) {
				undecided = append(undecided, p)
			}
			if len(l.claims) > MaxConfirmed {
				return tooManyClaims("posts")
			}
		}
		open = undecided
		for v, claims := range l.asked {
			if err := l.ask(ctx, r, v, claims); err != nil {
				return err
			}
		}
	}
	err = l.ask(ctx, r, 0, l.keepers)
	if err != nil && (l.exact || ctx.Err() != nil) {
		return err
	}
	if err != nil {
		l.degradeKeeps()
	}
	return nil
}

func tooManyClaims(field string) error {
	return tooMany(field, fmt.Sprintf("more than %d activities for the ledger to confirm", MaxConfirmed))
}

// ask asks the ledger about claims of the v-th view.
func (l *look) ask(ctx context.Context, r *activity.Recorder, v int, claims []claim) error {
	owner := l.viewer
	if v > 0 {
		owner = l.lists[v-1]
	}
	asked := make([]activity.Claim, len(claims))
	for n, c := range claims {
		asked[n] = activity.Claim{Kind: l.all[c.i], Target: c.id}
	}
	evidence, err := r.Confirm(ctx, owner, asked)
	for n, e := range evidence {
		if l.claims[claims[n]] = denied; e.Direct != nil || v == 0 && e.Reverse != nil {
			l.claims[claims[n]] = confirmed
		}
	}
	return err
}

// claimReasons claims the first reason to drop post number n, or all that come before one that is
// confirmed, with what could overrule them. A reason that could be overruled does not end it. After
// all reasons come annotations. It reports whether the post waits for the ledger.
func (l *look) claimReasons(p *Post, n int, all bool) (waits bool) {
	for v := range 1 + len(l.lists) {
		for i := range l.drops {
			for j, id := range p.targets(&l.all[i], l.viewer) {
				if !l.reports(v, i, id, n, j) {
					continue
				}
				said := confirmed
				if l.exact && l.all[i].InLedger() {
					said = l.claim(&l.asked[v], claim{v, i, id})
				}
				waits = waits || said == waiting
				if !l.claimKeeps(v, i, id, p) && (said == confirmed || !all) {
					return waits
				}
			}
		}
	}
	if l.exact {
		l.claimAnnotations(p, n)
	}
	return waits
}

// claimAnnotations claims what annotates post number n.
func (l *look) claimAnnotations(p *Post, n int) {
	for i := l.drops; i < l.marks; i++ {
		for j, id := range p.targets(&l.all[i], l.viewer) {
			if l.all[i].InLedger() && l.reports(0, i, id, n, j) {
				l.claim(&l.asked[0], claim{0, i, id})
			}
		}
	}
}

// claimKeeps claims what could overrule that p is dropped for id of the i-th kind in the v-th view.
// It reports whether anything could.
func (l *look) claimKeeps(v, i int, id string, p *Post) (could bool) {
	l.eachOver(v, i, id, p, func(k int, of string) bool {
		if l.view.Check(k, of) != activity.None {
			l.claim(&l.keepers, claim{0, k, of})
			could = true
		}
		return true
	})
	return could
}

// degradeKeeps notes the kinds that keep whose claims could not be confirmed.
func (l *look) degradeKeeps() {
	for k := l.marks; k < l.keeps; k++ {
		if slices.ContainsFunc(l.keepers, func(c claim) bool { return c.i == k }) {
			l.degraded = append(l.degraded, activity.Degraded{Kind: l.all[k].Name, Reason: ledgerDown})
		}
	}
}

// overrules reports whether a kind that keeps overrules that p is dropped for id of the i-th kind
// in the v-th view.
func (l *look) overrules(v, i int, id string, p *Post) bool {
	overruled := false
	l.eachOver(v, i, id, p, func(k int, of string) bool {
		overruled = l.claims[claim{0, k, of}] == confirmed
		return !overruled
	})
	return overruled
}

// eachOver calls do with each key of the viewer that would overrule a drop: that of p for id, by
// the i-th kind in the v-th view. The key is the k-th kind, with an id on the post. eachOver ends
// when do returns false.
func (l *look) eachOver(v, i int, id string, p *Post, do func(k int, of string) bool) {
	drop := &l.all[i]
	name := drop.Name
	if v > 0 {
		name = activity.Lists
	}
	for k := l.marks; k < l.keeps; k++ {
		keep := &l.all[k]
		if !slices.Contains(keep.Over, name) {
			continue
		}
		for _, of := range p.targets(keep, l.viewer) {
			if coversID(keep, drop, of, id) && !do(k, of) {
				return
			}
		}
	}
}

// coversID reports whether a kind that keeps overrules, because of one id of a post, that the post
// is dropped for another. It does unless both are of the same facet, such as two users. All ids of
// a post's content count as one.
func coversID(keep, drop *activity.Kind, of, id string) bool {
	return of == id || keep.Target != drop.Target || keep.Target == activity.Post
}
