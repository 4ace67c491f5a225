// Package feed decides which candidates of a feed a viewer sees, and which viewers must not get a
// new post. It also explains why a feed drops a post or keeps it.
package feed

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
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
	// dropped, or the other way round if the kind keeps posts. A kind is also there if a post has
	// more than MaxFacetIDs ids of its facet, or a longer text than [activity.MaxText]. The kind seen
	// is there if the kept posts could not be recorded.
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

// Activities are what feeds need of an [activity.Recorder] or an [activity.Plain].
type Activities interface {
	// Kinds returns the known kinds of activities.
	Kinds() *activity.Kinds
	// View reads a viewer's activities and those of lists. See [activity.Recorder.View].
	View(
		ctx context.Context, user string, kinds []activity.Kind, lists ...string,
	) (*activity.View, error)
	// Audience looks for what keeps a post from users. See [activity.Recorder.Audience].
	Audience(ctx context.Context, q activity.AudienceQuery) (activity.Audience, error)
	// Await waits for what the app committed to its own database. See [activity.Recorder.Await].
	Await(ctx context.Context, want activity.Freshness) error
	// Behind names those of the kinds whose activities may be old. See [activity.Recorder.Behind].
	Behind(kinds []activity.Kind) []activity.Degraded
	// Confirm asks the ledger which claims are true. Without a ledger it fails.
	Confirm(ctx context.Context, user string, claims []activity.Claim) ([]activity.Evidence, error)
}

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
func Filter(ctx context.Context, activities Activities, req Request) (Answer, error) {
	c, err := Check(ctx, activities, req)
	if err != nil {
		return Answer{}, err
	}
	if err := c.RecordSeen(ctx); err != nil {
		return Answer{}, err
	}
	return c.Answer, nil
}

// Checked is a feed that is answered, with what the answer was computed from.
type Checked struct {
	Request Request
	Answer  Answer

	checks

	view     *activity.View
	decision decision
}

// Check is [Filter], but records nothing as seen yet. A request with RecordSeen needs a call of
// [Checked.RecordSeen] or [Checked.SkipSeen].
func Check(ctx context.Context, activities Activities, req Request) (*Checked, error) {
	c := &Checked{Request: req}
	err := c.compile(activities.Kinds(), &c.Request)
	if err != nil {
		return nil, err
	}
	want := activity.Freshness{After: req.After, Within: req.Within, Kinds: c.all}
	if err = activities.Await(ctx, want); err == nil {
		c.view, err = activities.View(ctx, req.Viewer, c.all, req.Lists...)
	}
	if err != nil {
		return nil, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
	}
	c.decision = decision{kinds: c.all, exact: req.Exact}
	ahead := c.ahead(0, 0)
	if c.decision.confirms() {
		ahead = len(req.Posts)
		isViewer := func(list string) bool { return list == req.Viewer }
		others := slices.DeleteFunc(slices.Clone(req.Lists), isViewer)
		c.decision.owners = slices.Insert(others, 0, req.Viewer)
		c.decision.field = "posts"
		c.decision.of = func(h *activity.Hit) claim {
			of := activity.Claim{Kind: h.Kind, Target: h.ID, Sides: h.Match}
			return claim{owner: cmp.Or(h.List, req.Viewer), list: h.List != "", Claim: of}
		}
	}
	hits := c.find(0, ahead, c.deciding())
	if err := c.decision.confirm(ctx, activities, hits); err != nil {
		return nil, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
	}
	c.walk(hits, ahead)
	degraded := slices.Concat(c.view.Degraded, c.decision.degraded, c.view.CutOff())
	c.Answer.Degraded = c.degrade(activities, degraded)
	return c, nil
}

// Kinds returns the kinds that drop and those that annotate, as they were checked.
func (c *Checked) Kinds() []activity.Kind { return c.all[:c.deciding()] }

// At returns the page that the viewer's activities were read from.
func (c *Checked) At() pages.PageAt { return c.view.At() }

// Denied yields the kinds and ids of the viewer that were found, and that the ledger does not have.
func (c *Checked) Denied() iter.Seq2[string, string] {
	return func(yield func(kind, id string) bool) {
		for of, said := range c.decision.claims {
			if said == denied && !of.list && !yield(of.Kind.Name, of.Target) {
				return
			}
		}
	}
}

// Overruled returns the hits that dropped nothing, because a kind that keeps overruled them.
func (c *Checked) Overruled() []activity.Hit { return c.decision.overruled }

// find returns the hits on the posts from to until-1 that kinds look at. Posts count on which one
// of the first kinds has a hit, so many as deciding says.
func (c *Checked) find(from, until, deciding int) []activity.Hit {
	hits := c.view.Find((*posts)(&c.Request.Posts), from, until, deciding)
	return slices.DeleteFunc(hits, func(h activity.Hit) bool {
		return c.recordsOnly && h.Kind.Name == activity.Seen ||
			!c.Request.Posts[h.Candidate].looksAt(h.Kind, c.Request.Viewer, h.ID, h.Place)
	})
}

// ahead returns up to which post hits are looked for next, from the given one on. With a limit it
// takes twice what is left of it: enough, unless more than half of the posts are dropped.
func (c *Checked) ahead(from, kept int) int {
	all := len(c.Request.Posts)
	if c.Request.Limit == 0 {
		return all
	}
	const few = 32 // a search for fewer is hardly cheaper
	return min(all, from+max(2*(c.Request.Limit-kept), few))
}

// RecordSeen records what is kept as seen, if the request has RecordSeen. It fails only if ctx
// ends. The answer reports any other failure.
func (c *Checked) RecordSeen(ctx context.Context) error {
	if !c.Request.RecordSeen || len(c.Answer.Kept) == 0 || c.unrecordable() {
		return nil
	}
	ids := make([]string, len(c.Answer.Kept))
	for n, at := range c.Answer.Kept {
		ids[n] = c.Request.Posts[at].canonical()
	}
	err := c.view.Record(ctx, activity.Seen, ids)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("filter %d posts: %w", len(c.Request.Posts), err)
	}
	if err != nil {
		c.notRecorded("the page store is unavailable")
	}
	return nil
}

// SkipSeen has the answer report that what is kept is not recorded as seen because of err.
func (c *Checked) SkipSeen(err error) {
	if len(c.Answer.Kept) > 0 && !c.unrecordable() {
		c.notRecorded(err.Error())
	}
}

// unrecordable reports whether seen could not be read, and has the answer report that it cannot be
// recorded either.
func (c *Checked) unrecordable() (degraded bool) {
	for n := range c.Answer.Degraded {
		if d := &c.Answer.Degraded[n]; d.Kind == activity.Seen {
			d.Reason += ": what is kept could not be recorded either"
			degraded = true
		}
	}
	return degraded
}

// notRecorded has the answer report why what is kept is not recorded.
func (c *Checked) notRecorded(reason string) {
	c.Answer.Degraded = append(c.Answer.Degraded, activity.Degraded{
		Kind: activity.Seen, Reason: "what is kept could not be recorded: " + reason,
	})
}

// walk decides on the candidates in order, given the hits on those before ahead.
func (c *Checked) walk(hits []activity.Hit, ahead int) {
	req, a := &c.Request, &c.Answer
	a.Annotated = make([][]int, len(c.annotates))
	kept := make([]int, 0, len(req.Posts))
	var shown ids
	a.Dropped = make([]Dropped, 0, len(hits))
	if req.RecordSeen {
		shown = make(ids, len(req.Posts))
	}
	for i := range req.Posts {
		if req.Limit > 0 && len(kept) == req.Limit {
			a.Next = i
			break
		}
		if i == ahead {
			ahead = c.ahead(i, len(kept))
			hits = c.find(i, ahead, c.deciding())
		}
		var found []activity.Hit
		if len(hits) > 0 && hits[0].Candidate == i {
			found, hits = cut(hits, i)
		}
		if (found != nil || shown != nil) && c.drop(i, found, shown) {
			continue
		}
		if found != nil {
			c.annotate(i, found)
		}
		kept = append(kept, i)
	}
	a.Kept = kept
	if len(a.Dropped) == 0 {
		a.Dropped = nil
	}
}

// drop drops post number n if a hit on it or a post that is shown before says so.
func (c *Checked) drop(n int, hits []activity.Hit, shown ids) bool {
	p := &c.Request.Posts[n]
	d := Dropped{At: n}
	if h := c.decision.reason(hits); h != nil {
		d.Kind, d.List, d.Unconfirmed = h.Kind.Name, h.List, c.Request.Exact && !h.Kind.InLedger()
		d.Actor, d.Target = p.named(h.Kind.Target, h.ID)
	} else if id, again := shown.again(p); again {
		d.Kind = activity.Seen
		_, d.Target = p.named(activity.Post, id)
	} else {
		return false
	}
	c.Answer.Dropped = append(c.Answer.Dropped, d)
	return true
}

// ids is a set of ids of posts; nil: none are noted.
type ids map[string]bool

// again returns the first of the post's ids that is in the set. If there is none, it adds all.
func (set ids) again(p *Post) (id string, again bool) {
	if set == nil {
		return "", false
	}
	all := append([]string{p.ID}, p.Related...)
	for _, id := range all {
		if set[id] {
			return id, true
		}
	}
	for _, id := range all {
		set[id] = true
	}
	return "", false
}

// annotate notes the kinds that annotate post number n, which is kept.
func (c *Checked) annotate(n int, hits []activity.Hit) {
	for i := range hits {
		h := &hits[i]
		if h.Kind.Effect != activity.Annotate || !c.decision.counts(h) {
			continue
		}
		k := slices.IndexFunc(c.annotates, func(k activity.Kind) bool { return k.Name == h.Kind.Name })
		if of := &c.Answer.Annotated[k]; len(*of) == 0 || (*of)[len(*of)-1] != n {
			*of = append(*of, n)
		}
	}
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
