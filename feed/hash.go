package feed

import (
	"iter"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
)

// hashed holds the hashes of the ids to look for on the first posts of a request.
type hashed struct {
	search  *activity.Search
	posts   int      // how many posts are hashed
	columns []column // of the facets that kinds look at
	hits    []int    // posts where anything was found, in ascending order
}

// column is the ids of one facet on the posts.
type column struct {
	facet activity.Facet
	// before has the number of ids on all posts before each one, and at last of all; nil: each post
	// has one id. The first on each post is its own id or its author, even if there is none.
	before []int
}

// ahead returns how many posts of a request are hashed before the first is decided. It is all, or
// with a limit twice the limit, which is enough unless more than half of them are dropped.
func ahead(req Request) int {
	if req.Limit > 0 {
		return min(len(req.Posts), 2*req.Limit)
	}
	return len(req.Posts)
}

// hashAhead hashes the ids on the first posts of a request that c looks for.
func hashAhead(search *activity.Search, c *checks, posts []Post) hashed {
	h := hashed{search: search, posts: len(posts), columns: c.columns}
	for i := range h.columns {
		column := &h.columns[i]
		search.Begin(column.facet)
		if c.bare {
			addBare(search, posts, column.facet)
		}
		if c.bare && (column.facet == activity.Post || column.facet == activity.User) {
			continue
		}
		if !oneEach(posts, column.facet) {
			column.before = before(posts, column.facet)
		}
		for p := range posts {
			post := &posts[p]
			switch column.facet {
			case activity.Post:
				search.Add(post.ID)
				addAll(search, post.Related)
			case activity.User:
				search.Add(post.Author) // even if there is none
				addAll(search, post.Actors)
			default:
				addAll(search, post.Facets[column.facet])
			}
		}
	}
	return h
}

// addBare adds the own ids of posts, or their authors.
func addBare(search *activity.Search, posts []Post, facet activity.Facet) {
	switch facet {
	case activity.Post:
		for p := range posts {
			search.Add(posts[p].ID)
		}
	case activity.User:
		for p := range posts {
			search.Add(posts[p].Author)
		}
	}
}

func addAll(search *activity.Search, ids []string) {
	for _, id := range ids {
		search.Add(id)
	}
}

// oneEach reports whether each post has exactly one id of the facet, as most have of posts and
// users.
func oneEach(posts []Post, facet activity.Facet) bool {
	for p := range posts {
		if posts[p].number(facet) != 1 {
			return false
		}
	}
	return true
}

// before counts the ids of a facet before each post.
func before(posts []Post, facet activity.Facet) []int {
	ids := 0
	counts := make([]int, 0, len(posts)+1)
	for p := range posts {
		counts = append(counts, ids)
		ids += posts[p].number(facet)
	}
	return append(counts, ids)
}

// look tests the ids against the kinds of c in the views of the viewer and of the lists, which only
// drop. It notes the posts where any was found.
func (h *hashed) look(c *checks, view *activity.View) {
	h.search.Run(view, c.marks)
	for _, list := range view.Lists {
		h.search.Run(list, c.drops)
	}
	var posts []bool // whether anything was found, for each
	for i := range h.columns {
		c := &h.columns[i]
		found := h.search.Hits(c.facet)
		switch {
		case c.before == nil && posts == nil:
			posts = found
		case c.before == nil:
			for p := range posts {
				posts[p] = posts[p] || found[p]
			}
		default:
			if posts == nil {
				posts = make([]bool, h.posts)
			}
			for p := range posts {
				posts[p] = posts[p] || slices.Contains(found[c.before[p]:c.before[p+1]], true)
			}
		}
	}
	for p, hit := range posts {
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

// place returns the index, among the hashed ids of a facet, of the n-th id on post p.
func (h *hashed) place(facet activity.Facet, p, n int) int {
	for i := range h.columns {
		if c := &h.columns[i]; c.facet == facet && c.before != nil {
			return c.before[p] + n
		}
	}
	return p + n
}
