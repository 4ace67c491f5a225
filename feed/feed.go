// Package feed decides which candidates of a feed a viewer sees.
package feed

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
)

// Answer lists the kept and the dropped candidates of a request.
type Answer struct {
	// Kept has what the viewer sees, and Dropped the rest, both in ascending order of the index in
	// Request.Posts. Each candidate before Next is in one of them. If Next is 0, every candidate
	// is.
	Kept    []int // indexes in Request.Posts
	Dropped []Dropped

	// Annotated has, for each kind of Request.Annotate, the kept candidates that it annotates:
	// indexes in Request.Posts, in ascending order.
	Annotated [][]int

	// Next is the index of the first candidate that was not checked, because the limit was reached;
	// 0 if all were checked. Request the rest with Posts[Next:].
	Next int

	// Degraded names the kinds that could not be checked: posts may be kept that should have been
	// dropped, or the other way round if the kind keeps posts. It also names the kind seen if the
	// kept posts could not be recorded.
	Degraded []activity.Degraded
}

// Dropped is a candidate that is left out, with the first reason found.
type Dropped struct {
	At    int // its index in Request.Posts
	Kind  string
	Actor string // the user that was found, for kinds that target users
	// Target is the id that was found, for kinds that do not target users, unless it is the post's
	// own.
	Target string

	// List is the list of the request that drops the post; "": the viewer does.
	List string

	// Unconfirmed is set in answers to exact requests only. It reports that the kind has a window,
	// so that nothing can tell whether this is a false positive. To avoid these, leave such kinds
	// out of Request.Kinds.
	Unconfirmed bool
}

// notRecorded begins the reason why an answered feed is degraded after all.
const notRecorded = "what is kept could not be recorded: "

// Filter checks every candidate against the viewer's activities, which it reads in one round trip.
//
// Filter misses no activity that was acknowledged before the call. The only exception is a Recorder
// with replicas: it may miss what another process wrote less than a staleness bound ago. A clean
// candidate is dropped with the false-positive rate of activities, times the number of its actors
// for kinds that target users. Viewers never lose posts to a kind that targets users because they
// are the author or an actor themselves, nor because their own post names somebody: see
// [Post.Roles].
//
// With RecordSeen, kept posts count as seen when Filter returns: later feeds of the viewer drop
// them until the window ends. If they cannot be recorded, Degraded names the kind, and the answer
// is otherwise valid.
//
// A kind that keeps counts only if the ledger confirms it, with one query for the feed. If the
// ledger cannot be read, its posts are dropped, and Degraded names the kind.
//
// Errors are an [*activity.InvalidError], whose field names the part of the request, an
// [*activity.UnavailableError], or that of ctx. A request that is exact fails with an
// [*activity.NoLedgerError] if there is no ledger.
func Filter(ctx context.Context, activities activity.Activities, req Request) (Answer, error) {
	return filter(ctx, activities, req, nil)
}

// filter is Filter. It fills sampled, if that is not nil, with what a comparison of the answer
// needs.
func filter(ctx context.Context, activities activity.Activities, req Request, sampled *Sampled) (Answer, error) {
	c, err := compile(activities.Kinds(), req)
	if err != nil {
		return Answer{}, err
	}
	view, err := activities.View(ctx, req.Viewer, c.all, req.Lists...)
	if err != nil {
		return Answer{}, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
	}
	search := view.Search()
	defer search.Release()
	hashed := hashAhead(search, &c, req.Posts[:ahead(req)])
	hashed.look(&c, view)
	l := look{checks: c, viewer: req.Viewer, view: view, lists: req.Lists, hashed: hashed, exact: req.Exact}
	if err := l.confirm(ctx, activities, req); err != nil {
		return Answer{}, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
	}
	a := l.walk(req)
	a.Degraded = append(slices.Clone(view.Degraded), l.degraded...)
	sampled.answered(&l, a)
	if req.RecordSeen && len(a.Kept) > 0 {
		if err := a.recordSeen(ctx, view, c.seen, req); err != nil {
			return Answer{}, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
		}
	}
	return a, nil
}

// recordSeen records the kept posts as the i-th kind of the view. It fails only if ctx ends. The
// answer reports any other failure.
func (a *Answer) recordSeen(ctx context.Context, view *activity.View, i int, req Request) error {
	if !view.Checks(i) { // it is degraded already
		for n := range a.Degraded {
			if a.Degraded[n].Kind == activity.Seen {
				a.Degraded[n].Reason += ": what is kept could not be recorded either"
			}
		}
		return nil
	}
	if req.MayRecord != nil {
		if err := req.MayRecord(); err != nil {
			a.Degraded = append(a.Degraded, activity.Degraded{Kind: activity.Seen, Reason: notRecorded + err.Error()})
			return nil //nolint:nilerr // the answer says it
		}
	}
	ids := make([]string, len(a.Kept))
	for n, at := range a.Kept {
		ids[n] = req.Posts[at].canonical()
	}
	err := view.Record(ctx, i, ids)
	if err != nil && ctx.Err() == nil {
		a.Degraded = append(a.Degraded, activity.Degraded{Kind: activity.Seen, Reason: notRecorded + "the page store is unavailable"})
		return nil
	}
	return err
}

// look is one check of a viewer's candidates.
type look struct {
	checks

	viewer string
	view   *activity.View // of the viewer
	lists  []string
	hashed hashed
	exact  bool // only what the ledger confirmed counts, of kinds that it keeps
	// claims are what the ledger is asked about, and what it says of each. asked are those of each
	// view in a round of questions; keepers are those of kinds that keep.
	claims    map[claim]confirmation
	asked     [][]claim
	keepers   []claim
	degraded  []activity.Degraded // kinds that keep, and could not be confirmed
	overruled []overruled         // drops that did not count
}

// of returns the v-th view: the viewer's, and then those of the lists.
func (l *look) of(v int) *activity.View {
	if v == 0 {
		return l.view
	}
	return l.view.Lists[v-1]
}

// has reports whether the owner of the v-th view has the i-th kind with id, the n-th target of that
// kind on post p. In an exact feed, the ledger says so.
func (l *look) has(v, i int, id string, p, n int) bool {
	if l.exact && l.all[i].InLedger() {
		return l.claims[claim{v, i, id}] == confirmed
	}
	return l.reports(v, i, id, p, n)
}

// reports is has, of the v-th view, with false positives.
func (l *look) reports(v, i int, id string, p, n int) bool {
	if p < l.hashed.posts {
		return l.hashed.search.Match(l.of(v), i, l.hashed.place(l.all[i].Target, p, n)) != activity.None
	}
	return l.of(v).Check(i, id) != activity.None
}

// walk decides on the candidates in order.
func (l *look) walk(req Request) Answer {
	a := Answer{Annotated: make([][]int, l.marks-l.drops)}
	kept := make([]int, 0, len(req.Posts))
	var shown ids
	if req.RecordSeen {
		shown = make(ids, len(req.Posts))
	}
	hits := l.hashed.hits
	for i := range req.Posts {
		p := &req.Posts[i]
		if req.Limit > 0 && len(kept) == req.Limit {
			a.Next = i
			break
		}
		hit := i >= l.hashed.posts
		if len(hits) > 0 && hits[0] == i {
			hit, hits = true, hits[1:]
		}
		if hit {
			if d, drop := l.reason(p, i); drop {
				a.Dropped = append(a.Dropped, d)
				continue
			}
		}
		if shown != nil {
			if id, again := shown.again(p); again {
				_, target := p.named(activity.Post, id)
				a.Dropped = append(a.Dropped, Dropped{At: i, Kind: activity.Seen, Target: target})
				continue
			}
		}
		if hit {
			l.annotate(&a, p, i)
		}
		kept = append(kept, i)
	}
	a.Kept = kept
	return a
}

// ids is a set of ids of posts.
type ids map[string]bool

// again returns the first of the post's ids that is in the set. If there is none, it adds all.
func (set ids) again(p *Post) (id string, again bool) {
	for _, id := range p.ids(activity.Post) {
		if set[id] {
			return id, true
		}
	}
	for _, id := range p.ids(activity.Post) {
		set[id] = true
	}
	return "", false
}

// annotate notes the kinds that annotate post number n, which is kept.
func (l *look) annotate(a *Answer, p *Post, n int) {
	for k := l.drops; k < l.marks; k++ {
		if l.match(k, p, n) {
			a.Annotated[k-l.drops] = append(a.Annotated[k-l.drops], n)
		}
	}
}

// reason returns the first reason to drop post number n, if there is one.
func (l *look) reason(p *Post, n int) (Dropped, bool) {
	for v := range 1 + len(l.lists) {
		for i := range l.drops {
			k := &l.all[i]
			for j, id := range p.targets(k, l.viewer) {
				if !l.has(v, i, id, n, j) {
					continue
				}
				if l.keeps > l.marks && l.overrules(v, i, id, p) {
					l.overruled = append(l.overruled, overruled{n, claim{v, i, id}})
					continue
				}
				d := Dropped{At: n, Kind: k.Name, Unconfirmed: l.exact && !k.InLedger()}
				if d.Actor, d.Target = p.named(k.Target, id); v > 0 {
					d.List = l.lists[v-1]
				}
				return d, true
			}
		}
	}
	return Dropped{}, false
}

// match reports whether the viewer has the i-th kind with an id on post number n.
func (l *look) match(i int, p *Post, n int) bool {
	for j, id := range p.targets(&l.all[i], l.viewer) {
		if l.has(0, i, id, n, j) {
			return true
		}
	}
	return false
}

// named returns an id of a facet on the post as answers name it: as an actor or as a target. They
// do not name the post's own id.
func (p *Post) named(facet activity.Facet, id string) (actor, target string) {
	switch {
	case facet == activity.User:
		return id, ""
	case facet == activity.Post && id == p.ID:
		return "", ""
	default:
		return "", id
	}
}
