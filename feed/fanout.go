package feed

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

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

	After  string        // as in [Request]
	Within time.Duration // as in [Request]
}

// FanoutAnswer lists the viewers who must not get the post.
type FanoutAnswer struct {
	Dropped []FanoutDropped // in ascending order of At

	// Degraded names the kinds that keep and that the ledger could not confirm. A kind is also there
	// if it did not look at all ids of the post, or if its source is not followed.
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
func Fanout(ctx context.Context, activities Activities, req FanoutRequest) (FanoutAnswer, error) {
	f := fanout{req: &req}
	if err := f.compile(activities.Kinds()); err != nil {
		return FanoutAnswer{}, err
	}
	want := activity.Freshness{After: req.After, Within: req.Within, Kinds: f.all}
	err := activities.Await(ctx, want)
	var audience activity.Audience
	if err == nil {
		audience, err = activities.Audience(ctx, activity.AudienceQuery{
			Owners: f.owners(), Text: req.Post.Text,
			Kinds: f.all, Deciding: f.deciding(), Users: req.Viewers,
		})
	}
	if err != nil {
		return FanoutAnswer{}, fmt.Errorf("fan out to %d viewers: %w", len(req.Viewers), err)
	}
	hits := f.inOrder(audience.Hits)
	d := decision{kinds: f.all, exact: req.Exact, owners: f.ids, field: "viewers", of: f.claim}
	if err := d.confirm(ctx, activities, hits); err != nil {
		return FanoutAnswer{}, fmt.Errorf("fan out to %d viewers: %w", len(req.Viewers), err)
	}
	degraded := slices.Concat(audience.Degraded, d.degraded)
	a := FanoutAnswer{Degraded: f.degrade(activities, degraded)}
	for at, of := range byCandidate(hits) {
		if h := d.reason(of); h != nil {
			dropped := FanoutDropped{At: at, Kind: h.Kind.Name}
			dropped.Actor, dropped.Target = req.Post.named(h.Kind.Target, h.ID)
			a.Dropped = append(a.Dropped, dropped)
		}
	}
	return a, nil
}

// fanout is one check of a post's viewers.
type fanout struct {
	checks // of kinds that drop or keep

	req *FanoutRequest
	ids []string // those on the post that kinds look at, each once
}

// compile checks the request, and looks its kinds up.
func (f *fanout) compile(kinds *activity.Kinds) error {
	if len(f.req.Viewers) > MaxViewers {
		return invalid(
			activity.CodeOutOfRange, "viewers", "%d viewers, at most %d", len(f.req.Viewers), MaxViewers,
		)
	}
	if err := f.checkPost(kinds); err != nil {
		return err
	}
	f.req.Post = f.prepare(kinds, []Post{f.req.Post})[0]
	for facet, ids := range f.req.Post.Facets {
		if phrases := kinds.Phrases(facet, ids); phrases != nil {
			f.req.Post.Facets = maps.Clone(f.req.Post.Facets)
			f.req.Post.Facets[facet] = phrases
		}
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
	if err := post.checkCounts(); err != nil {
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
	if _, err := f.addNamed(kinds, names, "kinds", activity.Drop, activity.Keep); err != nil {
		return err
	}
	f.drops = f.all
	for i, name := range names {
		k, _ := kinds.Named(name)
		if k.Mirror() == "" {
			return invalid(
				activity.CodeUnsupportedOp, "kinds["+strconv.Itoa(i)+"]",
				"%s is neither two-way nor has fanout", k.Name,
			)
		}
		if k.Effect == activity.Keep {
			f.all = append(f.all, k)
		}
	}
	f.keeps = f.all[len(f.drops):]
	return nil
}

// owners returns the author, and the ids on the post that kinds look at.
func (f *fanout) owners() []activity.Owner {
	owners := []activity.Owner{{Facet: activity.User, ID: f.req.Post.Author}}
	for i := range f.all {
		facet := f.all[i].Target
		first, others := f.req.Post.ids(facet)
		for _, id := range append([]string{first}, others...) {
			owner := activity.Owner{Facet: facet, ID: id}
			if id != "" && !slices.Contains(owners, owner) {
				owners = append(owners, owner)
			}
		}
	}
	for _, owner := range owners {
		f.noteID(owner.ID)
	}
	return owners
}

// noteID notes an id on the post, about which the ledger may be asked.
func (f *fanout) noteID(id string) {
	if !slices.Contains(f.ids, id) {
		f.ids = append(f.ids, id)
	}
}

// inOrder returns the hits that kinds look at. Those of a viewer and a kind are in the order of the
// ids on the post, where an id may be more than once.
func (f *fanout) inOrder(hits []activity.Hit) []activity.Hit {
	for i := range hits {
		h := &hits[i]
		viewer := f.req.Viewers[h.Candidate]
		inText := h.Place < 0 && f.req.Post.looksAt(h.Kind, viewer, h.ID, 0)
		if h.Place = f.place(h.Kind, h.ID, viewer); inText && h.Place < 0 {
			h.Place = math.MaxInt // after the ids on the post
			f.noteID(h.ID)
		}
	}
	hits = slices.DeleteFunc(hits, func(h activity.Hit) bool { return h.Place < 0 })
	for _, of := range byCandidate(hits) {
		slices.SortStableFunc(of, func(a, b activity.Hit) int {
			return cmp.Or(cmp.Compare(f.rank(a.Kind), f.rank(b.Kind)), cmp.Compare(a.Place, b.Place))
		})
	}
	return hits
}

// place returns the first place of an id on the post where a kind of the viewer looks at it; -1:
// none.
func (f *fanout) place(k *activity.Kind, id, viewer string) int {
	first, others := f.req.Post.ids(k.Target)
	if first == id && f.req.Post.looksAt(k, viewer, id, 0) {
		return 0
	}
	for i, other := range others {
		if other == id && f.req.Post.looksAt(k, viewer, id, i+1) {
			return i + 1
		}
	}
	return -1
}

// rank returns the index of a kind.
func (f *fanout) rank(k *activity.Kind) int {
	return slices.IndexFunc(f.all, func(other activity.Kind) bool { return other.Name == k.Name })
}

// claim returns what the ledger can confirm of a hit: in the rows of the owner, the viewer is the
// target.
func (f *fanout) claim(h *activity.Hit) claim {
	return claim{
		owner: h.ID,
		Claim: activity.Claim{Kind: h.Kind, Target: f.req.Viewers[h.Candidate], Sides: h.Match},
	}
}
