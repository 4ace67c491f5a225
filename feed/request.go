package feed

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// MaxPosts is the most candidates of one [Request].
	MaxPosts = 5000
	// MaxIDs is the most ids that the candidates of one [Request] have: of posts, authors and actors,
	// repeated ones included. It allows MaxPosts candidates with an author and two actors each.
	MaxIDs = 20_000
	// MaxActors is the most actors of one [Post].
	MaxActors = 100
)

// Post is a candidate.
type Post struct {
	ID     string
	Author string // needed where a kind checked targets users

	// Actors are up to MaxActors others on the post: who reposted it, is quoted or mentioned.
	Actors []string
}

// Request asks what Viewer gets to see of Posts.
type Request struct {
	Viewer   string
	Posts    []Post   // up to MaxPosts, with up to MaxIDs ids, in the order of the feed
	Kinds    []string // to be checked, in this order; nil: every kind that drops
	Annotate []string // kinds to mark on the posts that are kept

	// Limit ends the feed once so many posts are kept, 1 to MaxPosts; 0: none.
	Limit int

	// RecordSeen records the kept posts as seen, in one write more. A post that is there
	// twice is then kept once.
	RecordSeen bool

	// MayRecord is called right before RecordSeen records. After an error nothing is recorded, and
	// [Answer.Degraded] says so. Nil: it may.
	MayRecord func() error

	// Exact has the ledger confirm, in one query, whatever the filter reports, so that no
	// post is dropped or marked by a false positive of a kind that the ledger keeps. Kinds
	// with a window cannot be confirmed by anything: see [Dropped.Unconfirmed].
	Exact bool
}

// checks are the kinds of a request: first those that drop, then those that annotate,
// and last what is only recorded.
type checks struct {
	all   []activity.Kind
	drops int
	marks int // those that annotate are all[drops:marks]
	seen  int // which kind RecordSeen records; -1 without it
}

// compile checks the request and looks its kinds up.
func compile(kinds *activity.Kinds, req Request) (checks, error) {
	var c checks
	if err := activity.CheckID(req.Viewer, "viewer"); err != nil {
		return c, err
	}
	if err := checkCounts(req.Posts); err != nil {
		return c, err
	}
	if req.Limit < 0 || req.Limit > MaxPosts {
		return c, outOfRange("limit", fmt.Sprintf("%d is not in 1 to %d", req.Limit, MaxPosts))
	}
	if err := c.add(kinds, req); err != nil {
		return c, err
	}
	needAuthor := false
	for _, k := range c.all {
		needAuthor = needAuthor || k.Target == activity.User
	}
	for i := range req.Posts {
		if err := req.Posts[i].check(needAuthor); err != nil {
			return c, activity.Within("posts["+strconv.Itoa(i)+"].", err)
		}
	}
	return c, nil
}

// checkCounts bounds what a request costs, before anything is looked up.
func checkCounts(posts []Post) error {
	if len(posts) > MaxPosts {
		return outOfRange("posts", fmt.Sprintf("%d posts, at most %d", len(posts), MaxPosts))
	}
	ids := len(posts)
	for i := range posts {
		actors := len(posts[i].Actors)
		if actors > MaxActors {
			return tooMany("posts["+strconv.Itoa(i)+"].actors",
				fmt.Sprintf("%d actors, at most %d", actors, MaxActors))
		}
		if ids += actors; posts[i].Author != "" {
			ids++
		}
	}
	if ids > MaxIDs {
		return tooMany("posts",
			fmt.Sprintf("%d ids of posts, authors and actors, at most %d", ids, MaxIDs))
	}
	return nil
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
	if err := c.addNamed(kinds, req.Annotate, "annotate", activity.Annotate); err != nil {
		return err
	}
	c.marks = len(c.all)
	if c.seen = -1; !req.RecordSeen {
		return nil
	}
	k, ok := kinds.Named(activity.Seen)
	if !ok || k.InLedger() || k.Target != activity.Post {
		return &activity.InvalidError{
			Code: activity.CodeUnknownKind, Field: "record_seen",
			Message: fmt.Sprintf("there is no kind %q of posts with a window", activity.Seen),
		}
	}
	if c.seen = slices.IndexFunc(c.all, func(k activity.Kind) bool { return k.Name == activity.Seen }); c.seen < 0 {
		c.seen = len(c.all)
		c.all = append(c.all, k)
	}
	return nil
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
			return outOfRange(field, fmt.Sprintf("%s is named twice", name))
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

func tooMany(field, message string) error {
	return &activity.InvalidError{Code: activity.CodeTooManyIDs, Field: field, Message: message}
}

func outOfRange(field, message string) error {
	return &activity.InvalidError{Code: activity.CodeOutOfRange, Field: field, Message: message}
}
