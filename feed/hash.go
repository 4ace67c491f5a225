package feed

import (
	"iter"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
)

// hashed holds the hashes of the ids to look for on the first posts of a request.
type hashed struct {
	search *activity.Search
	byUser bool // some kinds target users
	byPost bool // some kinds target posts
	posts  int  // how many posts are hashed
	// users has the number of users on all posts before each one, actors included; nil: one per
	// post.
	users []int
	hits  []int // posts where anything was found, in ascending order
}

// ids yields the ids on the posts that the kinds of c are checked with.
func (c *checks) ids(posts []Post) iter.Seq2[activity.Target, string] {
	users, ofPosts := c.targets() // here, so that c is not allocated
	return func(yield func(activity.Target, string) bool) {
		for p := range posts {
			if ofPosts && !yield(activity.Post, posts[p].ID) || users && !yield(activity.User, posts[p].Author) {
				return
			}
			for _, actor := range posts[p].Actors {
				if users && !yield(activity.User, actor) {
					return
				}
			}
		}
	}
}

// ahead returns how many posts of a request are hashed before the first is decided. It is all, or
// with a limit twice the limit, which is enough unless more than half of them are dropped.
func ahead(req Request) int {
	if req.Limit > 0 {
		return min(len(req.Posts), 2*req.Limit)
	}
	return len(req.Posts)
}

// targets reports which sorts of ids the kinds of c are checked with.
func (c *checks) targets() (users, posts bool) {
	for _, k := range c.all[:c.marks] {
		users = users || k.Target == activity.User
		posts = posts || k.Target == activity.Post
	}
	return users, posts
}

// hashAhead hashes the ids on the first posts of a request that c looks for.
func hashAhead(search *activity.Search, c *checks, posts []Post) hashed {
	h := hashed{search: search, posts: len(posts)}
	h.byUser, h.byPost = c.targets()
	if h.byUser {
		search.Begin(activity.User)
		for p := range posts { // even without an author
			search.Add(posts[p].Author)
			for _, a := range posts[p].Actors {
				search.Add(a)
			}
		}
		h.countUsers(posts)
	}
	if h.byPost {
		search.Begin(activity.Post)
		for p := range posts {
			search.Add(posts[p].ID)
		}
	}
	return h
}

// countUsers counts the users on the posts, unless every post has only its author.
func (h *hashed) countUsers(posts []Post) {
	n := 0
	for p := range posts {
		n += len(posts[p].Actors)
	}
	if n == 0 {
		return
	}
	h.users = make([]int, len(posts)+1)
	for p := range posts {
		h.users[p+1] = h.users[p] + 1 + len(posts[p].Actors)
	}
}

// look tests the ids against the first kinds of the view, and notes the posts where any was found.
func (h *hashed) look(kinds int) {
	h.search.Run(kinds)
	var posts, users []bool
	if h.byPost {
		posts = h.search.Hits(activity.Post)
	}
	if h.byUser {
		users = h.search.Hits(activity.User)
	}
	for p := range h.posts {
		hit := h.byPost && posts[p]
		switch {
		case !h.byUser:
		case h.users == nil:
			hit = hit || users[p]
		default:
			hit = hit || slices.Contains(users[h.users[p]:h.users[p+1]], true)
		}
		if hit {
			h.hits = append(h.hits, p)
		}
	}
}

// found yields the posts, of so many, where anything was found, and those that were not hashed.
func (h *hashed) found(posts int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, p := range h.hits {
			if !yield(p) {
				return
			}
		}
		for p := h.posts; p < posts; p++ {
			if !yield(p) {
				return
			}
		}
	}
}

// place returns the index, among the hashed ids of a kind's target, of the n-th id on post p.
func (h *hashed) place(k *activity.Kind, p, n int) int {
	if k.Target == activity.User && h.users != nil {
		p = h.users[p]
	}
	return p + n
}
