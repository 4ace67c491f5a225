package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/admission"
)

// Query reports what a reader needs. Users are given by [UserHash].
type Query struct {
	User uint64
	// Page asks for the page of the user.
	Page bool
	// Others are read as well, whatever they hold. They must be in the hash slot of the user.
	Others []favfilter.PageID
	// Lists are users whose pages many feeds read, such as shared lists. Their pages are read as
	// well.
	Lists []uint64
}

// Answer is what a reader gets.
type Answer struct {
	Number uint32 // of the user's page
	// Page is the page, which nobody may change; nil if the Query did not ask for it.
	Page *favfilter.Page

	Others    []favfilter.Loaded // of the Query, in its order; zero after OthersErr
	OthersErr error              // why the store did not return them

	Lists []Answer // of the Query, in its order
}

// A page that lacks changes is read again for arrivalLimit while the ledger cannot be read. The
// first pause is arrivalPause; then they double.
const (
	arrivalPause = time.Millisecond
	arrivalLimit = 128 * time.Millisecond
)

// maxLooks is the number of times that a reader looks for its user's page before it gives up.
const maxLooks = 8

// Read reads the pages of a user and of lists, with one command to the store. The pages have every
// write that was acknowledged before Read was called. If a page has to be rebuilt for that, or
// while the store is down, Read reads the ledger.
//
// Large pages, and those of lists, are held in the process: the store is asked for their versions,
// and a page that has changed is read with a second command.
//
// If a page shows that more happened than this process knows of, because it is closed or because
// somebody left it, Read polls the ledger and looks again.
//
// The error is an [*UnavailableError] if neither store nor ledger is available, [ErrOverloaded] if
// too many pages wait for a rebuild, or that of ctx.
func (p *Pages) Read(ctx context.Context, q Query) (Answer, error) { return p.reader.read(ctx, q) }

// reader reads pages for feeds.
type reader struct {
	core

	rebuilder *rebuilder

	replica       favfilter.Store // nil: none
	replicaOutage outage          // replicas cannot be read
	replicaAfter  atomic.Int64    // when replicas are read again, as elapsed
}

func newReader(b *rebuilder, replica favfilter.Store) *reader {
	return &reader{core: b.core, rebuilder: b, replica: replica}
}

// read is [Pages.Read].
func (r *reader) read(ctx context.Context, q Query) (a Answer, err error) {
	began := r.life.Elapsed()
	// The page of the user comes last, next to Others in the same slot: one command reads both.
	all := make([]reading, 0, 1+len(q.Lists))
	for _, list := range q.Lists {
		all = append(all, reading{at: known.Position{User: list}, list: true})
	}
	if q.Page {
		all = append(all, reading{at: known.Position{User: q.User}})
	}
	if err := r.locate(ctx, all, r.known.Recent()); err != nil {
		return a, err
	}
	a.Others, a.OthersErr = r.loadAll(ctx, all, q.Others)
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if err := r.finishAll(ctx, all, began); err != nil {
		return a, err
	}
	if q.Page {
		a.Number, a.Page = all[len(q.Lists)].at.Page, all[len(q.Lists)].page
	}
	a.Lists = make([]Answer, len(q.Lists))
	for i := range a.Lists {
		a.Lists[i] = Answer{Number: all[i].at.Page, Page: all[i].page}
	}
	return a, ctx.Err()
}

// reading is the read of the page of one user.
type reading struct {
	list bool // many feeds read the page

	at   known.Position
	want uint64 // lowest sequence that the page may have
	held held   // the page in the process; zero: it is not held

	pending bool             // the store has yet to be asked
	loaded  favfilter.Loaded // what the store has: the held page if the versions are the same
	source  *atomic.Uint64   // counts reads from there
	failed  error            // why the store did not answer

	page *favfilter.Page // the result
}

// locate finds the pages of the users, as of the given time at least. The error is [ErrOverloaded]
// if that takes a question, and too many requests wait for the ledger.
func (r *reader) locate(ctx context.Context, all []reading, since int64) error {
	users := make([]*known.Position, len(all))
	for i := range all {
		users[i] = &all[i].at
	}
	r.known.KeepUp(ctx, since, users...)
	for i := range all {
		p := &all[i]
		if errors.Is(p.at.Err, ErrOverloaded) {
			return fmt.Errorf("look up the page: %w", p.at.Err)
		}
		// Taken before the page is read: the reader may miss writes that are acknowledged meanwhile.
		p.want = r.sequences.Of(p.at.Page).Required.Load()
		p.held, p.pending = held{}, true
		if !p.list && p.at.Page < ledger.DedicatedPages {
			continue // a shared page is small, and changes often
		}
		if h := r.rebuilder.held.get(p.at.Page); h.page != nil && h.page.Header().Sequence >= p.want {
			p.held = h
		}
	}
	return nil
}

// loadAll loads the pages, and others, with one command. Of held pages it only compares the
// versions. It loads those that have changed with one more command.
func (r *reader) loadAll(
	ctx context.Context, all []reading, others []favfilter.PageID,
) ([]favfilter.Loaded, error) {
	loaded, err := r.loadPending(ctx, all, others)
	if slices.ContainsFunc(all, func(p reading) bool { return p.pending }) && ctx.Err() == nil {
		_, _ = r.loadPending(ctx, all, nil) // each page has its error
	}
	return loaded, err
}

// loadPending loads the pending pages that are not held, and others, with one command. Held pages
// that have changed stay pending, and then count as not held.
func (r *reader) loadPending(
	ctx context.Context, all []reading, others []favfilter.PageID,
) ([]favfilter.Loaded, error) {
	ids := make([]favfilter.PageID, 0, len(all)+len(others))
	var compared []favfilter.PageID
	limit := loadTimeout
	for i := range all {
		switch p := &all[i]; {
		case !p.pending:
		case p.held.page != nil:
			compared = append(compared, r.layout.PageID(p.at.Page))
		default:
			ids = append(ids, r.layout.PageID(p.at.Page))
			limit = max(limit, patience(r.rebuilder.large.has(p.at.Page)))
		}
	}
	ids = append(ids, others...)
	source := &r.storage.stats.fromReplica
	loaded, versions, ok := r.loadReplica(ctx, all, ids, compared)
	var err error
	if !ok {
		source = &r.storage.stats.fromStore
		loaded, versions, err = r.storage.loadWithin(ctx, limit, ids, compared)
	}
	if len(all) == 0 && len(others) > 0 {
		r.storage.stats.count(source, err)
	}
	for i := range all {
		p := &all[i]
		if !p.pending {
			continue
		}
		if p.held.page == nil {
			p.pending, p.failed, p.source = false, err, source
			p.loaded, loaded = loaded[0], loaded[1:]
			continue
		}
		var version favfilter.Version // none, if the versions could not be read
		if len(versions) > 0 {
			version, versions = versions[0], versions[1:]
		}
		switch {
		case err != nil:
			p.pending, p.failed = false, err
		case version == p.held.version:
			p.pending, p.source = false, &r.storage.stats.fromHeld
			p.loaded = favfilter.Loaded{Page: p.held.page, Version: version}
		default:
			p.held = held{}
		}
	}
	return loaded, err
}

// finishAll makes sure that each page is current. The pages of lists do not wait for one another.
func (r *reader) finishAll(ctx context.Context, all []reading, began int64) (err error) {
	var lists errgroup.Group
	for i := range all {
		switch p := &all[i]; {
		case !p.list:
			err = r.finish(ctx, p, began)
		case r.settled(ctx, p):
			r.take(p, p.loaded.Page)
		default:
			lists.Go(func() error { return r.finish(ctx, p, began) })
		}
	}
	listsErr := lists.Wait()
	if err == nil && listsErr != nil {
		err = fmt.Errorf("read the pages of lists: %w", listsErr)
	}
	return err
}

// settled reports whether the loaded page is current and has the user. It asks nobody.
func (r *reader) settled(ctx context.Context, p *reading) bool {
	if p.failed != nil || p.at.Err != nil || p.loaded.Page == nil {
		return false
	}
	h := p.loaded.Page.Header()
	if r.known.Above(p.at.Page, h.Sequence) {
		return false
	}
	reason, err := r.fault(ctx, p.at.Page, p.want, statusOf(p.loaded))
	return reason == "" && err == nil && holds(p.at, h)
}

// finish makes sure that a page is current and has the user. If it may not have, finish polls the
// ledger, and looks for the user again.
func (r *reader) finish(ctx context.Context, p *reading, began int64) error {
	for again := range maxLooks {
		if again > 0 {
			one := []reading{*p}
			if err := r.locate(ctx, one, r.life.Elapsed()); err != nil {
				return err
			}
			_, _ = r.loadAll(ctx, one, nil) // the page has its error
			if *p = one[0]; ctx.Err() != nil {
				return ctx.Err()
			}
		}
		page, err := r.current(ctx, p, began, again > 0)
		switch {
		case err == nil && holds(p.at, page.Header()):
			r.take(p, page)
			return nil
		case err != nil && !errors.Is(err, ledger.ErrGone):
			return err
		case !p.at.Known && !r.known.PollAgain(ctx):
			return r.movedFrom(p.at.Page)
		}
	}
	return r.movedFrom(p.at.Page)
}

// take makes the page the result. The page is held if it is one that the process holds.
func (r *reader) take(p *reading, page *favfilter.Page) {
	p.page = page
	r.storage.stats.count(p.source, p.failed)
	large := p.at.Page >= ledger.DedicatedPages &&
		page.Header().Shape.Bits/8 >= r.rebuilder.held.least
	if (p.list || large) && page != p.held.page {
		r.rebuilder.held.put(p.at.Page, page)
	}
}

// current returns the loaded page if its sequence is at least the lowest one and nothing is wrong
// with it. Otherwise it returns one that does not come from the store: a held page while the store
// does not answer, or a page that was rebuilt from the ledger. These count only if they are up to
// date. again reports whether the ledger was polled after the page there was found closed, or the
// user not on it.
//
// A closed page is rebuilt only if the ledger, polled since, still has users on it: then the ledger
// was set back. Otherwise the error is ledger.ErrGone.
func (r *reader) current(
	ctx context.Context, p *reading, began int64, again bool,
) (*favfilter.Page, error) {
	number := p.at.Page
	if p.failed == nil && p.at.Err != nil {
		return nil, p.at.Err
	}
	reason, err := r.fault(ctx, number, p.want, statusOf(p.loaded))
	switch {
	case err != nil:
		return nil, err
	case p.failed == nil && reason == "":
		r.rebuilder.large.note(number, p.loaded.Page.Header())
		return p.loaded.Page, nil
	case reason == reasonClosed && !(again && p.at.Known):
		return nil, ledger.ErrGone
	}
	page, err := r.fromElsewhere(ctx, p, began, reason)
	switch {
	case !ledgerDown(err) || p.failed != nil:
	case reason == PageBehind && r.arrives(ctx, p):
		return p.loaded.Page, nil
	case reason == PageMissing && r.unused(p):
		return r.rebuilder.imageOf(number, nil, ledger.PageState{})
	default:
		return nil, fmt.Errorf(
			"page %d is %s at %d, and %d is required: %w",
			number, reason, statusOf(p.loaded).Header.Sequence, p.want, err,
		)
	}
	return page, err
}

// unused reports whether a missing page is one that never had a key. That is a shared page of which
// the ledger had no change, or only one that this process made and has not placed. Nobody has been
// told of that one. A change that was placed is required. So is a first change that another process
// made, see [known.Sequence.Receive]. If the page had been closed since the last poll, the store
// would still have it.
func (r *reader) unused(p *reading) bool {
	return p.at.Page < ledger.DedicatedPages && p.want == 0 &&
		r.sequences.Of(p.at.Page).Known.Load() <= 1 && r.known.Age() < closedExpiry/2
}

// arrives waits for changes that are on their way to the store, and reports whether the page then
// has them all. A change is in the ledger before it is in the page, and nobody can rebuild the page
// while the ledger cannot be read.
func (r *reader) arrives(ctx context.Context, p *reading) bool {
	for pause := arrivalPause; pause < arrivalLimit; pause *= 2 {
		resume := admission.Pause(ctx)
		err := r.life.Rest(ctx, pause)
		resume()
		if err != nil {
			return false
		}
		one := []reading{*p}
		one[0].held, one[0].pending = held{}, true
		_, _ = r.loadAll(ctx, one, nil) // the page has its error
		reason, err := r.fault(ctx, p.at.Page, p.want, statusOf(one[0].loaded))
		if one[0].failed == nil && reason == "" && err == nil {
			*p = one[0]
			return true
		}
	}
	return false
}

// fromElsewhere is current for a page that the store does not have, or not as it must be.
func (r *reader) fromElsewhere(
	ctx context.Context, p *reading, began int64, reason string,
) (*favfilter.Page, error) {
	number := p.at.Page
	h := r.rebuilder.held.get(number)
	if p.failed == nil && h.refused && p.serves(h.page.Header(), reason) {
		p.source = &r.storage.stats.fromHeld
		return h.page, nil
	}
	if err := r.known.Reachable(); err != nil {
		return nil, err
	}
	if p.failed != nil && h.page != nil && r.upToDate(ctx, p, h.page, began) {
		return h.page, nil
	}
	// The rebuild of a large page may take minutes.
	limited, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	for {
		f, err := r.rebuilder.rebuild(limited, number, p.want, reason, maxFlights)
		switch {
		case err != nil && limited.Err() != nil && ctx.Err() == nil:
			return nil, Unavailable("ledger", err)
		case err != nil:
			return nil, err
		case f.current > began || r.upToDate(limited, p, f.page, began):
			p.source = &r.storage.stats.fromLedger
			return f.page, nil
		}
		// This reader joined a rebuild that began before it. The next rebuild does not.
	}
}

// serves reports whether a held page with the header may be used in place of the store's page. The
// store did not take the held page, and the reason says why its own must not be used. While the
// ledger cannot be reached, another ledger's page may mean that this process has the wrong ledger.
func (p *reading) serves(h favfilter.Header, reason string) bool {
	lacks := reason == PageBehind || reason == PageMissing || reason == PageDamaged
	return h.Sequence >= p.want && holds(p.at, h) && (p.at.Known || lacks)
}

// upToDate reports whether a page that does not come from the store has all writes that were
// acknowledged before the reader began. Other processes change only the page in the store, which
// this process may be unable to reach. So the ledger decides, read since then: by a poll, which
// readers share, or for this page.
func (r *reader) upToDate(ctx context.Context, p *reading, page *favfilter.Page, began int64) bool {
	now := known.Position{User: p.at.User}
	r.known.KeepUp(ctx, began, &now)
	h := page.Header()
	return now == p.at && now.Known && holds(now, h) &&
		h.Sequence >= r.sequences.Of(now.Page).Required.Load()
}

const (
	// replicaTimeout is how long a replica may take before the store is asked.
	replicaTimeout = 200 * time.Millisecond
	// replicaPause is how long a replica is not used after a failure.
	replicaPause = time.Second
)

// loadReplica reads pages and versions from the replica, if there is one and its pages may be used.
//
// A page with the lowest sequence has every required write, wherever it is read. While the required
// sequence is unknown, because the ledger cannot be asked, loadReplica does nothing: the replica's
// pages may lack acknowledged writes.
func (r *reader) loadReplica(
	ctx context.Context, all []reading, ids, compared []favfilter.PageID,
) (loaded []favfilter.Loaded, versions []favfilter.Version, ok bool) {
	if r.replica == nil || len(ids)+len(compared) == 0 || r.life.Elapsed() < r.replicaAfter.Load() ||
		slices.ContainsFunc(all, func(p reading) bool { return p.pending && !p.at.Known }) {
		return nil, nil, false
	}
	limited, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	loaded, versions, err := r.replica.Load(limited, ids, compared...)
	if err == nil && r.sound(ctx, all, loaded) {
		if r.replicaOutage.worked(r.life.Elapsed()) {
			r.storage.log.InfoContext(ctx, "replicas can be read again")
		}
		return loaded, versions, true
	}
	if err != nil && ctx.Err() == nil {
		if r.replicaOutage.failed(r.life.Elapsed()) {
			r.storage.log.WarnContext(
				ctx, "a replica cannot be read: feeds come from the primary", "error", err,
			)
		}
		r.replicaAfter.Store(r.life.Elapsed() + int64(replicaPause))
	}
	r.storage.stats.pastReplica.Add(1)
	return nil, nil, false
}

// sound reports whether all pages may be used, held ones included: loaded are those of the pending
// pages that are not held, in order. Questions about pages do not wait for one another.
func (r *reader) sound(ctx context.Context, all []reading, loaded []favfilter.Loaded) bool {
	var unsound atomic.Bool
	var asked sync.WaitGroup
	for i := range all {
		p := &all[i]
		if !p.pending {
			continue
		}
		st := favfilter.Status{}
		if p.held.page != nil {
			st.Header = p.held.page.Header()
		} else {
			st, loaded = statusOf(loaded[0]), loaded[1:]
		}
		judge := func() {
			if reason, err := r.fault(ctx, p.at.Page, p.want, st); reason != "" || err != nil {
				unsound.Store(true)
			}
		}
		if r.known.Above(p.at.Page, st.Header.Sequence) {
			asked.Go(judge)
		} else {
			judge()
		}
	}
	asked.Wait()
	return !unsound.Load()
}
