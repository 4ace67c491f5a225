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
	// Post is the new post. It needs an author. Its ID may be empty: then no kind looks at it.
	Post    Post
	Viewers []string // up to MaxViewers

	// Kinds to check, in this order. Nil: every kind that drops or keeps, and can be checked: that
	// is two-way or has Fanout.
	Kinds []string

	// Exact asks the ledger to confirm the reasons of drops, as in [Request].
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
	At   int // index in FanoutRequest.Viewers
	Kind string
	// Actor and Target are those of a [Dropped].
	Actor, Target string
}

// Fanout returns which viewers must not get a post, from the pages of the post's ids alone, in one
// round trip whatever the number of viewers. For each viewer the answer is that of [Filter]
// for the kinds that can be checked: two-way kinds, and those with Fanout. Feeds check the others
// when they are read.
//
// Promises and errors are those of Filter. A kind that keeps counts only if it has Fanout, and if
// the ledger confirms it.
func Fanout(ctx context.Context, activities activity.Activities, req FanoutRequest) (FanoutAnswer, error) {
	f := fanout{req: &req}
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
	kinds []activity.Kind // those that drop, and then those that keep
	drops int

	owners []activity.Owner // the ids on the post that kinds look at, each once
	views  map[activity.Owner]*activity.View
	search *activity.Search
	hits   []int // viewers for whom anything was found, ascending

	// claims are what the ledger is asked about, and what it says of each. asked are those of each
	// owner in a round of questions; keepers are those of kinds that keep.
	claims         map[fanoutClaim]confirmation
	asked, keepers map[activity.Owner][]fanoutClaim
	degraded       []activity.Degraded
}

// fanoutClaim is what the page of an owner reports: that a viewer has the k-th kind with the owner.
type fanoutClaim struct {
	owner activity.Owner
	k     int
	at    int // the viewer
}

// compile checks the request, and looks its kinds up.
func (f *fanout) compile(kinds *activity.Kinds) error {
	if len(f.req.Viewers) > MaxViewers {
		return outOfRange("viewers", fmt.Sprintf("%d viewers, at most %d", len(f.req.Viewers), MaxViewers))
	}
	if err := f.checkPost(kinds); err != nil {
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

// checkPost checks the post, which may have no id.
func (f *fanout) checkPost(kinds *activity.Kinds) error {
	post := f.req.Post
	if _, err := post.count(); err != nil {
		return err
	}
	if post.ID == "" {
		post.ID = "none"
	} else if err := activity.CheckID(post.ID, "post"); err != nil {
		return err
	}
	return post.check(kinds, true)
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

// read reads the pages of the post's ids, and looks for the viewers in them.
func (f *fanout) read(ctx context.Context, activities activity.Activities) error {
	f.addOwners()
	views, err := activities.Audiences(ctx, f.owners, f.kinds)
	if err != nil {
		return err
	}
	f.views = make(map[activity.Owner]*activity.View, len(views))
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

// addOwners adds the author, and the ids on the post that kinds look at.
func (f *fanout) addOwners() {
	f.owners = append(f.owners, activity.Owner{Facet: activity.User, ID: f.req.Post.Author})
	for i := range f.kinds {
		for _, id := range f.req.Post.ids(f.kinds[i].Target) {
			if owner := (activity.Owner{Facet: f.kinds[i].Target, ID: id}); !slices.Contains(f.owners, owner) {
				f.owners = append(f.owners, owner)
			}
		}
	}
}

// found reports whether a claim is made: by the owner's page.
func (f *fanout) found(c fanoutClaim) bool {
	return f.search.Match(f.views[c.owner], c.k, c.at) != activity.None
}

// targets yields what the owners' pages could say about a viewer and the k-th kind.
func (f *fanout) targets(k, at int) iter.Seq[fanoutClaim] {
	return func(yield func(fanoutClaim) bool) {
		kind := &f.kinds[k]
		for _, id := range f.req.Post.targets(kind, f.req.Viewers[at]) {
			if id != "" && !yield(fanoutClaim{activity.Owner{Facet: kind.Target, ID: id}, k, at}) {
				return
			}
		}
	}
}

// confirm asks the ledger what the answer depends on, in one query for each owner. For an exact
// fan-out that is the first reason to drop the post for each viewer. If the ledger denies a reason,
// confirm asks in the same way about all others of that viewer. For any fan-out it is what kinds
// that keep would overrule drops with. If that fails, they keep nothing.
func (f *fanout) confirm(ctx context.Context, activities activity.Activities) error {
	if !f.req.Exact && f.drops == len(f.kinds) {
		return nil
	}
	r, err := activity.WithLedger(activities, "to confirm activities")
	if err != nil {
		return err
	}
	f.claims, f.keepers = make(map[fanoutClaim]confirmation), make(map[activity.Owner][]fanoutClaim)
	open := slices.Clone(f.hits)
	for _, all := range []bool{false, true} {
		f.asked = make(map[activity.Owner][]fanoutClaim)
		undecided := open[:0]
		for _, at := range open {
			if f.claimReasons(at, all) {
				undecided = append(undecided, at)
			}
			if len(f.claims) > MaxConfirmed {
				return tooManyClaims("viewers")
			}
		}
		open = undecided
		for _, owner := range f.owners {
			if err := f.ask(ctx, r, owner, f.asked[owner]); err != nil {
				return err
			}
		}
	}
	for _, owner := range f.owners {
		if err := f.ask(ctx, r, owner, f.keepers[owner]); err != nil {
			if f.req.Exact || ctx.Err() != nil {
				return err
			}
			f.degrade(f.keepers[owner])
		}
	}
	return nil
}

// claimReasons is as that of a look, for a viewer.
func (f *fanout) claimReasons(at int, all bool) (waits bool) {
	for k := range f.kinds[:f.drops] {
		for c := range f.targets(k, at) {
			if !f.found(c) {
				continue
			}
			said := confirmed
			if f.req.Exact {
				said = f.claim(f.asked, c)
			}
			waits = waits || said == waiting
			if !f.claimKeeps(c) && (said == confirmed || !all) {
				return waits
			}
		}
	}
	return waits
}

// claimKeeps claims what could overrule that a viewer does not get the post because of a claim. It
// reports whether anything could.
func (f *fanout) claimKeeps(c fanoutClaim) (could bool) {
	for over := range f.over(c) {
		if f.found(over) {
			f.claim(f.keepers, over)
			could = true
		}
	}
	return could
}

// claim returns what the ledger says of a claim. A new one is added to those that the ledger is
// asked about.
func (f *fanout) claim(to map[activity.Owner][]fanoutClaim, c fanoutClaim) confirmation {
	said, known := f.claims[c]
	if !known {
		said = waiting
		f.claims[c] = waiting
		to[c.owner] = append(to[c.owner], c)
	}
	return said
}

// ask asks the ledger about claims of one owner's page.
func (f *fanout) ask(ctx context.Context, r *activity.Recorder, owner activity.Owner, claims []fanoutClaim) error {
	asked := make([]activity.Claim, len(claims))
	for i, c := range claims {
		asked[i] = activity.Claim{Kind: f.kinds[c.k], Target: f.req.Viewers[c.at], Mirrored: true}
	}
	evidence, err := r.Confirm(ctx, owner.ID, asked)
	for i, e := range evidence {
		own := e.Direct != nil && f.kinds[claims[i].k].Reverse != ""
		if f.claims[claims[i]] = denied; own || e.Reverse != nil {
			f.claims[claims[i]] = confirmed
		}
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

// over yields what would overrule that a viewer does not get the post because of a claim.
func (f *fanout) over(c fanoutClaim) iter.Seq[fanoutClaim] {
	return func(yield func(fanoutClaim) bool) {
		drop := &f.kinds[c.k]
		for k := f.drops; k < len(f.kinds); k++ {
			if !slices.Contains(f.kinds[k].Over, drop.Name) {
				continue
			}
			for over := range f.targets(k, c.at) {
				if coversID(&f.kinds[k], drop, over.owner.ID, c.owner.ID) && !yield(over) {
					return
				}
			}
		}
	}
}

// reason returns the first reason why a viewer must not get the post, if there is one.
func (f *fanout) reason(at int) (FanoutDropped, bool) {
	for k := range f.kinds[:f.drops] {
		for c := range f.targets(k, at) {
			if !f.found(c) || f.req.Exact && f.claims[c] != confirmed || f.overruled(c) {
				continue
			}
			d := FanoutDropped{At: at, Kind: f.kinds[k].Name}
			d.Actor, d.Target = f.req.Post.named(c.owner.Facet, c.owner.ID)
			return d, true
		}
	}
	return FanoutDropped{}, false
}

// overruled reports whether the viewer gets the post in spite of a claim.
func (f *fanout) overruled(c fanoutClaim) bool {
	for over := range f.over(c) {
		if f.claims[over] == confirmed {
			return true
		}
	}
	return false
}
