package feed

import (
	"iter"

	"github.com/feedfilter/feedfilter/activity"
)

// hashed are the hashes of what is looked for on the first posts of a request, made while the page is on its way.
type hashed struct {
	reading *activity.Reading
	posts   int   // how many are hashed
	first   []int // the place of the first hash of each kind
	each    []int // how many hashes an id has with each kind
	users   []int // how many users the posts before each have, their actors too; nil: one each
}

// ahead is how many posts of a request are hashed before it is known which are dropped: all, or where there is a limit,
// twice as many, which will do unless half of them are.
func ahead(req Request) int {
	if req.Limit > 0 {
		return min(len(req.Posts), 2*req.Limit)
	}
	return len(req.Posts)
}

// hashAhead hashes what c looks for on the first posts of a request.
func hashAhead(reading *activity.Reading, c checks, posts []Post) hashed {
	places := make([]int, 2*c.marks)
	h := hashed{reading: reading, posts: len(posts), first: places[:c.marks], each: places[c.marks:]}
	byUser := false
	for i, k := range c.all[:c.marks] {
		h.each[i] = reading.Hashes(i)
		if k.Target == activity.Post {
			h.first[i] = reading.Hash(i, ids(posts))
			continue
		}
		byUser = true
		h.first[i] = reading.Hash(i, users(posts))
	}
	if byUser {
		h.countUsers(posts)
	}
	return h
}

func ids(posts []Post) iter.Seq[string] {
	return func(yield func(string) bool) {
		for p := range posts {
			if !yield(posts[p].ID) {
				return
			}
		}
	}
}

// users yields the author of each post, also where there is none, and then its actors.
func users(posts []Post) iter.Seq[string] {
	return func(yield func(string) bool) {
		for p := range posts {
			if !yield(posts[p].Author) {
				return
			}
			for _, a := range posts[p].Actors {
				if !yield(a) {
					return
				}
			}
		}
	}
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

// look looks for all that is hashed, once the page is there.
func (h *hashed) look(c checks) {
	for i, k := range c.all[:c.marks] {
		n := h.posts
		if k.Target == activity.User && h.users != nil {
			n = h.users[h.posts]
		}
		h.reading.Look(i, h.first[i], n)
	}
}

// place is that of the hashes by which the i-th kind, k, is looked for with the n-th of its targets on post p.
func (h *hashed) place(k activity.Kind, i, p, n int) int {
	if k.Target == activity.User && h.users != nil {
		p = h.users[p]
	}
	return h.first[i] + h.each[i]*(p+n)
}
