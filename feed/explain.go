package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/seen"
)

// Explanation reports why a feed drops a post, or keeps it.
type Explanation struct {
	// Dropped reports whether a feed drops the post: it has a reason of a kind that drops and is not
	// overruled. An exact feed drops it only if such a reason is not [False].
	Dropped bool

	// Reasons are everything the filter reports on the post, kinds that drop first. A feed names
	// the first of these.
	Reasons []Reason

	Page     activity.PageInfo // page of the kinds that the ledger keeps
	Degraded []activity.Degraded
}

// Certainty is how certain a [Reason] is.
type Certainty uint8

// Certainties.
const (
	Certain     Certainty = iota + 1 // the ledger has it
	False                            // the ledger does not have it: a false positive
	Unconfirmed                      // its kind has a window: nothing can confirm it
)

func (c Certainty) String() string {
	if c > Unconfirmed {
		return "unknown"
	}
	return [...]string{"unknown", "certain", "false", "unconfirmed"}[c]
}

// Reason is something that the filter reports on a post.
type Reason struct {
	Kind  activity.Kind
	Actor string // the user, for kinds that target users
	// Target is the id, for kinds that do not target users, unless it is the post's own.
	Target string
	// Start and End are where the phrase Target stands first in the post's text: the bytes from Start
	// until before End. End is 0 if Target is an id on the post.
	Start, End int
	// List is the list whose activity it is; "": the viewer's.
	List string
	// Direction is Direct for the viewer's activity, and Reverse for the actor's with the viewer.
	Direction activity.Match
	Certainty Certainty
	// OverruledBy names the kind that keeps the post in spite of this reason. "": none.
	OverruledBy string
	// Since is when it was recorded; for a window, the earliest possible time; zero if it is False.
	Since time.Time
	// Until is when it ends by itself; for a window, the latest possible time. Zero: it has no end.
	Until time.Time
	Parts []string // for a window: the beginnings of the parts that report it
}

// Explain returns what a feed of viewer with the lists does with post and why, for every kind that
// the Recorder has. It asks the ledger about the reasons, in one query for the viewer and one for
// each list. Errors are as those of [Filter], and a [*activity.NoLedgerError] if there is no
// ledger.
//
// A post without an ID stands for all posts of its author. Explain then returns everything between
// the two users, because kinds look at the author in every role. Dropped reports whether any of it
// drops posts.
func Explain(
	ctx context.Context, activities Activities, viewer string, post Post, lists ...string,
) (Explanation, error) {
	_, err := activities.Confirm(ctx, viewer, nil)
	if _, ok := errors.AsType[*activity.NoLedgerError](err); ok {
		return Explanation{}, &activity.NoLedgerError{Call: "an explanation"}
	}
	c := Checked{Request: Request{Viewer: viewer, Lists: lists, Posts: []Post{post}}}
	c.Request.Posts[0].ID = cmp.Or(post.ID, "none") // compile needs one
	for _, k := range activities.Kinds().All() {
		if k.Effect == activity.Annotate {
			c.Request.Annotate = append(c.Request.Annotate, k.Name)
		}
	}
	if err := c.compile(activities.Kinds(), &c.Request); err != nil {
		return Explanation{}, ofOnePost(err)
	}
	if p := &c.Request.Posts[0]; post.ID == "" { // every kind looks at an actor without a role
		p.Actors = slices.Concat([]string{p.Author}, p.Actors)
		p.Roles = slices.Concat([]string{""}, p.Roles)
		p.ID, p.Author = "", ""
	}
	if c.view, err = activities.View(ctx, viewer, c.all, lists...); err != nil {
		return Explanation{}, fmt.Errorf("explain a post: %w", err)
	}
	e := Explanation{Page: c.view.Page()}
	e.add(&c)
	e.Degraded = c.degrade(activities, slices.Concat(c.view.Degraded, c.view.CutOff()))
	e.place(post.Text)
	if err := e.confirm(ctx, activities, viewer, &post); err != nil {
		return Explanation{}, fmt.Errorf("explain a post: %w", err)
	}
	e.overrule(&post)
	e.Dropped = slices.ContainsFunc(e.Reasons, func(r Reason) bool {
		return r.Kind.Effect == activity.Drop && r.OverruledBy == ""
	})
	return e, nil
}

// add adds the hits on the only post of c as reasons, of kinds that drop first. An id that is on
// the post more than once counts once.
func (e *Explanation) add(c *Checked) {
	var others []Reason
	known := make(map[activity.Hit]bool)
	for _, h := range c.find(0, 1, len(c.all)) { // any kind is a reason
		if h.Place = 0; known[h] {
			continue
		}
		known[h] = true
		for _, direction := range []activity.Match{activity.Direct, activity.Reverse} {
			if h.Match&direction == 0 {
				continue
			}
			reason := Reason{Kind: *h.Kind, List: h.List, Direction: direction}
			reason.Actor, reason.Target = c.Request.Posts[0].named(h.Kind.Target, h.ID)
			if !h.Kind.InLedger() {
				reason.dateWindow(c.view.Runs(h.Kind.Name, h.ID))
			}
			if h.Kind.Effect == activity.Drop {
				e.Reasons = append(e.Reasons, reason)
			} else {
				others = append(others, reason)
			}
		}
	}
	e.Reasons = append(e.Reasons, others...)
}

// place notes where phrases stand in the text of the post.
func (e *Explanation) place(text string) {
	for i := range e.Reasons {
		if r := &e.Reasons[i]; r.Kind.InText() {
			r.Start, r.End = activity.FindPhrase(text, r.Target)
		}
	}
}

// overrule notes which of the reasons are overruled by others that are certain.
func (e *Explanation) overrule(p *Post) {
	var keeps []*Reason
	for i := range e.Reasons {
		if keep := &e.Reasons[i]; keep.Kind.Effect == activity.Keep && keep.Certainty == Certain {
			keeps = append(keeps, keep)
		}
	}
	for i := range e.Reasons {
		drop := &e.Reasons[i]
		by := slices.IndexFunc(keeps, func(keep *Reason) bool {
			return overrules(&keep.Kind, &drop.Kind, keep.id(p), drop.id(p), drop.List)
		})
		if by >= 0 {
			drop.OverruledBy = keeps[by].Kind.Name
		}
	}
}

// id returns the id on the post that the reason is about.
func (r *Reason) id(p *Post) string { return cmp.Or(r.Actor, r.Target, p.ID) }

// ofOnePost renames the post in the field of an error of compile from "posts[0]" to "post".
func ofOnePost(err error) error {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	if !ok {
		return err
	}
	one := *invalid
	one.Field = strings.Replace(one.Field, "posts[0]", "post", 1)
	return &one
}

// dateWindow sets what the runs of a window tell, the oldest first.
func (r *Reason) dateWindow(runs []seen.Run) {
	r.Certainty = Unconfirmed
	for _, run := range runs {
		r.Parts = append(r.Parts, run.From.Format(time.RFC3339Nano))
	}
	r.Parts = slices.Compact(r.Parts) // a part may have several runs
	r.Since, r.Until = runs[0].From, runs[len(runs)-1].Forgotten
}

// confirm asks the ledger about the reasons of kinds that it keeps.
func (e *Explanation) confirm(
	ctx context.Context, activities Activities, viewer string, p *Post,
) error {
	of := make(map[string][]*Reason) // by owner
	if len(e.Reasons) > MaxConfirmed {
		return tooManyClaims("post")
	}
	for i := range e.Reasons {
		if reason := &e.Reasons[i]; reason.Kind.InLedger() {
			owner := cmp.Or(reason.List, viewer)
			of[owner] = append(of[owner], reason)
		}
	}
	for owner, reasons := range of {
		claims := make([]activity.Claim, len(reasons))
		for i, reason := range reasons {
			claims[i] = activity.Claim{Kind: &reason.Kind, Target: reason.id(p), Sides: reason.Direction}
		}
		evidence, err := activities.Confirm(ctx, owner, claims)
		if err != nil {
			return err
		}
		for i, ev := range evidence {
			r, item := reasons[i], ev.Direct
			if r.Direction == activity.Reverse {
				item = ev.Reverse
			}
			if r.Certainty = False; item != nil {
				r.Certainty, r.Since, r.Until = Certain, item.Since, item.Until
			}
		}
	}
	return nil
}
