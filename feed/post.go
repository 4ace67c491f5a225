package feed

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// MaxActors is the largest number of actors of one [Post].
	MaxActors = 100
	// MaxFacetIDs is the largest number of ids of one facet of a [Post].
	MaxFacetIDs = 16
)

// Post is a candidate for a feed. Kinds look at the ids that it has of their facet.
type Post struct {
	ID     string
	Author string // required if a checked kind targets users

	// Actors are up to MaxActors other users on the post, such as those who reposted it, or are
	// quoted or mentioned.
	Actors []string

	// Facets are what else the post has, such as {"domain": {"x.example"}, "tag": {"go", "redis"}}:
	// up to MaxFacetIDs ids of each facet that a kind targets. Users and the post's id are no part
	// of it.
	Facets map[activity.Facet][]string
}

// targets yields the ids of a facet on the post, without the viewer's. With each comes its place
// among all ids that the post has of the facet.
func (p *Post) targets(facet activity.Facet, viewer string) iter.Seq2[int, string] {
	return func(yield func(n int, id string) bool) {
		switch facet {
		case activity.Post:
			yield(0, p.ID)
		case activity.User:
			if p.Author != viewer && p.Author != "" && !yield(0, p.Author) {
				return
			}
			for n, id := range p.Actors {
				if id != viewer && !yield(1+n, id) {
					return
				}
			}
		default:
			for n, id := range p.Facets[facet] {
				if !yield(n, id) {
					return
				}
			}
		}
	}
}

// isPlain reports whether the post has only an id and an author, both of printable ASCII, as nearly
// all posts.
func (p *Post) isPlain() bool {
	return len(p.Actors) == 0 && len(p.Facets) == 0 && activity.IsPlainID(p.ID) && activity.IsPlainID(p.Author)
}

// count returns the number of ids on the post. It returns an error for too many of one sort.
func (p *Post) count() (int, error) {
	n := 1 + len(p.Actors)
	if p.Author != "" {
		n++
	}
	if len(p.Actors) > MaxActors {
		return 0, tooMany("actors", fmt.Sprintf("%d actors, at most %d", len(p.Actors), MaxActors))
	}
	if len(p.Facets) == 0 {
		return n, nil
	}
	for _, facet := range slices.Sorted(maps.Keys(p.Facets)) { // so that the error is the same each time
		ids := p.Facets[facet]
		if len(ids) > MaxFacetIDs {
			return 0, tooMany("facets."+string(facet), fmt.Sprintf("%d ids, at most %d", len(ids), MaxFacetIDs))
		}
		n += len(ids)
	}
	return n, nil
}

func (p *Post) check(kinds *activity.Kinds, needAuthor bool) error {
	if err := activity.CheckID(p.ID, "id"); err != nil {
		return err
	}
	if p.Author != "" || needAuthor {
		if err := activity.CheckID(p.Author, "author"); err != nil {
			return err
		}
	}
	if err := checkIDs(p.Actors, "actors"); err != nil {
		return err
	}
	if len(p.Facets) == 0 {
		return nil
	}
	return p.checkFacets(kinds)
}

// checkFacets checks the facets in order of name, so that it returns the same error each time.
func (p *Post) checkFacets(kinds *activity.Kinds) error {
	for _, facet := range slices.Sorted(maps.Keys(p.Facets)) {
		field := "facets." + string(facet)
		if err := kinds.CheckFacet(facet, field); err != nil {
			return err
		}
		if err := checkIDs(p.Facets[facet], field); err != nil {
			return err
		}
	}
	return nil
}

// checkIDs checks the ids of a list that is called field.
func checkIDs(ids []string, field string) error {
	for i, id := range ids {
		if err := activity.CheckID(id, ""); err != nil {
			return activity.Within(field+"["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

// clonePosts copies posts and viewer into new memory, all ids into one string. It returns nil if
// they are too many.
func clonePosts(posts []Post, viewer string) (cloned []Post, of string) {
	ids, bytes := 0, len(viewer)
	for i := range posts {
		posts[i].each(func(id string) { ids, bytes = ids+1, bytes+len(id) })
	}
	if ids > maxSampledIDs || bytes > maxSampledBytes {
		return nil, ""
	}
	var text strings.Builder
	text.Grow(bytes)
	clone := func(id string) string {
		from := text.Len()
		text.WriteString(id)
		return text.String()[from:]
	}
	cloned = make([]Post, len(posts))
	all := make([]string, 0, ids) // ids in lists
	list := func(ids []string) []string {
		from := len(all)
		for _, id := range ids {
			all = append(all, clone(id))
		}
		return all[from:len(all):len(all)]
	}
	for i, p := range posts {
		to := Post{ID: clone(p.ID), Author: clone(p.Author), Actors: list(p.Actors)}
		if len(p.Facets) > 0 {
			to.Facets = make(map[activity.Facet][]string, len(p.Facets))
		}
		for facet, ids := range p.Facets {
			to.Facets[activity.Facet(strings.Clone(string(facet)))] = list(ids)
		}
		cloned[i] = to
	}
	return cloned, clone(viewer)
}

// each calls do with every id on the post, that of the author even if it is empty.
func (p *Post) each(do func(id string)) {
	do(p.ID)
	do(p.Author)
	for _, id := range p.Actors {
		do(id)
	}
	for _, ids := range p.Facets {
		for _, id := range ids {
			do(id)
		}
	}
}
