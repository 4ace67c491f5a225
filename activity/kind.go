package activity

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
)

// Facet is what the targets of a kind are: users, posts, or something else that posts have, such as
// "domain", "community" or "tag". It is 1 to 32 lower-case letters and dashes.
type Facet string

// Facets that every post has: the users who wrote it or acted on it, and its own id.
const (
	User Facet = ledger.User
	Post Facet = ledger.Post
)

// Author is the role of the user who wrote a post. Other roles are names that an app gives to users
// on it, such as "repost". Feeds know "quote" and "mention": users whom the author names.
const Author = "author"

// Effect is what an activity does to a post in the user's feed.
type Effect uint8

// Effects.
const (
	Drop     Effect = iota + 1 // the post is left out
	Annotate                   // the post is kept, and annotated
	Keep                       // the post is kept in spite of the kinds in Kind.Over
)

const (
	maxWindow = 100 * 365 * 24 * time.Hour
	maxParts  = 64
	maxMost   = 100_000
	maxRoles  = 16

	// unknownName is the string of a value that has no name.
	unknownName = "unknown"

	// DefaultParts is the default number of parts of a window.
	DefaultParts = seen.DefaultParts
	// DefaultMost is the default number of a user's newest activities that stay in a window.
	DefaultMost = seen.DefaultMost
)

func (e Effect) String() string {
	names := [...]string{unknownName, "drop", "annotate", "keep"}
	if int(e) < len(names) {
		return names[e]
	}
	return names[0]
}

// Kind is a kind of activity. Kinds are data: routes, keys, pages and checks follow from these
// fields.
type Kind struct {
	Name   string // lower-case letters and dashes, such as "block"
	Plural string // such as "blocks": a second name in calls, and in routes
	Target Facet
	// Effect is what the kind does. A kind that dropped no posts when the ledger met it first keeps
	// small keys, even if it drops posts later. Then each id on a post adds to the false-positive
	// rate, see [Config.FalsePositiveRate].
	Effect Effect

	// Fold is how ids of the target's facet are made alike, and Rollup which ids are below others.
	// All kinds with the same target have the same. Ids of users and posts have neither.
	Fold   Fold
	Rollup Rollup

	// Roles are up to 16 roles of users on a post, in which the kind looks at them, such as Author
	// and "repost". Nil: it looks at all. It looks at users without a role in any case. Only for
	// kinds whose targets are users.
	Roles []string

	// Over names the kinds that a kind with the effect Keep overrules: one-way kinds that drop, or
	// [Lists] for all that lists drop. A post is not dropped for an id if the user has the kind with
	// that id, or, if the kind targets another facet, with any of the post's ids. All ids of a post's
	// content count as one. The ledger confirms it for each feed: a false positive would show what
	// must be dropped.
	Over []string

	// Reverse makes the kind two-way, for kinds whose targets are users: the target's page then
	// holds the user under this name. Empty: one-way.
	Reverse string

	// Fanout stores each activity on the target's page, too, for [Activities.Audience]. It is for
	// one-way kinds that the ledger keeps; two-way kinds are stored so anyway.
	Fanout bool

	// Window keeps the kind in the filter alone, without a ledger. It is for data that is too large
	// to keep and harmless to lose. An activity is kept for Window, and for at most Window/Parts
	// more. 0: the ledger keeps the activity until it is removed. 1 s to 100 years.
	Window time.Duration
	// Parts is the number of parts of the window, 1 to 64. 0: DefaultParts.
	Parts int
	// Most is the number of a user's newest activities that stay in the window, 1 to 100,000. Older
	// ones are forgotten, up to an eighth of Most later. A feed reads all of them, some 2 bytes
	// each. 0: DefaultMost.
	Most int

	// Limit is the largest number of activities of the kind that a user may have. 0: no limit. Only
	// for kinds that the ledger keeps.
	Limit uint32
}

// InLedger reports whether the ledger keeps activities of this kind.
func (k Kind) InLedger() bool { return k.Window == 0 }

// LooksAt reports whether the kind looks at users on a post who have the role; "": none.
func (k Kind) LooksAt(role string) bool {
	return k.Roles == nil || role == "" || slices.Contains(k.Roles, role)
}

// InText reports whether the kind's targets are phrases of 1 to 5 words. They are looked for in the
// texts of posts, and among the ids of the facet. A text has a phrase if the words of the phrase
// stand in it one after the other. Both are compared in the form of package phrases.
func (k Kind) InText() bool { return k.Fold == FoldText }

// Equal reports whether all fields are the same.
func (k Kind) Equal(other Kind) bool { return reflect.DeepEqual(k, other) }

// Kinds is an immutable set of kinds. It is safe for concurrent use.
type Kinds struct {
	all    []Kind
	byName map[string]int  // indexes in all, by name and by plural
	facets map[Facet]*Kind // a kind that targets the facet
	folds  bool            // some facet has a Fold or a Rollup
}

// BuiltinKinds returns the kinds that every service has: block, hide, like and seen.
func BuiltinKinds() *Kinds {
	kinds, err := NewKinds(builtinKinds()...)
	if err != nil {
		panic(err) // builtinKinds is invalid
	}
	return kinds
}

// Lists stands in [Kind.Over] for what the lists of a feed drop.
const Lists = "lists"

// Seen is the name of the kind by which a feed records the posts it shows.
const Seen = "seen"

func builtinKinds() []Kind {
	return []Kind{
		{Name: "block", Plural: "blocks", Target: User, Effect: Drop, Reverse: "blocked-by"},
		{Name: "hide", Plural: "hides", Target: Post, Effect: Drop},
		{Name: "like", Plural: "likes", Target: Post, Effect: Annotate},
		{Name: Seen, Plural: Seen, Target: Post, Effect: Drop, Window: 30 * 24 * time.Hour},
	}
}

// NewKinds returns the set of the given kinds. The error names the field that is out of range, or
// the name that is used twice: names, plurals and reverse names all differ.
func NewKinds(kinds ...Kind) (*Kinds, error) {
	ks := &Kinds{byName: make(map[string]int), facets: make(map[Facet]*Kind)}
	taken := make(map[string]string) // the kind that has the name
	for i, k := range kinds {
		if err := k.validate(); err != nil {
			return nil, fmt.Errorf("kind %q: %w", k.Name, err)
		}
		for _, name := range k.names() {
			if of, ok := taken[name]; ok {
				return nil, fmt.Errorf("kind %q: the name %q is taken by the kind %q", k.Name, name, of)
			}
			taken[name] = k.Name
		}
		other := ks.facets[k.Target]
		if other != nil && (other.Fold != k.Fold || other.Rollup != k.Rollup) {
			return nil, fmt.Errorf(
				"kind %q: fold %q and roll-up %q, and kind %q with the same target has %q and %q",
				k.Name, k.Fold, k.Rollup, other.Name, other.Fold, other.Rollup,
			)
		}
		ks.byName[k.Name], ks.byName[k.Plural], ks.facets[k.Target] = i, i, &k
		ks.folds = ks.folds || k.Fold != AsIs || k.Rollup != NoRollup
		ks.all = append(ks.all, k)
	}
	for i := range ks.all {
		k := &ks.all[i]
		var err error
		if k.Over, err = ks.over(k.Over); err != nil {
			return nil, fmt.Errorf("kind %q: over: %w", k.Name, err)
		}
	}
	return ks, nil
}

// over returns the names of the kinds that a kind overrules, given by name or plural. What others
// did with the user is not the user's to overrule, so two-way kinds are refused.
func (ks *Kinds) over(given []string) (names []string, err error) {
	for _, name := range given {
		k, ok := ks.Named(name)
		switch {
		case name == Lists:
			k.Name = Lists
		case !ok:
			return nil, fmt.Errorf("there is no kind %q", name)
		case k.Effect != Drop:
			return nil, fmt.Errorf("%q does not drop posts", name)
		case k.Reverse != "":
			return nil, fmt.Errorf("%q is two-way", name)
		}
		if slices.Contains(names, k.Name) {
			return nil, fmt.Errorf("%q is named twice", k.Name)
		}
		names = append(names, k.Name)
	}
	return names, nil
}

// names returns every name of the kind, each once unless the reverse name is one of the others.
func (k Kind) names() []string {
	all := []string{k.Name}
	if mirror := k.Mirror(); mirror != "" {
		all = append(all, mirror)
	}
	if k.Plural != k.Name {
		all = append(all, k.Plural)
	}
	return all
}

func (k Kind) validate() error {
	for _, name := range k.names() {
		switch name {
		case "id", Lists, "preview", "export":
			return errors.New("the name is taken: by a field of requests or answers, or by a route")
		}
		if err := checkName(name); err != nil {
			return fmt.Errorf("name %q: %w", name, err)
		}
	}
	if err := k.validateTarget(); err != nil {
		return err
	}
	switch {
	case k.Effect < Drop || k.Effect > Keep:
		return fmt.Errorf("effect %d is unknown", k.Effect)
	case k.Effect == Keep && (k.Reverse != "" || k.Window != 0):
		return errors.New("a kind that keeps is one-way and has no window")
	case k.Effect == Keep && len(k.Over) == 0:
		return errors.New("a kind that keeps needs the kinds that it overrules (over)")
	case k.Effect != Keep && k.Over != nil:
		return errors.New("only a kind that keeps overrules others (over)")
	case k.Fanout && (k.Reverse != "" || k.Window != 0):
		return errors.New("fan-out is for one-way kinds without a window")
	case k.Reverse != "" && k.Target != User:
		return errors.New("a two-way kind needs users as targets")
	case k.Reverse != "" && k.Window != 0:
		return errors.New("a two-way kind has no window")
	case k.Roles != nil && k.Target != User:
		return errors.New("only a kind with users as targets has roles")
	case k.Roles != nil && (len(k.Roles) == 0 || len(k.Roles) > maxRoles):
		return fmt.Errorf("%d roles, want 1 to %d", len(k.Roles), maxRoles)
	}
	for i, role := range k.Roles {
		if err := CheckRole(role); err != nil {
			return fmt.Errorf("role %q: %w", role, err)
		}
		if slices.Contains(k.Roles[:i], role) {
			return fmt.Errorf("role %q is named twice", role)
		}
	}
	return k.validateWindow()
}

// CheckRole returns an error unless role may be that of a user on a post: 1 to 32 lower-case
// letters and dashes.
func CheckRole(role string) error { return checkName(role) }

// Check returns an error unless f is a name that a facet may have. A name that is easily taken for
// [User] or [Post] is refused.
func (f Facet) Check() error {
	switch string(f) {
	case "users", "author", "authors", "actor", "actors":
		return errors.New("the facet of people is called \"user\"")
	case "posts", "id", "ids", "related":
		return errors.New("the facet of a post's own id is called \"post\"")
	}
	return checkName(string(f))
}

// checkName returns an error unless name may be that of a kind or a facet.
func checkName(name string) error {
	if name == "" || len(name) > 32 {
		return errors.New("not 1 to 32 bytes")
	}
	for _, c := range []byte(name) {
		if c != '-' && (c < 'a' || c > 'z') {
			return errors.New("only lower-case letters and dashes")
		}
	}
	return nil
}

func (k Kind) validateTarget() error {
	err := k.Target.Check()
	switch {
	case err != nil:
		return fmt.Errorf("target %q: %w", k.Target, err)
	case !k.Fold.known():
		return fmt.Errorf("fold %q is not case, host, lower or domain", k.Fold)
	case k.Rollup != NoRollup && k.Rollup != RollupDomain && k.Rollup != RollupPath:
		return fmt.Errorf("roll-up %q is not domain or path", k.Rollup)
	case k.InText() && k.Rollup != NoRollup:
		return errors.New("phrases that are found in text have no roll-up")
	case k.InText() && k.Window != 0:
		return errors.New("a kind with a window cannot have phrases as targets")
	case (k.Fold == FoldDomain || k.Fold == FoldHost) && k.Rollup == RollupPath:
		return fmt.Errorf("the fold %s is not for paths", k.Fold)
	case (k.Fold != AsIs || k.Rollup != NoRollup) && (k.Target == User || k.Target == Post):
		return errors.New("ids of users and posts have no fold and no roll-up")
	}
	return nil
}

func (k Kind) validateWindow() error {
	switch {
	case k.Window != 0 && (k.Window < time.Second || k.Window > maxWindow):
		return fmt.Errorf("window %v is not in 1 s to 100 years", k.Window)
	case k.Parts < 0 || k.Parts > maxParts || k.Parts > 0 && k.Window == 0:
		return fmt.Errorf("%d parts: 1 to %d, and only with a window", k.Parts, maxParts)
	case k.Most < 0 || k.Most > maxMost || k.Most > 0 && k.Window == 0:
		return fmt.Errorf("most %d: 1 to %d, and only with a window", k.Most, maxMost)
	case k.Limit > 0 && k.Window != 0:
		return errors.New("a kind with a window has no limit")
	case k.Window != 0 && k.Target == User:
		return errors.New("a kind with a window cannot have users as targets")
	}
	return nil
}

// All returns the kinds in the order given to NewKinds. The caller must not change the slice.
func (ks *Kinds) All() []Kind { return ks.all }

// Named returns the kind of that name or plural, and whether there is one. Code that gets a kind
// from a caller looks it up here, and then uses Kind.Name.
func (ks *Kinds) Named(name string) (Kind, bool) {
	i, ok := ks.byName[name]
	if !ok {
		return Kind{}, false
	}
	return ks.all[i], true
}

// CheckFacet returns an [*InvalidError] that names the field unless candidates may carry ids of the
// facet: some kind must target it. Users and posts are not carried so, but are fields of their own.
func (ks *Kinds) CheckFacet(facet Facet, field string) error {
	switch {
	case facet == User || facet == Post:
		return &InvalidError{
			Code: CodeUnknownFacet, Field: field,
			Message: fmt.Sprintf("ids of the facet %q belong in the fields id, author and actors", facet),
		}
	case ks.facets[facet] == nil:
		return &InvalidError{
			Code:    CodeUnknownFacet,
			Field:   field,
			Message: fmt.Sprintf("no kind has the target %q", facet),
		}
	}
	return nil
}

// Weight returns the weight of the kind's keys, if the ledger has not met it with another: see
// [favfilter.Hash.Extra]. No post is dropped because of a key of a kind that annotates or keeps, so
// such keys need none.
func (k Kind) Weight() int {
	if k.Effect == Drop {
		return int(pages.Weight(string(k.Target), k.InText()))
	}
	return 0
}

// ofRows returns the kinds that the ledger keeps, in the form that it takes.
func (ks *Kinds) ofRows() (kinds []ledger.Kind) {
	for _, k := range ks.all {
		if k.InLedger() {
			kinds = append(kinds, ledger.Kind{
				Name:    k.Name,
				Reverse: k.Mirror(),
				Target:  string(k.Target),
				Phrases: k.InText(),
				Weight:  k.Weight(),
			})
		}
	}
	return kinds
}
