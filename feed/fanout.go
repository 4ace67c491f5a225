package feed

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
)

// MaxViewers is the largest number of viewers of one [FanoutRequest].
const MaxViewers = 10_000

// FanoutRequest asks which of Viewers must not get a new post, for apps that write posts into
// feeds.
type FanoutRequest struct {
	Author string
	// Actors and Roles are those of the post, see [Post].
	Actors, Roles []string
	Viewers       []string // up to MaxViewers

	// Kinds to check, in this order. Nil: every kind that drops or keeps, and can be checked: that
	// is two-way or has Fanout.
	Kinds []string

	// Exact asks the ledger to confirm everything the filter reports, as in [Request].
	Exact bool
}

// FanoutAnswer lists the viewers who must not get the post.
type FanoutAnswer struct {
	Dropped []FanoutDropped // in ascending order of At

	// Degraded names the kinds that keep and that the ledger could not confirm.
	Degraded []activity.Degraded
}

// FanoutDropped is a viewer who must not get the post, with the first reason found.
type FanoutDropped struct {
	At    int // index in FanoutRequest.Viewers
	Kind  string
	Actor string // the author or actor
}

// Fanout returns which viewers must not get a post, from the pages of its author and actors alone,
// in one round trip whatever the number of viewers. For each viewer the answer is that of [Filter]
// for the kinds that can be checked: two-way kinds, and those with Fanout. Feeds check the others
// when they are read.
//
// Promises and errors are those of Filter. A kind that keeps counts only if it has Fanout, and if
// the ledger confirms it.
func Fanout(ctx context.Context, activities activity.Activities, req FanoutRequest) (FanoutAnswer, error) {
	f := fanout{req: &req, post: Post{ID: req.Author, Author: req.Author, Actors: req.Actors, Roles: req.Roles}}
	if err := f.compile(activities.Kinds()); err != nil {
		return FanoutAnswer{}, err
	}
	if err := f.read(ctx, activities); err != nil {
		return FanoutAnswer{}, fmt.Errorf("fan out to %d viewers: %w", len(req.Viewers), err)
	}
	defer f.search.Release()
	if err := f.confirm(ctx, activities); err != nil {
		return FanoutAnswer{}, fmt.Errorf("fan out to %d viewers: %w", len(req.Viewers), err)
	}
	a := FanoutAnswer{Degraded: f.degraded}
	for _, at := range f.hits {
		if d, drop := f.reason(at); drop {
			a.Dropped = append(a.Dropped, d)
		}
	}
	return a, nil
}

// fanout is one check of a post's viewers.
type fanout struct {
	req   *FanoutRequest
	post  Post
	kinds []activity.Kind // those that drop, and then those that keep
	drops int

	views  map[string]*activity.View // of the users on the post
	owners []string                  // the users, each once
	search *activity.Search
	hits   []int // viewers for whom anything was found, ascending

	confirmed map[fanoutClaim]bool
	degraded  []activity.Degraded
}

// fanoutClaim is what the page of a user on the post reports: the k-th kind with the viewer.
type fanoutClaim struct {
	user string
	k    int
	at   int // the viewer
}

// compile checks the request, and looks its kinds up.
func (f *fanout) compile(kinds *activity.Kinds) error {
	if len(f.req.Viewers) > MaxViewers {
		return outOfRange("viewers", fmt.Sprintf("%d viewers, at most %d", len(f.req.Viewers), MaxViewers))
	}
	if err := activity.CheckID(f.req.Author, "author"); err != nil {
		return err
	}
	if _, err := f.post.count(); err != nil {
		return err
	}
	if err := f.post.check(kinds, true); err != nil {
		return err
	}
	for i, id := range f.req.Viewers {
		if activity.IsPlainID(id) {
			continue
		}
		if err := activity.CheckID(id, "viewers["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	names := f.req.Kinds
	if names == nil {
		for _, k := range kinds.All() {
			if k.Mirror() != "" && k.Effect != activity.Annotate {
				names = append(names, k.Name)
			}
		}
	}
	return f.addKinds(kinds, names)
}

// addKinds adds the named kinds: first those that drop, then those that keep.
func (f *fanout) addKinds(kinds *activity.Kinds, names []string) error {
	var c checks
	if err := c.addNamed(kinds, names, "kinds", activity.Drop, activity.Keep); err != nil {
		return err
	}
	f.drops = len(c.all)
	for i, name := range names {
		k, _ := kinds.Named(name)
		if k.Mirror() == "" {
			return &activity.InvalidError{
				Code: activity.CodeUnsupportedOp, Field: "kinds[" + strconv.Itoa(i) + "]",
				Message: fmt.Sprintf("%s is neither two-way nor has fanout", name),
			}
		}
		if k.Effect == activity.Keep {
			c.all = append(c.all, k)
		}
	}
	f.kinds = c.all
	return nil
}

// read reads the pages of the post's users, and looks for the viewers in them.
func (f *fanout) read(ctx context.Context, activities activity.Activities) error {
	for _, user := range f.post.ids(activity.User) {
		if !slices.Contains(f.owners, user) {
			f.owners = append(f.owners, user)
		}
	}
	views, err := activities.Views(ctx, activity.Owners{
		IDs: f.owners, Side: activity.Audience, Kinds: f.kinds, Sought: f.sought(),
	})
	if err != nil {
		return err
	}
	f.views = make(map[string]*activity.View, len(views))
	f.search = views[0].Search()
	f.search.Begin(activity.User)
	for _, viewer := range f.req.Viewers {
		f.search.Add(viewer)
	}
	for i, view := range views {
		f.views[f.owners[i]] = view
		f.search.Run(view, f.drops)
	}
	for at, hit := range f.search.Hits(activity.User) {
		if hit {
			f.hits = append(f.hits, at)
		}
	}
	return nil
}

// sought yields the viewers.
func (f *fanout) sought() iter.Seq2[activity.Facet, string] {
	return func(yield func(activity.Facet, string) bool) {
		for _, viewer := range f.req.Viewers {
			if !yield(activity.User, viewer) {
				return
			}
		}
	}
}

// found reports whether the page of a user on the post reports the k-th kind with a viewer.
func (f *fanout) found(user string, k, at int) bool {
	return f.search.Match(f.views[user], k, at) != activity.None
}

// confirm asks the ledger, in one query for each user on the post, what the answer depends on. For
// an exact request that is everything found, and else only what overrules a drop.
func (f *fanout) confirm(ctx context.Context, activities activity.Activities) error {
	if !f.req.Exact && f.drops == len(f.kinds) {
		return nil
	}
	r, err := activity.WithLedger(activities, "to confirm activities")
	if err != nil {
		return err
	}
	f.confirmed = make(map[fanoutClaim]bool)
	of := f.claims()
	for _, user := range f.owners {
		if err := f.ask(ctx, r, user, of[user]); err != nil {
			if f.req.Exact || ctx.Err() != nil {
				return err
			}
			f.degrade(of[user])
		}
	}
	return nil
}

// claims returns what the ledger is to confirm, each once, by the user on whose page it was found.
func (f *fanout) claims() map[string][]fanoutClaim {
	of := make(map[string][]fanoutClaim)
	claim := func(user string, k, at int) {
		key := fanoutClaim{user, k, at}
		if _, known := f.confirmed[key]; !known && f.found(user, k, at) {
			f.confirmed[key] = false
			of[user] = append(of[user], key)
		}
	}
	for _, at := range f.hits {
		for k := range f.kinds[:f.drops] {
			for _, user := range f.post.targets(&f.kinds[k], f.req.Viewers[at]) {
				if f.req.Exact {
					claim(user, k, at)
				}
				if f.found(user, k, at) {
					f.eachOver(k, user, at, func(keep int) { claim(user, keep, at) })
				}
			}
		}
	}
	return of
}

// ask asks the ledger about claims of one user's page.
func (f *fanout) ask(ctx context.Context, r *activity.Recorder, user string, claims []fanoutClaim) error {
	asked := make([]activity.Claim, len(claims))
	for i, c := range claims {
		asked[i] = activity.Claim{Kind: f.kinds[c.k], Target: f.req.Viewers[c.at], Mirrored: true}
	}
	evidence, err := r.Confirm(ctx, user, asked)
	for i, e := range evidence {
		own := e.Direct != nil && f.kinds[claims[i].k].Reverse != ""
		f.confirmed[claims[i]] = own || e.Reverse != nil
	}
	return err
}

// degrade notes the kinds whose claims could not be confirmed.
func (f *fanout) degrade(claims []fanoutClaim) {
	for _, c := range claims {
		name := f.kinds[c.k].Name
		if !slices.ContainsFunc(f.degraded, func(d activity.Degraded) bool { return d.Kind == name }) {
			f.degraded = append(f.degraded, activity.Degraded{Kind: name, Reason: ledgerDown})
		}
	}
}

// eachOver calls do with each kind that keeps and would overrule the k-th, for a user on the post
// and a viewer.
func (f *fanout) eachOver(k int, user string, at int, do func(keep int)) {
	for keep := f.drops; keep < len(f.kinds); keep++ {
		if !slices.Contains(f.kinds[keep].Over, f.kinds[k].Name) {
			continue
		}
		for _, id := range f.post.targets(&f.kinds[keep], f.req.Viewers[at]) {
			if id == user {
				do(keep)
				break
			}
		}
	}
}

// reason returns the first reason why a viewer must not get the post, if there is one.
func (f *fanout) reason(at int) (FanoutDropped, bool) {
	for k := range f.kinds[:f.drops] {
		for _, user := range f.post.targets(&f.kinds[k], f.req.Viewers[at]) {
			if !f.found(user, k, at) || f.req.Exact && !f.confirmed[fanoutClaim{user, k, at}] {
				continue
			}
			kept := false
			f.eachOver(k, user, at, func(keep int) { kept = kept || f.confirmed[fanoutClaim{user, keep, at}] })
			if !kept {
				return FanoutDropped{At: at, Kind: f.kinds[k].Name, Actor: user}, true
			}
		}
	}
	return FanoutDropped{}, false
}
