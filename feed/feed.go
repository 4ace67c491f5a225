// Package feed decides which candidates of a feed a viewer gets to see.
package feed

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity"
)

// Answer says of the candidates what becomes of them.
type Answer struct {
	Kept    []Kept // in the order of the request
	Dropped []Dropped

	// Next is the index of the first candidate that was not looked at, because the
	// limit was reached; 0 if all were. Ask for the rest with Posts[Next:].
	Next int

	// Degraded names the kinds that could not be checked: posts are kept that
	// would have been dropped. It also says so if what was kept could not be recorded
	// as seen.
	Degraded []activity.Degraded
}

// Kept is a candidate that the viewer gets to see.
type Kept struct {
	ID    string
	Marks []bool // of Request.Annotate, in its order
}

// Dropped is a candidate that is left out, with the first reason found.
type Dropped struct {
	ID    string
	Kind  string
	Actor string // for kinds that target users: who

	// Unconfirmed says, for an exact request alone, that the kind has a window, so
	// that nobody can tell whether this is a false positive. Leave such kinds out of
	// Request.Kinds to have none.
	Unconfirmed bool
}

// notRecorded is why a feed that is answered is degraded after all.
const notRecorded = "what is kept could not be recorded: "

// Filter checks every candidate against the viewer's activities, which it reads in
// one round trip. Nothing that was acknowledged before Filter was called is missed, but where the
// Recorder reads replicas: there, what another process wrote less than a staleness bound ago may be;
// a clean candidate is dropped with the Recorder's false-positive rate, times the
// number of its actors for kinds that target users. Viewers never lose posts to a
// kind that targets users for being their own author or actor.
//
// With RecordSeen, what is kept counts as seen when Filter returns: a later feed of the
// viewer drops it, for as long as the window lasts. If it cannot be recorded, Degraded names
// the kind and the answer is good otherwise.
//
// Errors are an [*activity.InvalidError], whose field names the part of the request,
// an [*activity.UnavailableError], or that of ctx.
func Filter(ctx context.Context, activities activity.Activities, req Request) (Answer, error) {
	return filter(ctx, activities, req, nil)
}

// filter is Filter, which notes in sampled, if it is not nil, what a later look at the answer has to know.
func filter(ctx context.Context, activities activity.Activities, req Request, sampled *Sampled) (Answer, error) {
	c, err := compile(activities.Kinds(), req)
	if err != nil {
		return Answer{}, err
	}
	view, err := activities.View(ctx, req.Viewer, c.all, c.ids(req.Posts))
	if err != nil {
		return Answer{}, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
	}
	search := view.Search()
	defer search.Release()
	hashed := hashAhead(search, &c, req.Posts[:ahead(req)])
	search.Run(c.marks)
	l := look{checks: c, viewer: req.Viewer, view: view, hashed: hashed, sampled: sampled}
	if req.Exact {
		r, err := activity.WithLedger(activities, "to confirm activities")
		if err == nil {
			err = l.confirm(ctx, r, req.Posts)
		}
		if err != nil {
			return Answer{}, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
		}
	}
	a := l.walk(req)
	a.Degraded = view.Degraded
	sampled.answered(&l, a)
	if req.RecordSeen && len(a.Kept) > 0 {
		if err := a.recordSeen(ctx, view, c.seen, req.MayRecord); err != nil {
			return Answer{}, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
		}
	}
	return a, nil
}

// recordSeen records what is kept as the i-th kind of the view. It fails only with ctx: if it cannot be
// recorded, the answer says so.
func (a *Answer) recordSeen(ctx context.Context, view *activity.View, i int, may func() error) error {
	if !view.Checks(i) { // so it is degraded already
		for n := range a.Degraded {
			if a.Degraded[n].Kind == activity.Seen {
				a.Degraded[n].Reason += ": what is kept could not be recorded either"
			}
		}
		return nil
	}
	if may != nil {
		if err := may(); err != nil {
			a.Degraded = append(a.Degraded, activity.Degraded{Kind: activity.Seen, Reason: notRecorded + err.Error()})
			return nil //nolint:nilerr // the answer says it
		}
	}
	ids := make([]string, len(a.Kept))
	for n, k := range a.Kept {
		ids[n] = k.ID
	}
	err := view.Record(ctx, i, ids)
	if err != nil && ctx.Err() == nil {
		a.Degraded = append(a.Degraded, activity.Degraded{Kind: activity.Seen, Reason: notRecorded + "the page store is unavailable"})
		return nil
	}
	return err
}

// look is one look at a viewer's candidates.
type look struct {
	checks

	viewer    string
	view      *activity.View
	hashed    hashed
	sampled   *Sampled       // nil: the feed is not
	confirmed map[claim]bool // nil: what the view reports is taken for true
}

// claim is what a view reports: the i-th kind with id.
type claim struct {
	i  int
	id string
}

// confirm has the ledger confirm, in one query, what the view reports on any of posts.
func (l *look) confirm(ctx context.Context, r *activity.Recorder, posts []Post) error {
	confirmed := make(map[claim]bool)
	var claims []activity.Claim
	var of []claim
	for i, k := range l.all[:l.marks] {
		if !k.InLedger() {
			continue
		}
		for p := range posts {
			if !l.hashed.hit(p) {
				continue
			}
			for id := range posts[p].targets(k, l.viewer) {
				key := claim{i, id}
				if _, known := confirmed[key]; known {
					continue
				}
				match := l.view.Check(i, id)
				if match == activity.None {
					continue
				}
				confirmed[key] = false
				claims = append(claims, activity.Claim{Kind: k, Target: id})
				of = append(of, key)
			}
		}
	}
	evidence, err := r.Confirm(ctx, l.viewer, claims)
	if err != nil {
		return err
	}
	for n, e := range evidence {
		confirmed[of[n]] = e.Direct != nil || e.Reverse != nil
	}
	l.confirmed = confirmed
	return nil
}

// has reports whether the viewer has the i-th kind with id, which is the n-th that the kind targets on post p.
func (l *look) has(i int, id string, p, n int) bool {
	if l.confirmed != nil && l.all[i].InLedger() {
		return l.confirmed[claim{i, id}]
	}
	if p < l.hashed.posts {
		return l.hashed.search.Match(i, l.hashed.place(&l.all[i], p, n)) != activity.None
	}
	return l.view.Check(i, id) != activity.None
}

// walk decides on the candidates one after another.
func (l *look) walk(req Request) Answer {
	a := Answer{Kept: make([]Kept, 0, len(req.Posts))}
	marks := make([]bool, 0, len(req.Posts)*(l.marks-l.drops))
	var shown map[string]bool
	if req.RecordSeen {
		shown = make(map[string]bool, len(req.Posts))
	}
	for i := range req.Posts {
		p := &req.Posts[i]
		if req.Limit > 0 && len(a.Kept) == req.Limit {
			a.Next = i
			break
		}
		hit := l.hashed.hit(i)
		if hit {
			if d, drop := l.reason(p, i); drop {
				l.sampled.dropped(i)
				a.Dropped = append(a.Dropped, d)
				continue
			}
		}
		if shown[p.ID] {
			l.sampled.dropped(i)
			a.Dropped = append(a.Dropped, Dropped{ID: p.ID, Kind: activity.Seen})
			continue
		}
		if shown != nil {
			shown[p.ID] = true
		}
		from := len(marks)
		for k := l.drops; k < l.marks; k++ {
			found := false
			if hit {
				_, found = l.match(k, p, i)
			}
			marks = append(marks, found)
		}
		a.Kept = append(a.Kept, Kept{ID: p.ID, Marks: marks[from:len(marks):len(marks)]})
	}
	return a
}

// reason looks for why to drop post number n.
func (l *look) reason(p *Post, n int) (Dropped, bool) {
	for i, k := range l.all[:l.drops] {
		if actor, found := l.match(i, p, n); found {
			return Dropped{ID: p.ID, Kind: k.Name, Actor: actor, Unconfirmed: l.confirmed != nil && !k.InLedger()}, true
		}
	}
	return Dropped{}, false
}

// match looks for the i-th kind on post number n; for kinds that target users it says who it
// was found with.
func (l *look) match(i int, p *Post, n int) (actor string, found bool) {
	if l.all[i].Target == activity.Post {
		return "", l.has(i, p.ID, n, 0)
	}
	if p.Author != l.viewer && p.Author != "" && l.has(i, p.Author, n, 0) {
		return p.Author, true
	}
	for j, a := range p.Actors {
		if a != l.viewer && l.has(i, a, n, 1+j) {
			return a, true
		}
	}
	return "", false
}

// targets yields what a kind is looked for with on the post: the post, or who had to do
// with it, the viewer left out.
func (p *Post) targets(k activity.Kind, viewer string) func(yield func(id string) bool) {
	return func(yield func(id string) bool) {
		if k.Target == activity.Post {
			yield(p.ID)
			return
		}
		if p.Author != viewer && p.Author != "" && !yield(p.Author) {
			return
		}
		for _, a := range p.Actors {
			if a != viewer && !yield(a) {
				return
			}
		}
	}
}
