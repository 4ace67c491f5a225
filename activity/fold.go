package activity

import (
	"strings"

	"golang.org/x/net/idna"
)

// Fold is how ids of a facet are made alike, before they are recorded or looked for.
type Fold string

// Folds.
const (
	AsIs       Fold = ""       // ids are compared byte by byte
	FoldLower  Fold = "lower"  // lower case
	FoldDomain Fold = "domain" // domain names: lower case, IDNA to ASCII, no final dot
)

// ID returns the id by which a valid id is recorded and looked for. That id folds to itself. It may
// be longer than [MaxIDBytes]; then nobody can record it.
func (f Fold) ID(id string) string {
	switch f {
	case FoldLower:
		return strings.ToLower(id)
	case FoldDomain:
		return foldDomain(id)
	default:
		return id
	}
}

// foldDomain maps a name to ASCII as browsers do. Of a name that has no form in ASCII it returns
// the lower case, because every id needs a fold.
func foldDomain(id string) string {
	id = withoutFinalDots(id)
	folded := strings.ToLower(id)
	if IsPlainID(id) {
		return folded
	}
	browser := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckJoiners(true), idna.CheckHyphens(false),
		idna.StrictDomainName(false))
	if ascii, err := browser.ToASCII(id); err == nil && ascii != "" {
		return withoutFinalDots(strings.ToLower(ascii))
	}
	if folded != id {
		return foldDomain(folded)
	}
	return id
}

// withoutFinalDots returns id as it is if there is nothing else in it.
func withoutFinalDots(id string) string {
	if trimmed := strings.TrimRight(id, "."); trimmed != "" {
		return trimmed
	}
	return id
}

// Rollup is how an id of a facet names its parents. An activity with an id covers all ids below it.
type Rollup string

// Rollups.
const (
	NoRollup     Rollup = ""       // an id has no parents
	RollupDomain Rollup = "domain" // the parents of a.b.example are b.example and example
	RollupPath   Rollup = "path"   // the parents of b.example/x/y are b.example/x and b.example
)

// MaxParents is the largest number of parts of an id that covers others: labels of a domain,
// segments of a path. It bounds the look-ups for an id. The author of a post cannot exceed it to
// hide an id: parents are counted from the root.
const MaxParents = 8

// appendParents appends the parents of an id, the nearest first.
func (r Rollup) appendParents(to []string, id string) []string {
	var parent func(id string) string
	separator := "."
	switch r {
	case RollupDomain:
		parent = func(id string) string { return id[strings.IndexByte(id, '.')+1:] }
	case RollupPath:
		parent = func(id string) string { return id[:strings.LastIndexByte(id, '/')] }
		separator = "/"
	default:
		return to
	}
	for parts := strings.Count(id, separator); parts > 0; parts-- {
		if id = parent(id); parts <= MaxParents && id != "" {
			to = append(to, id)
		}
	}
	return to
}

// Canonical returns an activity as it is recorded: with the name of its kind, and a folded target.
// The error is an [*InvalidError] if it can never be recorded.
func (ks *Kinds) Canonical(a Activity) (Activity, error) {
	k, err := ks.check(a)
	if err != nil {
		return a, err
	}
	a.Kind = k.Name
	folded := k.Fold.ID(a.Target)
	if folded == a.Target {
		return a, nil
	}
	a.Target = folded
	return a, CheckID(folded, "target")
}

// Covering returns the ids under which kinds look for ids of a facet: each id folded, and its
// parents. Nil: the ids as they are.
func (ks *Kinds) Covering(facet Facet, ids []string) (covering []string) {
	if !ks.folds {
		return nil
	}
	k := ks.facets[facet]
	if k == nil || k.Fold == AsIs && k.Rollup == NoRollup {
		return nil
	}
	covering = make([]string, 0, 4*len(ids))
	for _, id := range ids {
		id = k.Fold.ID(id)
		covering = k.Rollup.appendParents(append(covering, id), id)
	}
	return covering
}
