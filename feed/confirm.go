package feed

import (
	"context"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
)

// ledgerDown is why kinds that keep are degraded.
const ledgerDown = "the ledger is unavailable"

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

// claims are what the ledger is to confirm, each once.
type claims struct {
	known map[claim]bool
	all   [][]claim // of each view
}

// claim adds the claim that the owner of the v-th view has the i-th kind with id, if the view
// reports it.
func (l *look) claim(c *claims, v, i int, id string) {
	key := claim{v, i, id}
	if _, known := c.known[key]; known || l.of(v).Check(i, id) == activity.None {
		return
	}
	c.known[key] = false
	c.all[v] = append(c.all[v], key)
}

// confirm asks the ledger to confirm what the answer depends on, in one query for the viewer, and
// one for each list. For an exact feed that is everything that the views report about the posts.
// For others it is only what kinds that keep would overrule drops with: if that fails, they keep
// nothing.
func (l *look) confirm(ctx context.Context, activities activity.Activities, req Request) error {
	if !l.exact && l.keeps == l.marks {
		return nil
	}
	r, err := activity.WithLedger(activities, "to confirm activities")
	if err != nil {
		return err
	}
	c := claims{known: make(map[claim]bool), all: make([][]claim, 1+len(l.lists))}
	for p := range l.hashed.found(len(req.Posts)) {
		if l.exact {
			l.claimAll(&c, &req.Posts[p])
		} else {
			l.claimKeeps(&c, &req.Posts[p], p)
		}
	}
	l.confirmed = c.known
	for v, all := range c.all {
		if err := l.ask(ctx, r, v, all); err != nil {
			if l.exact || ctx.Err() != nil {
				return err
			}
			l.degradeKeeps(all)
		}
	}
	return nil
}

// ask asks the ledger about the claims of the v-th view.
func (l *look) ask(ctx context.Context, r *activity.Recorder, v int, all []claim) error {
	owner := l.viewer
	if v > 0 {
		owner = l.lists[v-1]
	}
	asked := make([]activity.Claim, len(all))
	for n, c := range all {
		asked[n] = activity.Claim{Kind: l.all[c.i], Target: c.id}
	}
	evidence, err := r.Confirm(ctx, owner, asked)
	for n, e := range evidence {
		l.confirmed[all[n]] = e.Direct != nil || v == 0 && e.Reverse != nil
	}
	return err
}

// claimAll adds what the views report about a post.
func (l *look) claimAll(c *claims, p *Post) {
	for v := range 1 + len(l.lists) {
		kinds := l.keeps
		if v > 0 {
			kinds = l.drops
		}
		for i := range l.all[:kinds] {
			if !l.all[i].InLedger() {
				continue
			}
			for _, id := range p.targets(&l.all[i], l.viewer) {
				l.claim(c, v, i, id)
			}
		}
	}
}

// claimKeeps adds what could overrule that post number n is dropped.
func (l *look) claimKeeps(c *claims, p *Post, n int) {
	for v := range 1 + len(l.lists) {
		for i := range l.drops {
			for j, id := range p.targets(&l.all[i], l.viewer) {
				if l.has(v, i, id, n, j) {
					l.eachOver(v, i, id, p, func(k int, of string) bool {
						l.claim(c, 0, k, of)
						return true
					})
				}
			}
		}
	}
}

// degradeKeeps notes the kinds whose claims could not be confirmed.
func (l *look) degradeKeeps(of []claim) {
	for k := l.marks; k < l.keeps; k++ {
		if slices.ContainsFunc(of, func(c claim) bool { return c.i == k }) {
			l.degraded = append(l.degraded, activity.Degraded{Kind: l.all[k].Name, Reason: ledgerDown})
		}
	}
}

// overrules reports whether a kind that keeps overrules that p is dropped for id of the i-th kind
// in the v-th view.
func (l *look) overrules(v, i int, id string, p *Post) bool {
	overruled := false
	l.eachOver(v, i, id, p, func(k int, of string) bool {
		overruled = l.confirmed[claim{0, k, of}]
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
