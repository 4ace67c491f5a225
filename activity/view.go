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

	lists    []*View    // of the lists that the View was asked for, in order
	searches *sync.Pool // of *search
	seed     uint64
	user     string
	userHash uint64
	ledger   bool         // the View has kinds that the ledger keeps
	read     pages.Answer // with the page of these kinds
	kinds    []lookup
	cutOff   bool // see CutOff
}

// Degraded names a kind that could not be checked, or not with all that its source has, and the
// reason.
type Degraded struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// Match is a set of the sides on which an id was found.
type Match uint8

// Matches.
const (
	None    Match = 0      // not found; this is certain
	Direct  Match = 1 << 0 // the user has the activity with the id
	Reverse Match = 1 << 1 // the id has the two-way activity with the user
)

// lookup finds the activities of one kind.
type lookup struct {
	kind  *Kind
	facet Facet           // of the ids that are looked for
	page  *favfilter.Page // for a kind that the ledger keeps
	// phrases finds the phrases of a kind in texts; nil: its targets are not found there.
	phrases *pages.Phrases
	window  *seen.Window // for a kind with a window; nil: the kind is degraded
	// inWindow says what the last search found in the window.
	inWindow []bool
	// direct and reverse are the hashed starts of two sorts of keys: of the user's activities, and
	// of others' activities with the user.
	direct, reverse favfilter.Start
	sides           Match // which of them there are
}

// View reads the user's activities of the given kinds, and those of two-way kinds that others have
// with the user. It takes one command to the store, for any number of kinds, unless the page has to
// be rebuilt. While the store is down, View reads the ledger, and kinds with a window are degraded.
//
// lists are owners whose activities count for the user as well. View reads their pages in the same
// round trip. Of lists, the View has only the kinds before the first that does not drop, and only
// what the lists did themselves. The caller must not change kinds while it uses the View.
//
// The error is an [*UnavailableError] if neither store nor ledger is available, or that of ctx.
func (r *reader) View(
	ctx context.Context, user string, kinds []Kind, lists ...string,
) (*View, error) {
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
		v.lists[i].takePage(a)
		v.Degraded = appendDegraded(v.Degraded, v.lists[i].Degraded...)
	}
	return v, nil
}

// addLists adds a View for each list to v, and returns the users whose pages they need.
func (v *View) addLists(r *reader, lists []string, kinds []Kind) (users []uint64) {
	drops := slices.IndexFunc(kinds, func(k Kind) bool { return k.Effect != Drop })
	if drops < 0 {
		drops = len(kinds)
	}
	v.lists = make([]*View, len(lists))
	for i, id := range lists {
		list := r.newView(id, kinds[:drops])
		for n := range list.kinds {
			list.kinds[n].sides = Direct
		}
		if v.lists[i] = list; list.ledger { // all are alike
			users = append(users, list.userHash)
		}
	}
	return users
}

// earlierFormat is why kinds with phrases are degraded.
const earlierFormat = "the page has the format of an earlier version"

// takePage hands the page of an Answer to the kinds of v that the ledger keeps.
func (v *View) takePage(read pages.Answer) {
	v.read = read
	for i := range v.kinds {
		l := &v.kinds[i]
		switch {
		case !l.kind.InLedger():
		case l.phrases != nil && read.Page != nil && read.Page.Header().Shape.Uniform:
			// It may lack marks, and would report phrases that nobody has.
			v.Degraded = append(v.Degraded, Degraded{Kind: l.kind.Name, Reason: earlierFormat})
		case l.phrases != nil && (read.Page == nil || !l.phrases.Any(read.Page)):
			// Nearly no user has any, and then nothing is looked for.
		default:
			l.page = read.Page
		}
	}
}

// newView returns a View that has not read anything yet.
func (r *reader) newView(user string, kinds []Kind) *View {
	v := &View{
		searches: &r.searches, seed: r.source.Identity().Seed,
		user: user, userHash: r.userHash(user), kinds: make([]lookup, len(kinds)),
	}
	for i := range kinds {
		l, k := &v.kinds[i], &kinds[i]
		l.kind, l.facet, l.sides = k, k.Target, k.Sides()
		v.ledger = v.ledger || k.InLedger()
		direct, reverse := k.facing(user, "")
		l.direct = r.startOf(&direct)
		if k.InText() {
			of := pages.PhrasesOf(v.seed, k.Name, user, string(k.Target), r.weights[k.Name])
			l.phrases = &of
		}
		if l.sides&Reverse != 0 {
			l.reverse = r.startOf(&reverse)
		}
	}
	return v
}

// Check looks for id among the activities of the i-th kind of the View, and returns the sides on
// which it is. A match may be a false positive.
func (v *View) Check(i int, id string) (on Match) {
	l := &v.kinds[i]
	on = l.match(l.hash(v.seed, id))
	if other := l.kind.Fold.Other(id); other != "" {
		on |= l.match(favfilter.HashKey(v.seed, other))
	}
	return on
}

// hash returns the hash of an id of the kind's facet.
func (l *lookup) hash(seed uint64, id string) favfilter.Hash {
	return favfilter.HashKey(seed, l.kind.Fold.ID(id))
}

// match is Check for a hashed id.
func (l *lookup) match(target favfilter.Hash) (on Match) {
	switch {
	case l.window != nil:
		if l.window.Contains(l.direct.With(target)) {
			on = Direct
		}
	case l.page != nil:
		if l.sides&Direct != 0 && l.page.Contains(l.direct.With(target)) {
			on = Direct
		}
		if l.sides&Reverse != 0 && l.page.Contains(l.reverse.With(target)) {
			on |= Reverse
		}
	}
	return on
}

// PageInfo describes the page that a View read.
type PageInfo struct {
	Number            uint32  `json:"number"`
	Sequence          uint64  `json:"sequence"`            // of the last change
	Keys              int     `json:"keys"`                // of all users on the page
	Bytes             int     `json:"bytes"`               // header and bits
	FalsePositiveRate float64 `json:"false_positive_rate"` // of one key, at the page's current fill
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
