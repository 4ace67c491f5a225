package feed

import (
	"iter"

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
		for p := range posts { // even without an author
			search.Hash(activity.User, posts[p].Author)
			for _, a := range posts[p].Actors {
				search.Hash(activity.User, a)
			}
		}
		h.countUsers(posts)
	}
	if h.byPost {
		for p := range posts {
			search.Hash(activity.Post, posts[p].ID)
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

// hit reports whether anything may have been found on post p. It is true for a post that was not
// hashed.
func (h *hashed) hit(p int) bool {
	switch {
	case p >= h.posts || h.byPost && h.search.Hit(activity.Post, p):
		return true
	case !h.byUser:
		return false
	case h.users == nil:
		return h.search.Hit(activity.User, p)
	}
	for n := h.users[p]; n < h.users[p+1]; n++ {
		if h.search.Hit(activity.User, n) {
			return true
		}
	}
	return false
}

// place returns the index, among the hashed ids of a kind's target, of the n-th id on post p.
func (h *hashed) place(k *activity.Kind, p, n int) int {
	if k.Target == activity.User && h.users != nil {
		p = h.users[p]
	}
	return p + n
}
