// Package feed decides which candidates of a feed a viewer gets to see.
package feed

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
)

// MaxPosts is the most candidates of one [Request].
const MaxPosts = 5000

// Post is a candidate.
type Post struct {
	ID     string
	Author string   // needed where a kind checked targets users
	Actors []string // anybody else on the post: who reposted it, is quoted or mentioned
}

// Request asks what Viewer gets to see of Posts.
type Request struct {
	Viewer   string
	Posts    []Post   // up to MaxPosts, in the order of the feed
	Kinds    []string // to be checked, in this order; nil: every kind that drops
	Annotate []string // kinds to mark on the posts that are kept
}

// Answer says of every candidate what becomes of it.
type Answer struct {
	Kept    []Kept // in the order of the request
	Dropped []Dropped
	// Degraded names the kinds that could not be checked: posts are kept that
	// would have been dropped.
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
}

// Filter checks every candidate against the viewer's activities, which it reads in
// one round trip. Nothing that was acknowledged before Filter was called is missed;
// a clean candidate is dropped with the Recorder's false-positive rate, times the
// number of its actors for kinds that target users. Viewers never lose posts to a
// kind that targets users for being their own author or actor.
//
// Errors are an [*activity.InvalidError], whose field names the part of the request,
// an [*activity.UnavailableError], or that of ctx.
func Filter(ctx context.Context, r *activity.Recorder, req Request) (Answer, error) {
	c, err := compile(r.Kinds(), req)
	if err != nil {
		return Answer{}, err
	}
	view, err := r.View(ctx, req.Viewer, c.all)
	if err != nil {
		return Answer{}, fmt.Errorf("filter %d posts: %w", len(req.Posts), err)
	}
	a := Answer{Kept: make([]Kept, 0, len(req.Posts)), Degraded: view.Degraded}
	marks := make([]bool, 0, len(req.Posts)*len(req.Annotate))
	for i := range req.Posts {
		p := &req.Posts[i]
		if d, drop := c.reason(view, req.Viewer, p); drop {
			a.Dropped = append(a.Dropped, d)
			continue
		}
		from := len(marks)
		for k := c.drops; k < len(c.all); k++ {
			_, found := match(view, k, c.all[k], req.Viewer, p)
			marks = append(marks, found)
		}
		a.Kept = append(a.Kept, Kept{ID: p.ID, Marks: marks[from:len(marks):len(marks)]})
	}
	return a, nil
}

// checks are the kinds of a request: first those that drop, then those that annotate.
type checks struct {
	all   []activity.Kind
	drops int
}

func (c *checks) reason(view *activity.View, viewer string, p *Post) (Dropped, bool) {
	for i, k := range c.all[:c.drops] {
		if actor, found := match(view, i, k, viewer, p); found {
			return Dropped{ID: p.ID, Kind: k.Name, Actor: actor}, true
		}
	}
	return Dropped{}, false
}

// match looks for the i-th kind of the view on a post; for kinds that target users it
// says who it was found with.
func match(view *activity.View, i int, k activity.Kind, viewer string, p *Post) (actor string, found bool) {
	if k.Target == activity.Post {
		return "", view.Check(i, p.ID) != activity.None
	}
	if p.Author != viewer && p.Author != "" && view.Check(i, p.Author) != activity.None {
		return p.Author, true
	}
	for _, a := range p.Actors {
		if a != viewer && view.Check(i, a) != activity.None {
			return a, true
		}
	}
	return "", false
}

// compile checks the request and looks its kinds up.
func compile(kinds *activity.Kinds, req Request) (checks, error) {
	var c checks
	if err := activity.CheckID(req.Viewer, "viewer"); err != nil {
		return c, err
	}
	if len(req.Posts) > MaxPosts {
		return c, &activity.InvalidError{
			Code: activity.CodeOutOfRange, Field: "posts",
			Message: fmt.Sprintf("%d posts, at most %d", len(req.Posts), MaxPosts),
		}
	}
	if err := c.add(kinds, req); err != nil {
		return c, err
	}
	needAuthor := false
	for _, k := range c.all {
		needAuthor = needAuthor || k.Target == activity.User
	}
	for i, p := range req.Posts {
		if err := p.check(needAuthor); err != nil {
			return c, activity.Within("posts["+strconv.Itoa(i)+"].", err)
		}
	}
	return c, nil
}

func (c *checks) add(kinds *activity.Kinds, req Request) error {
	if req.Kinds == nil {
		for _, k := range kinds.All() {
			if k.Effect == activity.Drop {
				c.all = append(c.all, k)
			}
		}
	}
	if err := c.addNamed(kinds, req.Kinds, "kinds", activity.Drop); err != nil {
		return err
	}
	c.drops = len(c.all)
	return c.addNamed(kinds, req.Annotate, "annotate", activity.Annotate)
}

func (c *checks) addNamed(kinds *activity.Kinds, names []string, list string, effect activity.Effect) error {
	for i, name := range names {
		field := list + "[" + strconv.Itoa(i) + "]"
		k, ok := kinds.Named(name)
		switch {
		case !ok:
			return &activity.InvalidError{Code: activity.CodeUnknownKind, Field: field, Message: fmt.Sprintf("there is no kind %q", name)}
		case k.Effect != effect:
			return &activity.InvalidError{Code: activity.CodeWrongEffect, Field: field, Message: fmt.Sprintf("%s does not belong here", name)}
		case slices.Contains(names[:i], name):
			return &activity.InvalidError{Code: activity.CodeOutOfRange, Field: field, Message: fmt.Sprintf("%s is named twice", name)}
		}
		c.all = append(c.all, k)
	}
	return nil
}

func (p *Post) check(needAuthor bool) error {
	if err := activity.CheckID(p.ID, "id"); err != nil {
		return err
	}
	if p.Author != "" || needAuthor {
		if err := activity.CheckID(p.Author, "author"); err != nil {
			return err
		}
	}
	for i, a := range p.Actors {
		if err := activity.CheckID(a, ""); err != nil {
			return activity.Within("actors["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}
