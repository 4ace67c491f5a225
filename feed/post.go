package feed

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// MaxActors is the largest number of actors of one [Post].
	MaxActors = 100
	// MaxFacetIDs is the number of ids of one facet of a [Post] that kinds look at.
	MaxFacetIDs = 64
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

	// Facets are what else the post has, such as {"domain": {"x.example"}, "tag": {"go", "redis"}}.
	// Each facet is one that a kind targets. Users and the post's id are no part of it. Kinds look at
	// the first MaxFacetIDs ids of a facet. If a post has more, the answer is degraded.
	Facets map[activity.Facet][]string

	// Text is what the post says. Kinds whose targets are phrases look for these in it, in the first
	// [activity.MaxText] bytes. If a post of a viewer who has phrases is longer, the answer is
	// degraded. What is not UTF-8 separates words.
	Text string
}

// ids returns the ids of a facet on the post: its own id or its author, and others.
func (p *Post) ids(facet activity.Facet) (first string, others []string) {
	switch facet {
	case activity.Post:
		return p.ID, p.Related
	case activity.User:
		return p.Author, p.Actors
	default:
		return "", p.Facets[facet]
	}
}

// posts are the candidates of a feed.
type posts []Post

// Hash implements [activity.Candidates].
func (all *posts) Hash(to *activity.Hashes, facet activity.Facet, from, until int) {
	some := (*all)[from:until]
	switch facet {
	case activity.Post:
		for i := range some {
			to.Add(some[i].ID, some[i].Related)
		}
	case activity.User:
		for i := range some {
			to.Add(some[i].Author, some[i].Actors)
		}
	default:
		for i := range some {
			to.Add("", some[i].Facets[facet])
		}
	}
}

// IDs implements [activity.Candidates].
func (all *posts) IDs(n int, facet activity.Facet) (first string, others []string) {
	return (*all)[n].ids(facet)
}

// Text implements [activity.Candidates].
func (all *posts) Text(n int) string { return (*all)[n].Text }

// Targets yields the ids on the post that a kind of the viewer looks at. Phrases in its text are
// none of them.
func (p *Post) Targets(k *activity.Kind, viewer string) iter.Seq[string] {
	return func(yield func(id string) bool) {
		first, others := p.ids(k.Target)
		if p.looksAt(k, viewer, first, 0) && !yield(first) {
			return
		}
		for i, id := range others {
			if p.looksAt(k, viewer, id, i+1) && !yield(id) {
				return
			}
		}
	}
}

// LooksInText reports whether a kind of the viewer looks for phrases in the text of the post.
func (p *Post) LooksInText(k *activity.Kind, viewer string) bool {
	return k.InText() && p.looksAt(k, viewer, p.Text, -1)
}

// looksAt reports whether a kind of the viewer looks at an id on the post, given its place among
// those of the kind's facet. Kinds look at users by role, and never at the viewer. On a viewer's
// own post, those that drop pass over whom the viewer named: users with the role "mention" or
// "quote". They look at all others, such as one who reposted it or whose role is unknown. Kinds
// that drop posts with phrases do not look at a viewer's own post.
func (p *Post) looksAt(k *activity.Kind, viewer, id string, place int) bool {
	if id == "" {
		return false
	}
	if k.Target != activity.User {
		return !k.InText() || k.Effect != activity.Drop || p.Author != viewer
	}
	role := p.role(place)
	named := p.Author == viewer && (role == mention || role == quote)
	return id != viewer && k.LooksAt(role) && !(named && k.Effect == activity.Drop)
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

// checkCounts returns an error for too many ids of one sort.
func (p *Post) checkCounts() error {
	if len(p.Actors) > MaxActors {
		return invalid(
			activity.CodeTooManyIDs, "actors", "%d actors, at most %d", len(p.Actors), MaxActors,
		)
	}
	if len(p.Related) > MaxRelated {
		return invalid(
			activity.CodeTooManyIDs, "related", "%d ids, at most %d", len(p.Related), MaxRelated,
		)
	}
	return nil
}

// count returns the number of ids of the given facets on the post.
func (p *Post) count(facets map[activity.Facet]bool) (n int) {
	if facets[activity.Post] {
		n += 1 + len(p.Related)
	}
	if facets[activity.User] {
		n += len(p.Actors)
		if p.Author != "" {
			n++
		}
	}
	for facet, ids := range p.Facets {
		if facets[facet] {
			n += min(len(ids), MaxFacetIDs)
		}
	}
	return n
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
		return invalid(
			activity.CodeOutOfRange, "actors", "%d roles for %d actors", len(p.Roles), len(p.Actors),
		)
	}
	for i, role := range p.Roles {
		if role == "" {
			continue
		}
		if err := activity.CheckRole(role); err != nil {
			return invalid(
				activity.CodeOutOfRange, "actors["+strconv.Itoa(i)+"].role", "%q: %v", role, err,
			)
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
