package feed

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// MaxPosts is the largest number of candidates in one [Request].
	MaxPosts = 10_000
	// MaxIDs is the largest number of ids in the candidates of one [Request]: of posts, related
	// ones, authors, actors and facets, repeated ones included. It allows MaxPosts candidates with
	// an author each. Ids at which no kind of the request looks do not count, and neither do those of
	// facets that are found in texts, see [activity.Kind.InText].
	MaxIDs = 20_000
	// MaxLists is the largest number of lists of one [Request].
	MaxLists = 20
)

// Request asks which of Posts Viewer sees.
type Request struct {
	Viewer string
	// Posts are up to MaxPosts candidates with up to MaxIDs ids, in the order of the feed.
	Posts    []Post
	Kinds    []string // kinds to check, in this order; nil: every kind that drops or keeps
	Annotate []string // kinds to annotate kept posts with

	// Lists are up to MaxLists owners whose activities count as the viewer's: those of Kinds that
	// drop and that the ledger keeps, and only what the list did itself.
	Lists []string

	// Limit ends the feed once that many posts are kept, 1 to MaxPosts. 0: no limit.
	Limit int

	// RecordSeen records the kept posts as seen, with one additional write to the store: the first
	// of Post.Related, or the post's id if it has none. A post that appears twice in Posts, under
	// any of its ids, is then kept once.
	RecordSeen bool

	// Exact asks the ledger to confirm the reasons of drops and annotations, up to MaxConfirmed. A
	// false positive of a kind that the ledger keeps then neither drops nor annotates a post. Kinds
	// with a window cannot be confirmed: see [Dropped.Unconfirmed].
	Exact bool

	// After is a position of the app's own database: the answer has all that it had committed up to
	// there. "": what was recorded before the call. See [activity.Recorder.Await].
	After string
	// Within is a time before the call: the answer has all that the app's own database had committed
	// until then. 0: no time.
	Within time.Duration
}

// checks are the kinds of a request, by what they do with a candidate.
type checks struct {
	drops, annotates, keeps []activity.Kind
	// recordsOnly is set if seen is none of these: kept candidates are recorded in it, but not
	// looked up.
	recordsOnly bool
	// all has the kinds to read: those that drop, annotate and keep, and seen. The lists above are
	// parts of it.
	all []activity.Kind

	excess map[activity.Facet]bool // facets of which a post has more ids than kinds look at
}

// compile checks the request, and looks its kinds up.
func (c *checks) compile(kinds *activity.Kinds, req *Request) error {
	if err := activity.CheckID(req.Viewer, "viewer"); err != nil {
		return err
	}
	if err := checkLists(req.Lists); err != nil {
		return err
	}
	if len(req.Posts) > MaxPosts {
		return invalid(
			activity.CodeOutOfRange, "posts", "%d posts, at most %d", len(req.Posts), MaxPosts,
		)
	}
	if req.Limit < 0 || req.Limit > MaxPosts {
		return invalid(activity.CodeOutOfRange, "limit", "%d is not in 1 to %d", req.Limit, MaxPosts)
	}
	if err := c.add(kinds, req); err != nil {
		return err
	}
	return c.check(kinds, req)
}

// check checks the posts, and prepares their facets. Most posts are plain, and take one look.
func (c *checks) check(kinds *activity.Kinds, req *Request) error {
	posts, plain := req.Posts, 0
	for ; plain < len(posts); plain++ { // without a call for each post
		p := &posts[plain]
		if !p.isBare() || !activity.IsPlainID(p.ID) || !activity.IsPlainID(p.Author) {
			break
		}
	}
	if plain == len(posts) {
		return nil
	}
	if err := c.checkCounts(posts); err != nil {
		return err
	}
	needAuthor := c.target(activity.User)
	for i := range posts {
		p := &posts[i]
		if err := p.check(kinds, needAuthor); err != nil {
			return activity.Within("posts["+strconv.Itoa(i)+"].", err)
		}
	}
	req.Posts = c.prepare(kinds, posts)
	return nil
}

// prepare returns the posts with the ids of their facets under which kinds look at them, and notes
// the facets of which a post has more. It copies what it changes.
func (c *checks) prepare(kinds *activity.Kinds, posts []Post) []Post {
	given, copied := posts, false
	for i := range given {
		cloned := false
		for facet, all := range given[i].Facets {
			ids := all[:min(len(all), MaxFacetIDs)]
			if len(ids) < len(all) {
				c.noteExcess(facet)
			}
			if covering := kinds.Covering(facet, ids); covering != nil {
				ids = covering
			} else if len(ids) == len(all) {
				continue
			}
			if !copied {
				posts, copied = slices.Clone(given), true
			}
			if !cloned {
				posts[i].Facets, cloned = maps.Clone(given[i].Facets), true
			}
			posts[i].Facets[facet] = ids
		}
	}
	return posts
}

func (c *checks) noteExcess(facet activity.Facet) {
	if c.excess == nil {
		c.excess = make(map[activity.Facet]bool)
	}
	c.excess[facet] = true
}

// degrade adds the kinds whose activities may be old, and those that did not look at all ids of a
// post, unless they are there already.
func (c *checks) degrade(activities Activities, all []activity.Degraded) []activity.Degraded {
	for _, old := range activities.Behind(c.all) {
		if !slices.ContainsFunc(all, func(d activity.Degraded) bool { return d.Kind == old.Kind }) {
			all = append(all, old)
		}
	}
	for i := range c.all {
		k := &c.all[i]
		isNoted := func(d activity.Degraded) bool { return d.Kind == k.Name }
		if c.excess[k.Target] && !slices.ContainsFunc(all, isNoted) {
			reason := fmt.Sprintf(
				"a post has more than %d ids of the facet %q, and the rest were not checked",
				MaxFacetIDs, k.Target,
			)
			all = append(all, activity.Degraded{Kind: k.Name, Reason: reason})
		}
	}
	return all
}

func checkLists(lists []string) error {
	if len(lists) > MaxLists {
		return invalid(activity.CodeOutOfRange, "lists", "%d lists, at most %d", len(lists), MaxLists)
	}
	for i, list := range lists {
		field := "lists[" + strconv.Itoa(i) + "]"
		if err := activity.CheckID(list, field); err != nil {
			return err
		}
		if slices.Contains(lists[:i], list) {
			return invalid(activity.CodeOutOfRange, field, "%s is named twice", list)
		}
	}
	return nil
}

// target reports whether one of the kinds has targets of the facet.
func (c *checks) target(facet activity.Facet) bool {
	return slices.ContainsFunc(c.all, func(k activity.Kind) bool { return k.Target == facet })
}

// counted returns the facets whose ids are looked up for every viewer. Those of phrases are looked
// up for viewers who have phrases.
func (c *checks) counted() map[activity.Facet]bool {
	counted := make(map[activity.Facet]bool)
	for i := range c.all {
		k := &c.all[i]
		counted[k.Target] = !k.InText()
	}
	return counted
}

// checkCounts bounds the cost of a request before anything is looked up.
func (c *checks) checkCounts(posts []Post) error {
	ids, counted := 0, c.counted()
	for i := range posts {
		p := &posts[i]
		if err := p.checkCounts(); err != nil {
			return activity.Within("posts["+strconv.Itoa(i)+"].", err)
		}
		ids += p.count(counted)
	}
	if ids > MaxIDs {
		return invalid(activity.CodeTooManyIDs, "posts",
			"%d ids of posts, related posts, authors, actors and facets, at most %d", ids, MaxIDs)
	}
	return nil
}

// deciding returns the number of the first kinds of all that are a reason to drop or to annotate a
// candidate. What others have matters only then.
func (c *checks) deciding() int { return len(c.drops) + len(c.annotates) }

// add looks up the kinds of a request.
func (c *checks) add(kinds *activity.Kinds, req *Request) error {
	c.all = make([]activity.Kind, 0, len(kinds.All())) // each at most once
	if req.Kinds == nil {
		for _, k := range kinds.All() {
			if k.Effect == activity.Drop {
				c.all = append(c.all, k)
			}
		}
	}
	var err error
	req.Kinds, err = c.addNamed(kinds, req.Kinds, "kinds", activity.Drop, activity.Keep)
	if err != nil {
		return err
	}
	c.drops = c.all
	req.Annotate, err = c.addNamed(kinds, req.Annotate, "annotate", activity.Annotate)
	if err != nil {
		return err
	}
	c.annotates = c.all[len(c.drops):]
	c.addKeeping(kinds, req.Kinds, len(req.Lists) > 0)
	c.keeps = c.all[c.deciding():]
	if !req.RecordSeen {
		return nil
	}
	k, ok := kinds.Named(activity.Seen)
	if !ok || k.InLedger() || k.Target != activity.Post {
		return invalid(
			activity.CodeUnknownKind, "record_seen",
			"there is no kind %q of posts with a window", activity.Seen,
		)
	}
	isSeen := func(k activity.Kind) bool { return k.Name == activity.Seen }
	c.recordsOnly = !slices.ContainsFunc(c.all, isSeen)
	if c.recordsOnly {
		c.all = append(c.all, k)
	}
	return nil
}

// addNamed adds the given kinds that have the first of the effects. They must have one of them. It
// returns the names of all given kinds; nil for nil.
func (c *checks) addNamed(
	kinds *activity.Kinds, given []string, list string, effects ...activity.Effect,
) ([]string, error) {
	names := given
	for i, name := range given {
		field := list + "[" + strconv.Itoa(i) + "]"
		k, ok := kinds.Named(name)
		switch {
		case !ok:
			return nil, invalid(activity.CodeUnknownKind, field, "there is no kind %q", name)
		case !slices.Contains(effects, k.Effect):
			return nil, invalid(activity.CodeWrongEffect, field, "%s does not belong here", k.Name)
		case slices.Contains(names[:i], k.Name):
			return nil, invalid(activity.CodeOutOfRange, field, "%s is named twice", k.Name)
		}
		if name != k.Name { // a plural
			names = slices.Clone(names)
			names[i] = k.Name
		}
		if k.Effect == effects[0] {
			c.all = append(c.all, k)
		}
	}
	return names, nil
}

// addKeeping adds those of the kinds that keep which overrule a drop of the request: of one of its
// kinds, or of a list. names are those of the request; nil: all.
func (c *checks) addKeeping(kinds *activity.Kinds, names []string, lists bool) {
	for _, k := range kinds.All() {
		if k.Effect != activity.Keep || names != nil && !slices.Contains(names, k.Name) {
			continue
		}
		overruled := func(drop activity.Kind) bool { return slices.Contains(k.Over, drop.Name) }
		if lists && slices.Contains(k.Over, activity.Lists) ||
			slices.ContainsFunc(c.drops, overruled) {
			c.all = append(c.all, k)
		}
	}
}

// invalid returns the error of a part of a request.
func invalid(code, field, format string, args ...any) error {
	return &activity.InvalidError{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}
