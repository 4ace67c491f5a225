package activity

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// View is a snapshot of one user's activities, taken at some moment after the View was asked for.
// It is not safe for concurrent use.
type View struct {
	// Degraded names the kinds that cannot be checked, and why. Their matches are None.
	Degraded []Degraded
	// Lists are Views of the lists that the View was asked for, in order.
	Lists []*View

	searches *sync.Pool // of *Search
	seed     uint64
	userHash uint64
	ledger   bool         // the View has kinds that the ledger keeps
	read     pages.Answer // with the page of these kinds
	kinds    []lookup
}

// Degraded names a kind that could not be checked, and the reason.
type Degraded struct {
	Kind   string
	Reason string
}

// Match is the side on which an id was found.
type Match uint8

// Matches.
const (
	None    Match = iota // not found; this is certain
	Direct               // the user has the activity with the id
	Reverse              // the id has the two-way activity with the user
)

// lookup finds the activities of one kind.
type lookup struct {
	kind   Kind
	facet  Facet           // of the ids that are looked for
	page   *favfilter.Page // for a kind that the ledger keeps
	window *seen.Window    // for a kind with a window; nil: the kind is degraded
	// direct and reverse are the hashed starts of two sorts of keys: of the user's activities, and
	// of others' activities with the user.
	direct, reverse favfilter.Start
	twoWay          bool // there are reverse keys
	mirrorOnly      bool // there are no others
}

// View reads the user's activities of the given kinds, and those of two-way kinds that others have
// with the user. It takes one command to the store, for any number of kinds, unless the page has to
// be rebuilt. While the store is down, View reads the ledger, and kinds with a window are degraded.
//
// lists are owners whose activities count for the user as well. View reads their pages in the same
// round trip. The View's Lists have only the kinds before the first that does not drop, and report
// only what the lists did themselves.
//
// The error is an [*UnavailableError] if neither store nor ledger is available, or that of ctx.
func (r *reader) View(ctx context.Context, user string, kinds []Kind, lists ...string) (*View, error) {
	v := r.newView(user, kinds)
	q := pages.Query{User: v.userHash, Page: v.ledger, Others: r.windowsOf(v)}
	if len(lists) > 0 {
		q.Lists = v.addLists(r, lists, kinds)
	}
	var err error
	if v.read, err = r.source.Read(ctx, q); err != nil {
		return v, fmt.Errorf("read activities: %w", err)
	}
	v.takePage(v.read)
	r.takeWindows(ctx, v, q.Others)
	for i, a := range v.read.Lists {
		v.Lists[i].takePage(a)
	}
	return v, nil
}

// addLists adds a View for each list to v, and returns the users whose pages they need.
func (v *View) addLists(r *reader, lists []string, kinds []Kind) (users []uint64) {
	drops := slices.IndexFunc(kinds, func(k Kind) bool { return k.Effect != Drop })
	if drops < 0 {
		drops = len(kinds)
	}
	v.Lists = make([]*View, len(lists))
	for i, id := range lists {
		list := r.newView(id, kinds[:drops])
		for n := range list.kinds {
			list.kinds[n].twoWay = false
		}
		if v.Lists[i] = list; list.ledger { // all are alike
			users = append(users, list.userHash)
		}
	}
	return users
}

// Owner is whatever kinds target. A user and a domain of the same id are different owners.
type Owner struct {
	Facet Facet
	ID    string
}

// Audiences reads what keeps posts of the owners from users, and returns a View for each owner, in
// order. It is two-way kinds, and what users did with the owners of kinds with Fanout. The ids that
// such a View is asked about are users. None matches a kind that is neither, that targets another
// facet than the owner's, or that the ledger does not keep.
//
// Many requests need these pages, so they are held in the process, see [Config.ListCache]. In one
// round trip for all of them, Audiences asks the store whether they have changed. It misses nothing
// that was acknowledged before, like View. Errors are as those of View.
func (r *reader) Audiences(ctx context.Context, owners []Owner, kinds []Kind) ([]*View, error) {
	views, users := make([]*View, len(owners)), make([]uint64, 0, len(owners))
	for i, owner := range owners {
		v := r.newView(owner.ID, kinds)
		for n := range v.kinds {
			v.kinds[n].turn(v.seed, owner)
		}
		if views[i] = v; v.ledger { // all are alike
			users = append(users, v.userHash)
		}
	}
	a, err := r.source.Read(ctx, pages.Query{Lists: users})
	if err != nil {
		return nil, fmt.Errorf("read activities: %w", err)
	}
	for i, list := range a.Lists {
		views[i].takePage(list)
	}
	return views, nil
}

// turn makes l look for users who have the activity with the owner.
func (l *lookup) turn(seed uint64, owner Owner) {
	l.facet, l.mirrorOnly = User, l.kind.Reverse == ""
	if l.twoWay = l.kind.Mirror() != "" && l.kind.Target == owner.Facet; l.twoWay {
		l.reverse = l.kind.mirrorStart(seed, owner.ID)
	}
}

// takePage hands the page of an Answer to the kinds of v that the ledger keeps.
func (v *View) takePage(read pages.Answer) {
	v.read = read
	for i := range v.kinds {
		if l := &v.kinds[i]; l.kind.InLedger() {
			l.page = read.Page
		}
	}
}

// newView returns a View that has not read anything yet.
func (r *reader) newView(user string, kinds []Kind) *View {
	v := &View{
		searches: &r.searches, seed: r.source.Identity().Seed,
		userHash: r.userHash(user), kinds: make([]lookup, len(kinds)),
	}
	for i, k := range kinds {
		l := &v.kinds[i]
		l.kind, l.facet = k, k.Target
		v.ledger = v.ledger || k.InLedger()
		l.direct = k.keyStart(v.seed, user)
		if l.twoWay = k.Reverse != ""; l.twoWay {
			l.reverse = k.mirrorStart(v.seed, user)
		}
	}
	return v
}

// Checks reports whether the i-th kind of the View can be checked, that is, whether it is not
// degraded.
func (v *View) Checks(i int) bool {
	l := &v.kinds[i]
	return l.kind.InLedger() || l.window != nil
}

// Check looks for id among the activities of the i-th kind of the View. A match may be a false
// positive. If a two-way kind matches on both sides, Check returns Direct; see [View.Matches].
func (v *View) Check(i int, id string) Match {
	return v.match(&v.kinds[i], favfilter.HashKey(v.seed, id))
}

// match is Check for a hashed id.
func (v *View) match(l *lookup, target favfilter.Hash) Match {
	switch {
	case l.window != nil:
		if l.window.Contains(l.direct.With(target)) {
			return Direct
		}
		return None
	case l.page == nil:
		return None
	case !l.mirrorOnly && l.page.Contains(l.direct.With(target)):
		return Direct
	case l.twoWay && l.page.Contains(l.reverse.With(target)):
		return Reverse
	default:
		return None
	}
}

// Matches is like [View.Check] but returns every match: Direct, Reverse, both, or none.
func (v *View) Matches(i int, id string) []Match {
	l := &v.kinds[i]
	first := v.Check(i, id)
	switch {
	case first == None:
		return nil
	case first == Direct && l.twoWay && l.page.Contains(l.reverse.With(favfilter.HashKey(v.seed, id))):
		return []Match{Direct, Reverse}
	default:
		return []Match{first}
	}
}

// PageInfo describes the page that a View read.
type PageInfo struct {
	Number            uint32
	Sequence          uint64  // of the last change
	Keys              int     // of all users on the page
	Bytes             int     // header and bits
	FalsePositiveRate float64 // of one key, at the page's current fill
}

// Page describes the page of the kinds that the ledger keeps. It returns the zero value if the View
// has no such kind.
func (v *View) Page() PageInfo {
	page := v.read.Page
	if page == nil {
		return PageInfo{}
	}
	h := page.Header()
	return PageInfo{
		Number: h.Number, Sequence: h.Sequence, Keys: int(h.Count),
		Bytes: favfilter.HeaderBytes + int(h.Shape.Bits/8), FalsePositiveRate: page.FalsePositiveRate(),
	}
}

// At returns the page that the View read, and that page's sequence. It returns the zero value if
// the View has no kind that the ledger keeps.
func (v *View) At() pages.PageAt {
	return pages.PageAt{Page: v.read.Number, Sequence: v.Page().Sequence}
}
