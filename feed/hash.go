package feed

import (
	"iter"

	"github.com/feedfilter/feedfilter/activity"
)

// hashed are the hashes of what is looked for on the first posts of a request.
type hashed struct {
	search *activity.Search
	byUser bool  // ids of users are looked for
	byPost bool  // and those of posts
	posts  int   // how many are hashed
	users  []int // how many users the posts before each have, their actors too; nil: one each
}

// ids yields what the kinds of c are looked for with on the posts.
func (c *checks) ids(posts []Post) iter.Seq2[activity.Target, string] {
	return func(yield func(activity.Target, string) bool) {
		users, ofPosts := c.targets()
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

// ahead is how many posts of a request are hashed before it is known which are dropped: all, or where
// there is a limit, twice as many, which is enough unless half of them are dropped.
func ahead(req Request) int {
	if req.Limit > 0 {
		return min(len(req.Posts), 2*req.Limit)
	}
	return len(req.Posts)
}

// targets reports which ids the kinds of c are looked for with.
func (c *checks) targets() (users, posts bool) {
	for _, k := range c.all[:c.marks] {
		users = users || k.Target == activity.User
		posts = posts || k.Target == activity.Post
	}
	return users, posts
}

// hashAhead hashes what c looks for on the first posts of a request.
func hashAhead(search *activity.Search, c *checks, posts []Post) hashed {
	h := hashed{search: search, posts: len(posts)}
	h.byUser, h.byPost = c.targets()
	if h.byUser {
		for p := range posts { // also where there is no author
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

// countUsers counts who is on the posts, unless all have an author and nobody else.
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

// hit reports whether anything may have been found on post p, also where that is not known.
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

// place is which of the ids of a kind's target the n-th on post p is.
func (h *hashed) place(k *activity.Kind, p, n int) int {
	if k.Target == activity.User && h.users != nil {
		p = h.users[p]
	}
	return p + n
}
