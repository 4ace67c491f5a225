package feed

import (
	"context"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
)

// claim is a report of a view: that the viewer has the i-th kind with id.
type claim struct {
	i  int
	id string
}

// overruled is a claim for which a post is not dropped, because a kind that keeps overrules it.
type overruled struct {
	at int // the post's index
	claim
}

// claims are what the ledger is to confirm, each once.
type claims struct {
	view  *activity.View
	kinds []activity.Kind
	known map[claim]bool
	all   []activity.Claim
	of    []claim // all, as claims of the view
}

// add adds the claim that the viewer has the i-th kind with id, if the view reports it.
func (c *claims) add(i int, id string) {
	key := claim{i, id}
	if _, known := c.known[key]; known || c.view.Check(i, id) == activity.None {
		return
	}
	c.known[key] = false
	c.all = append(c.all, activity.Claim{Kind: c.kinds[i], Target: id})
	c.of = append(c.of, key)
}

// confirm asks the ledger, in one query, to confirm what the answer depends on. For an exact feed
// that is everything that the view reports about the posts. For others it is only what kinds that
// keep would overrule drops with: if that fails, they keep nothing.
func (l *look) confirm(ctx context.Context, activities activity.Activities, req Request) error {
	if !l.exact && l.keeps == l.marks {
		return nil
	}
	r, err := activity.WithLedger(activities, "to confirm activities")
	if err != nil {
		return err
	}
	c := claims{view: l.view, kinds: l.all, known: make(map[claim]bool)}
	for p := range l.hashed.found(len(req.Posts)) {
		if l.exact {
			l.claimAll(&c, &req.Posts[p])
		} else {
			l.claimKeeps(&c, &req.Posts[p], p)
		}
	}
	l.confirmed = c.known
	evidence, err := r.Confirm(ctx, l.viewer, c.all)
	if err != nil {
		if l.exact || ctx.Err() != nil {
			return err
		}
		l.degradeKeeps(c.of)
		return nil
	}
	for n, e := range evidence {
		l.confirmed[c.of[n]] = e.Direct != nil || e.Reverse != nil
	}
	return nil
}

// claimAll adds what the view reports about a post.
func (l *look) claimAll(c *claims, p *Post) {
	for i := range l.all[:l.keeps] {
		if !l.all[i].InLedger() {
			continue
		}
		for _, id := range p.targets(&l.all[i], l.viewer) {
			c.add(i, id)
		}
	}
}

// claimKeeps adds what could overrule that post number n is dropped.
func (l *look) claimKeeps(c *claims, p *Post, n int) {
	for i := range l.drops {
		for j, id := range p.targets(&l.all[i], l.viewer) {
			if l.has(i, id, n, j) {
				l.eachOver(i, id, p, func(k int, of string) bool {
					c.add(k, of)
					return true
				})
			}
		}
	}
}

// degradeKeeps notes the kinds whose claims could not be confirmed.
func (l *look) degradeKeeps(of []claim) {
	for k := l.marks; k < l.keeps; k++ {
		if slices.ContainsFunc(of, func(c claim) bool { return c.i == k }) {
			l.degraded = append(l.degraded, activity.Degraded{Kind: l.all[k].Name, Reason: "the ledger is unavailable"})
		}
	}
}

// overrules reports whether a kind that keeps overrules that p is dropped for id of the i-th kind.
func (l *look) overrules(i int, id string, p *Post) bool {
	overruled := false
	l.eachOver(i, id, p, func(k int, of string) bool {
		overruled = l.confirmed[claim{k, of}]
		return !overruled
	})
	return overruled
}

// eachOver calls do with each key that would overrule that p is dropped for id of the i-th kind:
// the k-th kind, with an id on the post. It ends when do returns false.
func (l *look) eachOver(i int, id string, p *Post, do func(k int, of string) bool) {
	drop := &l.all[i]
	for k := l.marks; k < l.keeps; k++ {
		keep := &l.all[k]
		if !slices.Contains(keep.Over, drop.Name) {
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
