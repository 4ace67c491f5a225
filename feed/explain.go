package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// Explanation says why a post is dropped from a feed, or kept.
type Explanation struct {
	// Dropped says whether a feed drops the post. One that is exact does so only if a reason that
	// drops is not [False].
	Dropped bool

	// Reasons are all that the filter reports on the post, kinds that drop first. The first
	// of those is the one that a feed names.
	Reasons []Reason

	Page     activity.PageInfo // of the kinds that the ledger keeps
	Degraded []activity.Degraded
}

// Certainty is how sure a [Reason] is.
type Certainty uint8

// Certainties.
const (
	Certain     Certainty = iota + 1 // the ledger has it
	False                            // the ledger does not have it: a false positive
	Unconfirmed                      // its kind has a window: nobody can tell
)

func (c Certainty) String() string {
	names := [...]string{"unknown", "certain", "false", "unconfirmed"}
	if int(c) < len(names) {
		return names[c]
	}
	return names[0]
}

// Reason is something that the filter reports on a post.
type Reason struct {
	Kind      activity.Kind
	Actor     string         // for kinds that target users: who
	Direction activity.Match // Direct: the viewer's activity; Reverse: the actor's, with the viewer
	Certainty Certainty
	Since     time.Time // when it was recorded; of a window, the earliest it can have been; zero if False
	Until     time.Time // when it ends by itself; of a window, the latest; zero: it does not
	Parts     []string  // of a window: which of its parts report it
}

// Explain says what a feed of viewer makes of post, by every kind that the Recorder has, and
// what the ledger knows of it, in one query. Errors are as those of [Filter]; without the ledger there
// is no explanation.
func Explain(ctx context.Context, activities activity.Activities, viewer string, post Post) (Explanation, error) {
	r, err := activity.WithLedger(activities, "an explanation")
	if err != nil {
		return Explanation{}, err
	}
	req := Request{Viewer: viewer, Posts: []Post{post}}
	for _, k := range r.Kinds().All() {
		if k.Effect == activity.Annotate {
			req.Annotate = append(req.Annotate, k.Name)
		}
	}
	c, err := compile(r.Kinds(), req)
	if err != nil {
		return Explanation{}, ofOnePost(err)
	}
	view, err := r.View(ctx, viewer, c.all, nil)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain a post: %w", err)
	}
	e := Explanation{Page: view.Page(), Degraded: view.Degraded}
	for i, k := range c.all {
		looked := make(map[string]bool) // an author may be among the actors
		for id := range post.targets(k, viewer) {
			if looked[id] {
				continue
			}
			looked[id] = true
			found := reasons(view, i, k, id)
			e.Reasons = append(e.Reasons, found...)
			e.Dropped = e.Dropped || len(found) > 0 && i < c.drops
		}
	}
	if err := e.confirm(ctx, r, viewer, post.ID); err != nil {
		return Explanation{}, fmt.Errorf("explain a post: %w", err)
	}
	return e, nil
}

// ofOnePost names the post that an error of compile is about as one that is alone.
func ofOnePost(err error) error {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	if !ok {
		return err
	}
	one := *invalid
	one.Field = strings.Replace(one.Field, "posts[0]", "post", 1)
	return &one
}

// reasons are what the view reports of the i-th kind, k, with id.
func reasons(view *activity.View, i int, k activity.Kind, id string) (found []Reason) {
	reason := Reason{Kind: k}
	if k.Target == activity.User {
		reason.Actor = id
	}
	for _, reason.Direction = range view.Matches(i, id) {
		if !k.InLedger() {
			reason.Certainty = Unconfirmed
			parts := view.Parts(i, id) // the newest first
			for _, part := range parts {
				reason.Parts = append(reason.Parts, part.ID.String())
			}
			reason.Since, reason.Until = parts[len(parts)-1].From, parts[0].Forgotten
		}
		found = append(found, reason)
	}
	return found
}

// confirm asks the ledger about the reasons of which it can say something.
func (e *Explanation) confirm(ctx context.Context, r *activity.Recorder, viewer, post string) error {
	var claims []activity.Claim
	var of []*Reason
	for i := range e.Reasons {
		reason := &e.Reasons[i]
		if !reason.Kind.InLedger() {
			continue
		}
		claim := activity.Claim{Kind: reason.Kind, Target: post}
		if reason.Kind.Target == activity.User {
			claim.Target = reason.Actor
		}
		claims = append(claims, claim)
		of = append(of, reason)
	}
	evidence, err := r.Confirm(ctx, viewer, claims)
	if err != nil {
		return err
	}
	for i, ev := range evidence {
		item := ev.Direct
		if of[i].Direction == activity.Reverse {
			item = ev.Reverse
		}
		if of[i].Certainty = False; item != nil {
			of[i].Certainty, of[i].Since, of[i].Until = Certain, item.Since, item.Until
		}
	}
	return nil
}
