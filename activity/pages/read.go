package pages

import (
	"context"
	"errors"
	"iter"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Query reports what a reader needs of one user.
type Query struct {
	User uint64 // by [UserHash]
	// Page asks for the user's page.
	Page bool
	// Others are read as well, in the same round trip, whatever they hold. They must be in the hash
	// slot of the user.
	Others []favfilter.PageID
	// Keys are all keys that the reader will look for, or nil. They are asked for if the page is too
	// large to be read for each feed.
	Keys Keys
	// Lists are users whose pages many feeds read, such as shared lists. Their pages are read as
	// well, see [Pages.ReadHeld]. They need neither Others nor Lists.
	Lists []Query

	versions *versions // of the pages of Lists
	began    int64     // when the reader called, as elapsed
}

// Keys lists the keys that a reader looks for.
type Keys interface {
	// Sought returns the number of keys, and yields them: each start of keys with the ids that it is
	// combined with.
	Sought() (number int, each iter.Seq2[favfilter.Start, []favfilter.Hash])
}

// Answer is what a reader gets.
type Answer struct {
	Number uint32           // of the user's page
	Header favfilter.Header // of the page; zero if the Query did not ask for it
	// Page is the page, which nobody may change; nil if the Query did not ask for it, or if the page
	// was probed.
	Page *favfilter.Page
	// Found has an element for each of the Query's Keys, if the page was probed: a page too large to
	// be read. nil: it was not.
	Found []bool

	Others    []favfilter.Loaded // of the Query, in its order; zero after OthersErr
	OthersErr error              // why the store did not return them

	Lists []Answer // of the Query, in its order
}

// maxLooks is the number of times that a reader looks for its user's page before it gives up.
const maxLooks = 8

var (
	errMoved  = errors.New("the user may be on another page")
	errUnread = errors.New("it did not answer the last poll")
)

// Read reads a user's page, with one command to the store. The page has every write that was
// acknowledged before Read was called. If it has to be rebuilt for that, or while the store is
// down, Read reads the ledger. Lists take part in the same round trip.
//
// If the page shows that more happened than this process knows of, because it is closed or because
// somebody left it, Read polls the ledger and looks again.
//
// The error is an [*UnavailableError] if neither store nor ledger is available, [ErrOverloaded] if
// too many pages wait for a rebuild, or that of ctx.
func (r *Pages) Read(ctx context.Context, q Query) (a Answer, err error) {
	q.began = r.elapsed()
	if len(q.Lists) == 0 {
		return r.readUser(ctx, &q)
	}
	lists := r.beginHeld(ctx, q.Lists)
	q.versions = &lists.versions
	a, err = r.readUser(ctx, &q)
	listed, listsErr := lists.end(ctx)
	if a.Lists = listed; err == nil {
		err = listsErr
	}
	return a, err
}

// readUser is Read without Lists.
func (r *Pages) readUser(ctx context.Context, q *Query) (a Answer, err error) {
	since := r.recent()
	for again := range maxLooks {
		at := r.keepUp(ctx, q.User, since)
		a, err = r.readAt(ctx, q, at, again > 0)
		gone := errors.Is(err, ledger.ErrGone)
		switch {
		case !gone && (err != nil || !q.Page || at.holds(a.Header)):
			return a, err
		case !at.known:
			return a, Unavailable("ledger", errMoved)
		}
		since = r.elapsed()
	}
	return a, Unavailable("ledger", errMoved)
}

// readAt is Read for a user at a position. again reports whether the ledger was polled after the
// page there was found closed, or nobody on it.
func (r *Pages) readAt(ctx context.Context, q *Query, at position, again bool) (a Answer, err error) {
	a.Number = at.page
	// Taken before the read: the reader may miss writes that are acknowledged meanwhile.
	want := r.sequences.of(at.page).required.Load()
	if a.Page = r.heldPage(q, at, want); a.Page != nil {
		a.Header = a.Page.Header()
		r.cache.count(len(q.Others) == 0)
		if a.Others, a.OthersErr = r.loadWithin(ctx, loadTimeout, q.Others, q.versions); len(q.Others) > 0 && a.OthersErr == nil {
			r.stats.fromStore.Add(1)
		}
		return a, ctx.Err()
	}
	ids := q.Others
	if q.Page {
		ids = append(make([]favfilter.PageID, 0, 1+len(q.Others)), r.layout.pageID(at.page))
		ids = append(ids, q.Others...)
	}
	r.cache.count(len(ids) == 0)
	if q.Page && q.Keys != nil && r.isLarge(at.page) {
		if r.probe(ctx, q, at, want, ids[0], &a) {
			return a, nil
		}
		if err := ctx.Err(); err != nil {
			return a, err
		}
	}
	loaded, replica, err := r.loadNearest(ctx, q.Page, at, want, ids, q.versions)
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	switch {
	case err != nil:
		r.stats.fromLedger.Add(1)
	case !replica && len(ids) > 0:
		r.stats.fromStore.Add(1)
	}
	a.Others, a.OthersErr = loaded, err
	if !q.Page {
		return a, nil
	}
	a.Others = loaded[1:]
	if a.Page, err = r.current(ctx, q, at, want, loaded[0], again); err != nil {
		return a, err
	}
	if a.Header = a.Page.Header(); at.holds(a.Header) {
		r.cache.putPage(r.layout.pageID(at.page), a.Page)
	}
	return a, nil
}

// heldPage returns the cached page of a position, if it may be used.
func (r *Pages) heldPage(q *Query, at position, want uint64) *favfilter.Page {
	if r.cache == nil || !q.Page || !at.known {
		return nil
	}
	return r.cache.page(r.layout.pageID(at.page), want, at)
}

// current returns the loaded page if its sequence is at least want and nothing is wrong with it.
// Otherwise it returns a page that was rebuilt from the ledger: a new one, or one that another
// reader had rebuilt. The latter counts only if it is current: see upToDate.
//
// A closed page is rebuilt only if the ledger, polled since, still has users on it: then the ledger
// was set back. Otherwise the error is ledger.ErrGone.
func (r *Pages) current(
	ctx context.Context, q *Query, at position, want uint64, l favfilter.Loaded, again bool,
) (*favfilter.Page, error) {
	number := at.page
	reason := r.fault(ctx, number, want, statusOf(l))
	switch {
	case reason == "":
		r.noteSize(number, l.Page.Header())
		return l.Page, nil
	case reason == reasonClosed && !(again && at.known):
		return nil, ledger.ErrGone
	}
	if err := r.Reachable(); err != nil {
		return nil, err
	}
	if page := r.images.get(number, want); page != nil && r.upToDate(ctx, q, at, page) {
		r.stats.fromImage.Add(1)
		return page, nil
	}
	// The rebuild of a large page may take minutes.
	limited, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	for {
		f, err := r.rebuild(limited, number, want, reason, maxFlights)
		switch {
		case err != nil && limited.Err() != nil && ctx.Err() == nil:
			return nil, Unavailable("ledger", err)
		case err != nil:
			return nil, err
		case f.current > q.began || r.upToDate(limited, q, at, f.page):
			return f.page, nil
		}
		// This reader joined a rebuild that began before it. The next rebuild does not.
	}
}

// upToDate reports whether a page that does not come from the store has all writes that were
// acknowledged before the reader called. Other processes change only the page in the store, which
// this process may be unable to reach. So the ledger decides, read since the call: by a poll, which
// readers share, or for this page.
func (r *Pages) upToDate(ctx context.Context, q *Query, at position, page *favfilter.Page) bool {
	now := r.keepUp(ctx, q.User, q.began)
	h := page.Header()
	return now == at && at.known && at.holds(h) && h.Sequence >= r.sequences.of(at.page).required.Load()
}
