package activity

import (
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"

	"github.com/feedfilter/feedfilter/activity/phrases"
)

// Fold is how ids of a facet are made alike, before they are recorded or looked for.
type Fold string

// Folds. FoldCase and FoldHost are later forms of FoldLower and FoldDomain. A fold never changes
// what it makes of an id: other processes, and what is recorded, rely on it.
const (
	AsIs       Fold = ""       // ids are compared byte by byte
	FoldLower  Fold = "lower"  // lower case; FoldCase finds more
	FoldCase   Fold = "case"   // case folding of Unicode
	FoldDomain Fold = "domain" // domain names: lower case, IDNA to ASCII, no final dot
	FoldHost   Fold = "host"   // FoldDomain without scheme, port, final slash and misplaced joiners
	FoldText   Fold = "text"   // phrases that are found in texts: see [Kind.InText]
)

func (f Fold) known() bool {
	return slices.Contains([]Fold{AsIs, FoldLower, FoldCase, FoldDomain, FoldHost, FoldText}, f)
}

// ID returns the id by which a valid id is recorded and looked for. That id folds to itself. It may
// be longer than [MaxIDBytes]; then nobody can record it.
func (f Fold) ID(id string) string {
	switch f {
	case FoldLower:
		return strings.ToLower(id)
	case FoldCase:
		return foldCase(id)
	case FoldDomain:
		return foldDomain(id)
	case FoldHost:
		return foldHost(id)
	case FoldText:
		if canonical, _, err := phrases.Canonical(id); err == nil {
			return canonical
		}
		return id // nobody can record it
	default:
		return id
	}
}

// Other returns the id under which id is recorded by processes that have the other form of the
// fold, the earlier or the later one. There are such before a facet gets the later form, and while
// a fleet is restarted with it. So feeds look for this id, too, and removals remove it. "": it is
// [Fold.ID], or there is no other.
func (f Fold) Other(id string) string {
	var other Fold
	switch f {
	case FoldLower:
		other = FoldCase
	case FoldCase:
		other = FoldLower
	case FoldDomain:
		other = FoldHost
	case FoldHost:
		other = FoldDomain
	default:
		return ""
	}
	if IsPlainID(id) && !strings.ContainsAny(id, ":/") {
		return "" // both are the lower case
	}
	if as := other.ID(id); as != f.ID(id) {
		return as
	}
	return ""
}

// foldCase folds case as Unicode does for caseless matching: final sigma is sigma, sharp s is ss.
func foldCase(id string) string {
	lower := strings.ToLower(id)
	if IsPlainID(id) {
		return lower
	}
	return cases.Fold().String(lower) // of Cherokee, Caser.String exchanges upper and lower case
}

// foldHost makes what programs call the same host alike. It removes a scheme, a port and a final
// slash from a name or an address, and joiners that no name may have. An id with a path, a query or
// a user stays one: a mute of a page must not become one of its site.
func foldHost(id string) string {
	host := hostOf(id)
	if strings.ContainsAny(host, "/?#@") {
		return strings.ToLower(id)
	}
	folded := foldDomain(host)
	// IDNA keeps joiners that a name may have, in ASCII.
	if bare := strings.NewReplacer("\u200c", "", "\u200d", "").Replace(folded); bare != "" {
		folded = bare
	}
	if folded != id {
		return foldHost(folded)
	}
	return folded
}

// hostOf returns the id without scheme, port and final slash; as it is if nothing else is in it.
func hostOf(id string) string {
	host := id
	if scheme, rest, found := strings.Cut(id, "://"); found && isScheme(scheme) {
		host = strings.TrimSuffix(rest, "/")
	}
	if i := strings.LastIndexByte(host, ':'); i > 0 && isPort(host[i+1:]) && takesPort(host[:i]) {
		host = host[:i]
	}
	if host == "" {
		return id
	}
	return host
}

func isScheme(text string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789+-."
	return text != "" && strings.Trim(strings.ToLower(text), allowed) == ""
}

func isPort(text string) bool { return len(text) <= 5 && strings.Trim(text, "0123456789") == "" }

// takesPort reports whether a port may follow: a name, or an IPv6 address in brackets.
func takesPort(host string) bool {
	if strings.HasPrefix(host, "[") {
		return strings.HasSuffix(host, "]")
	}
	return !strings.Contains(host, ":")
}

// foldDomain maps a name to ASCII as browsers do. Of a name that has no form in ASCII it returns
// the lower case, because every id needs a fold.
func foldDomain(id string) string {
	id = withoutFinalDots(id)
	folded := strings.ToLower(id)
	if IsPlainID(id) {
		return folded
	}
	browser := idna.New(
		idna.MapForLookup(), idna.BidiRule(),
		idna.CheckJoiners(true), idna.CheckHyphens(false), idna.StrictDomainName(false),
	)
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

// otherTarget returns the target under which the activity may be recorded besides its folded one:
// see [Fold.Other].
func (ks *Kinds) otherTarget(a Activity) string {
	if !ks.folds {
		return ""
	}
	k, _ := ks.Named(a.Kind)
	return k.Fold.Other(a.Target)
}

// Canonical returns an activity as it is recorded: with the name of its kind, and a folded target.
// The error is an [*InvalidError] if it can never be recorded.
func (ks *Kinds) Canonical(a Activity) (Activity, error) {
	k, err := ks.check(a)
	if err != nil {
		return a, err
	}
	a.Kind = k.Name
	if k.InText() {
		canonical, _, err := phrases.Canonical(a.Target)
		if err != nil {
			return a, &InvalidError{
				Code: CodeInvalidID, Field: "target", Message: "not a phrase: " + err.Error(),
			}
		}
		a.Target = canonical
		return a, nil
	}
	folded := k.Fold.ID(a.Target)
	if folded == a.Target {
		return a, nil
	}
	a.Target = folded
	return a, CheckID(folded, "target")
}

// Covering returns the ids under which kinds look for ids of a facet: each id folded, also by the
// [Fold.Other] form, and their parents. Nil means the ids as they are. It is nil for phrases, as
// [View.Find] folds them.
func (ks *Kinds) Covering(facet Facet, ids []string) (covering []string) {
	if !ks.folds {
		return nil
	}
	k := ks.facets[facet]
	if k == nil || k.InText() || k.Fold == AsIs && k.Rollup == NoRollup {
		return nil
	}
	covering = make([]string, 0, 4*len(ids))
	for _, id := range ids {
		for _, as := range [...]string{k.Fold.ID(id), k.Fold.Other(id)} {
			if as != "" {
				covering = k.Rollup.appendParents(append(covering, as), as)
			}
		}
	}
	return covering
}

// Phrases returns the ids of a facet in the form in which they are recorded, if they are phrases.
// Nil: the facet is another one.
func (ks *Kinds) Phrases(facet Facet, ids []string) (phrases []string) {
	if k := ks.facets[facet]; k != nil && k.InText() {
		for _, id := range ids {
			phrases = append(phrases, k.Fold.ID(id))
		}
	}
	return phrases
}
