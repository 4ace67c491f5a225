package activity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// View is a snapshot of one user's activities, taken at some moment after the View was asked for.
// It is not safe for concurrent use.
type View struct {
	// Degraded names the kinds that cannot be checked, and why. Their matches are None.
	Degraded []Degraded

	searches *sync.Pool // of *Search
	seed     uint64
	userHash uint64
	ledger   bool            // the View has kinds that the ledger keeps
	number   uint32          // of the page of these kinds
	page     *favfilter.Page // their page; nil without such kinds, or if the page was probed
	ids      iter.Seq2[Target, string]
	sought   *sought // hashed ids, if the page may be probed
	probed   *probed // result of the probe, instead of the page
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
	page   *favfilter.Page // for a kind that the ledger keeps
	window *seen.Window    // for a kind with a window; nil: the kind is degraded
	// direct and reverse are the hashed starts of two sorts of keys: of the user's activities, and
	// of others' activities with the user.
	direct, reverse favfilter.Start
	twoWay          bool // there are reverse keys
	// directAt and reverseAt are the places in probed.found of the first sought id, for each start.
	directAt, reverseAt int
}

// View reads the user's activities of the given kinds, and those of two-way kinds that others have
// with the user. It takes one command to the store, for any number of kinds, unless the page has to
// be rebuilt. While the store is down, View reads the ledger, and kinds with a window are degraded.
//
// ids yields every id that the View will be asked about, or is nil. View uses it if the page is too
// large to be read for each feed. It then looks up only the keys of these ids in the store, and any
// other id counts as found.
//
// The error is an [*UnavailableError] if neither store nor ledger is available, or that of ctx.
func (r *Recorder) View(
	ctx context.Context, user string, kinds []Kind, ids iter.Seq2[Target, string],
) (*View, error) {
	v := r.newView(user, kinds)
	v.ids = ids
	return v, r.fill(ctx, v)
}

// newView returns a View that has not read anything yet.
func (r *reader) newView(user string, kinds []Kind) *View {
	v := &View{
		searches: &r.searches, seed: r.identity.Seed,
		userHash: userHash(r.identity.Seed, user), kinds: make([]lookup, len(kinds)),
	}
	for i, k := range kinds {
		l := &v.kinds[i]
		l.kind = k
		v.ledger = v.ledger || k.InLedger()
		l.direct = startHash(v.seed, k.Name, user, k.Target)
		if l.twoWay = k.InLedger() && k.Reverse != ""; l.twoWay {
			l.reverse = startHash(v.seed, k.Reverse, user, k.Target)
		}
	}
	return v
}

// fill reads the pages that v needs.
func (r *Recorder) fill(ctx context.Context, v *View) error {
	loaded, storeErr, err := r.read(ctx, v)
	if err != nil {
		return fmt.Errorf("read activities: %w", err)
	}
	v.take(ctx, loaded, storeErr)
	return nil
}

// take hands each kind of v its data: the page to kinds that the ledger keeps, and the loaded parts
// to windows.
func (v *View) take(ctx context.Context, loaded []favfilter.Loaded, storeErr error) {
	for i := range v.kinds {
		l := &v.kinds[i]
		switch {
		case l.kind.InLedger():
			l.page = v.page
		case l.window.Held():
		case storeErr != nil:
			l.window = nil
			v.Degraded = append(v.Degraded, Degraded{Kind: l.kind.Name, Reason: "the page store is unavailable"})
		default:
			loaded = l.window.Fill(ctx, loaded)
		}
	}
}

// maxLooks is the number of times that a reader looks for its user's page before it gives up.
const maxLooks = 8

// read gives the View the page of the kinds that the ledger keeps, if it has any, and returns the
// parts of windows. If the page shows that more happened than this process knows of, because it is
// closed or because somebody left it, read polls and looks again.
func (r *Recorder) read(ctx context.Context, v *View) (windows []favfilter.Loaded, storeErr, err error) {
	since := r.recent()
	for again := range maxLooks {
		at := r.keepUp(ctx, v.userHash, since)
		windows, storeErr, err = r.readPage(ctx, v, at, again > 0)
		gone := errors.Is(err, ledger.ErrGone)
		switch {
		case !gone && (err != nil || !v.ledger || at.holds(v.header())):
			return windows, storeErr, err
		case !at.known:
			return nil, nil, unavailable("ledger", errMoved)
		}
		since = r.elapsed()
	}
	return nil, nil, unavailable("ledger", errMoved)
}

var errMoved = errors.New("the user may be on another page")

// readPage is read for a user at a position. again reports whether the ledger was polled after the
// page there was found closed, or nobody on it.
func (r *Recorder) readPage(
	ctx context.Context, v *View, at position, again bool,
) (windows []favfilter.Loaded, storeErr, err error) {
	v.number = at.page
	// Taken before the read: the View may miss writes that are acknowledged meanwhile.
	want := r.sequences.of(at.page).required.Load()
	held := r.heldPage(v, at, want)
	var parts []favfilter.PageID
	if v.ledger && held == nil {
		parts = append(parts, r.layout.pageID(at.page))
	}
	parts = r.appendWindows(parts, v)
	r.cache.count(len(parts) == 0)
	if held != nil {
		v.page = held
		windows, storeErr = r.load(ctx, parts)
		if len(parts) > 0 && storeErr == nil {
			r.stats.fromStore.Add(1)
		}
		return windows, storeErr, ctx.Err()
	}
	if v.ids != nil && v.ledger && r.isLarge(at.page) {
		v.hashIDs()
		if windows, ok := r.probe(ctx, v, at, want, parts); ok {
			return windows, nil, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
	loaded, replica, storeErr := r.loadView(ctx, v, at.page, want, parts, at.known)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	switch {
	case storeErr != nil:
		r.stats.fromLedger.Add(1)
	case !replica && len(parts) > 0:
		r.stats.fromStore.Add(1)
	}
	if !v.ledger {
		return loaded, storeErr, nil
	}
	if v.page, err = r.current(ctx, at, want, loaded[0], again); err == nil && at.holds(v.page.Header()) {
		r.cache.putPage(r.layout.pageID(at.page), v.page)
	}
	return loaded[1:], storeErr, err
}

// appendWindows appends the pages of the windows that v has to read.
func (r *reader) appendWindows(parts []favfilter.PageID, v *View) []favfilter.PageID {
	for i := range v.kinds {
		l := &v.kinds[i]
		if l.kind.InLedger() {
			continue
		}
		if l.window = r.seen.Window(l.kind.Name, v.userHash, r.now()); !l.window.Held() {
			parts = append(parts, l.window.Pages()...)
		}
	}
	return parts
}

// current returns the loaded page if its sequence is at least want and nothing is wrong with it.
// Otherwise it returns a rebuilt page: a new one, or one that was rebuilt while the store was down.
// The latter is used only if want is known to be the required sequence, because no other process
// updates such a page.
//
// A closed page is rebuilt only if the ledger, polled since, still has users on it: then the ledger
// was set back. Otherwise the error is ledger.ErrGone.
func (r *Recorder) current(ctx context.Context, at position, want uint64, l favfilter.Loaded, again bool) (*favfilter.Page, error) {
	number := at.page
	reason := r.fault(ctx, number, want, statusOf(l))
	switch {
	case reason == "":
		r.noteSize(number, l.Page.Header())
		return l.Page, nil
	case reason == reasonClosed && !(again && at.known):
		return nil, ledger.ErrGone
	}
	if at.known {
		if page := r.images.get(number, want); page != nil && at.holds(page.Header()) {
			r.stats.fromImage.Add(1)
			return page, nil
		}
	}
	// The rebuild of a large page may take minutes.
	limited, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	f, err := r.rebuild(limited, number, want, reason, maxFlights)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return nil, unavailable("ledger", err)
	case err != nil:
		return nil, err
	}
	return f.page, nil
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
	case l.kind.InLedger() && v.contains(l, Direct, target):
		return Direct
	case l.twoWay && v.contains(l, Reverse, target):
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
	case first == Direct && l.twoWay && v.contains(l, Reverse, favfilter.HashKey(v.seed, id)):
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
	h := v.header()
	rate := h.FalsePositiveRate()
	switch {
	case v.page != nil:
		rate = v.page.FalsePositiveRate()
	case v.probed == nil:
		return PageInfo{}
	}
	return PageInfo{
		Number: h.Number, Sequence: h.Sequence, Keys: int(h.Count),
		Bytes: favfilter.HeaderBytes + int(h.Shape.Bits/8), FalsePositiveRate: rate,
	}
}

// header returns the header of the page that was read; zero if none was.
func (v *View) header() favfilter.Header {
	switch {
	case v.page != nil:
		return v.page.Header()
	case v.probed != nil:
		return v.probed.header
	default:
		return favfilter.Header{}
	}
}
