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
	// MaxRelated is the largest number of related ids of a [Post].
	MaxRelated = 16

	// Roles of users whom the author of a post names.
	mention, quote = "mention", "quote"
)

// Post is a candidate for a feed. Kinds look at the ids that it has of their facet.
type Post struct {
	ID     string
	Author string // required if a checked kind targets users

	// Actors are up to MaxActors other users on the post, such as those who reposted it, or are
	// quoted or mentioned.
	Actors []string
	// Roles are what the actors did, such as "repost": Roles[i] is the role of Actors[i]. "", or
	// fewer roles than actors: the role is unknown, so every kind looks at the actor. The role of
	// Author is [activity.Author]. A viewer's own post is never dropped for actors with the role
	// "mention" or "quote", whom the viewer named. It is dropped for any others.
	Roles []string

	// Related are up to MaxRelated other ids of the same content, such as that of the post that this
	// one reposts. Kinds that target posts look at all of them. The first is the one that
	// Request.RecordSeen records: the original's, which all reposts have in common.
	Related []string

	// Facets are what else the post has, such as {"domain": {"x.example"}, "tag": {"go", "redis"}}:
	// up to MaxFacetIDs ids of each facet that a kind targets. Users and the post's id are no part
	// of it.
	Facets map[activity.Facet][]string
}

// number returns the number of ids of a facet on the post, which includes an author that is not
// known.
func (p *Post) number(facet activity.Facet) int {
	switch facet {
	case activity.Post:
		return 1 + len(p.Related)
	case activity.User:
		return 1 + len(p.Actors)
	default:
		return len(p.Facets[facet])
	}
}

// at returns the n-th id of a facet on the post. The first is the post's own id, or its author.
func (p *Post) at(facet activity.Facet, n int) string {
	switch {
	case facet == activity.Post && n == 0:
		return p.ID
	case facet == activity.Post:
		return p.Related[n-1]
	case facet == activity.User && n == 0:
		return p.Author
	case facet == activity.User:
		return p.Actors[n-1]
	default:
		return p.Facets[facet][n]
	}
}

// ids yields the ids of a facet on the post, each with its place among them.
func (p *Post) ids(facet activity.Facet) iter.Seq2[int, string] {
	return func(yield func(n int, id string) bool) {
		for n := range p.number(facet) {
			if id := p.at(facet, n); id != "" && !yield(n, id) {
				return
			}
		}
	}
}

// targets yields the ids on the post that a kind of the viewer looks at, each with its place among
// all ids of the kind's facet.
func (p *Post) targets(k *activity.Kind, viewer string) iter.Seq2[int, string] {
	return func(yield func(n int, id string) bool) {
		for n := range p.number(k.Target) {
			if id, is := p.target(k, viewer, n); is && !yield(n, id) {
				return
			}
		}
	}
}

// target returns the n-th id of a kind's facet on the post, and whether a kind of the viewer looks
// at it. Kinds look at users by role, and never at the viewer. On a viewer's own post, those that
// drop pass over whom the viewer named: users with the role "mention" or "quote". They look at all
// others, such as one who reposted it or whose role is unknown.
func (p *Post) target(k *activity.Kind, viewer string, n int) (id string, is bool) {
	id = p.at(k.Target, n)
	if k.Target != activity.User {
		return id, true
	}
	role := p.role(n)
	named := p.Author == viewer && (role == mention || role == quote)
	return id, id != "" && id != viewer && k.LooksAt(role) && !(named && k.Effect == activity.Drop)
}

// role returns the role of the n-th user on the post, of whom the author is number 0; "": unknown.
func (p *Post) role(n int) string {
	switch {
	case n == 0:
		return activity.Author
	case n <= len(p.Roles):
		return p.Roles[n-1]
	default:
		return ""
	}
}

// canonical returns the id under which the post is recorded as seen.
func (p *Post) canonical() string {
	if len(p.Related) > 0 {
		return p.Related[0]
	}
	return p.ID
}

// isBare reports whether the post has no more than an id and an author, as nearly all posts.
func (p *Post) isBare() bool {
	return len(p.Actors)|len(p.Roles)|len(p.Related)|len(p.Facets) == 0
}

// count returns the number of ids on the post. It returns an error for too many of one sort.
func (p *Post) count() (int, error) {
	n := 1 + len(p.Actors) + len(p.Related)
	if p.Author != "" {
		n++
	}
	if len(p.Actors) > MaxActors {
		return 0, tooMany("actors", fmt.Sprintf("%d actors, at most %d", len(p.Actors), MaxActors))
	}
	if len(p.Related) > MaxRelated {
		return 0, tooMany("related", fmt.Sprintf("%d ids, at most %d", len(p.Related), MaxRelated))
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

// check checks what the post has.
func (p *Post) check(kinds *activity.Kinds, needAuthor bool) error {
	if p.isBare() && activity.IsPlainID(p.ID) && activity.IsPlainID(p.Author) {
		return nil
	}
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
	if err := p.checkRoles(); err != nil {
		return err
	}
	if err := checkIDs(p.Related, "related"); err != nil {
		return err
	}
	if len(p.Facets) == 0 {
		return nil
	}
	return p.checkFacets(kinds)
}

func (p *Post) checkRoles() error {
	if len(p.Roles) > len(p.Actors) {
		return outOfRange("actors", fmt.Sprintf("%d roles for %d actors", len(p.Roles), len(p.Actors)))
	}
	for i, role := range p.Roles {
		if role == "" {
			continue
		}
		if err := activity.CheckRole(role); err != nil {
			return outOfRange("actors["+strconv.Itoa(i)+"].role", fmt.Sprintf("%q: %v", role, err))
		}
	}
	return nil
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
		to := Post{
			ID: clone(p.ID), Author: clone(p.Author), Actors: list(p.Actors), Roles: list(p.Roles), Related: list(p.Related),
		}
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

// each calls do with every id and role on the post, that of the author even if it is empty.
func (p *Post) each(do func(id string)) {
	do(p.ID)
	do(p.Author)
	for _, list := range [...][]string{p.Actors, p.Roles, p.Related} {
		for _, id := range list {
			do(id)
		}
	}
	for _, ids := range p.Facets {
		for _, id := range ids {
			do(id)
		}
	}
}
