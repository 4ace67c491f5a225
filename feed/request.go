package feed

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// MaxPosts is the largest number of candidates in one [Request].
	MaxPosts = 5000
	// MaxIDs is the largest number of ids in the candidates of one [Request]: of posts, authors and
	// actors, repeated ones included. It allows MaxPosts candidates with an author and two actors
	// each.
	MaxIDs = 20_000
	// MaxActors is the largest number of actors of one [Post].
	MaxActors = 100
)

// Post is a candidate for a feed.
type Post struct {
	ID     string
	Author string // required if a checked kind targets users

	// Actors are up to MaxActors other users on the post, such as those who reposted it, or are
	// quoted or mentioned.
	Actors []string
}

// Request asks which of Posts Viewer sees.
type Request struct {
	Viewer string
	// Posts are up to MaxPosts candidates with up to MaxIDs ids, in the order of the feed.
	Posts    []Post
	Kinds    []string // kinds to check, in this order; nil: every kind that drops
	Annotate []string // kinds to annotate kept posts with

	// Limit ends the feed once that many posts are kept, 1 to MaxPosts. 0: no limit.
	Limit int

	// RecordSeen records the kept posts as seen, with one additional write to the store. A post
	// that appears twice in Posts is then kept once.
	RecordSeen bool

	// MayRecord is called right before RecordSeen records. If it returns an error, nothing is
	// recorded, and [Answer.Degraded] says so. Nil: recording is always allowed.
	MayRecord func() error

	// Exact asks the ledger, in one query, to confirm everything the filter reports. A false
	// positive of a kind that the ledger keeps then neither drops nor annotates a post. Kinds with
	// a window cannot be confirmed: see [Dropped.Unconfirmed].
	Exact bool
}

// checks are the kinds of a request: first those that drop, then those that annotate, and last one
// that is only recorded.
type checks struct {
	all   []activity.Kind
	drops int
	marks int // kinds that annotate are all[drops:marks]
	seen  int // index of the kind that RecordSeen records; -1: none
}

// compile checks the request, and looks its kinds up.
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
		p := &req.Posts[i]
		if len(p.Actors) == 0 && activity.IsPlainID(p.ID) && activity.IsPlainID(p.Author) {
			continue // nearly all posts
		}
		if err := p.check(needAuthor); err != nil {
			return c, activity.Within("posts["+strconv.Itoa(i)+"].", err)
		}
	}
	return c, nil
}

// checkCounts bounds the cost of a request before anything is looked up.
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
	c.all = make([]activity.Kind, 0, len(kinds.All()))
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
