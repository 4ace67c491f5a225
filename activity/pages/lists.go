package pages

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

const (
	// DefaultListCache is the default of [Config.ListCache], in bytes.
	DefaultListCache = 64 << 20
	// listShare is the part of the cache that one page may take. A page that takes more is probed.
	listShare = 4
)

// lists holds the pages of shared lists, which many feeds read. A page is used again while the
// store has the same version of it.
type lists struct {
	held    *lru.Cache[favfilter.PageID, held]
	largest int // the largest page that it holds, in bytes
}

// held is a page and its version in the store.
type held struct {
	page    *favfilter.Page
	version favfilter.Version
}

func newLists(bytes int) *lists {
	return &lists{held: lru.New[favfilter.PageID, held](bytes, bytes/listShare), largest: bytes / listShare}
}

// put holds a page that was read. Nobody may change it afterwards.
func (l *lists) put(id favfilter.PageID, page *favfilter.Page) {
	header, err := page.Header().AppendBinary(nil)
	if err != nil {
		return // no stored page has such a header
	}
	const overhead = 512
	l.held.Put(id, held{page, favfilter.Version(header)}, imageBytes(page)+overhead)
}

// ReadHeld reads the pages of users whose pages many feeds need, such as shared lists, with the
// promise and the errors of [Pages.Read]. The pages are held in the process. In one round trip for
// all, ReadHeld asks the store for their versions, and reads only those that have changed. The
// answers are in the order of the queries.
func (r *Pages) ReadHeld(ctx context.Context, queries []Query) ([]Answer, error) {
	return r.beginHeld(ctx, queries).end(ctx)
}

// heldRead reads the pages of several users, which may be held.
type heldRead struct {
	pages    *Pages
	queries  []Query
	answers  []Answer
	known    []heldList // those that may answer queries
	versions versions   // of the known pages
	rest     errgroup.Group
}

// heldList is a held page that may answer a query.
type heldList struct {
	held

	query int // index of the query
	at    position
	want  uint64
}

// beginHeld begins to read the pages of users that are not held. The caller calls end.
func (r *Pages) beginHeld(ctx context.Context, queries []Query) *heldRead {
	since := r.recent()
	h := &heldRead{pages: r, queries: queries, answers: make([]Answer, len(queries)), known: make([]heldList, 0, len(queries))}
	h.versions.held = make([]favfilter.PageID, 0, len(queries))
	for i, q := range queries {
		at := r.keepUp(ctx, q.User, since)
		id := r.layout.pageID(at.page)
		// Taken before the versions are read.
		l := heldList{query: i, at: at, want: r.sequences.of(at.page).required.Load()}
		var ok bool
		if l.held, ok = r.lists.held.Get(id); !ok || !at.known || !at.holds(l.page.Header()) {
			h.read(ctx, i)
			continue
		}
		h.known, h.versions.held = append(h.known, l), append(h.versions.held, id)
	}
	return h
}

// read begins to read the page of one query.
func (h *heldRead) read(ctx context.Context, query int) {
	h.rest.Go(func() (err error) {
		h.answers[query], err = h.pages.readAndHold(ctx, h.queries[query])
		return err
	})
}

// end reads the versions of the known pages unless somebody has, reads the pages that have
// changed, and returns the answers.
func (h *heldRead) end(ctx context.Context) ([]Answer, error) {
	r := h.pages
	if len(h.known) > 0 {
		// If it fails, a read of each page decides what to do about it.
		_, _ = r.loadWithin(ctx, loadTimeout, nil, &h.versions)
	}
	for n, l := range h.known {
		same := n < len(h.versions.read) && h.versions.read[n] == l.version
		if !same || r.fault(ctx, l.at.page, l.want, favfilter.Status{Header: l.page.Header()}) != "" {
			h.read(ctx, l.query)
			continue
		}
		r.stats.fromLists.Add(1)
		h.answers[l.query] = Answer{Number: l.at.page, Header: l.page.Header(), Page: l.page}
	}
	if err := h.rest.Wait(); err != nil {
		return nil, fmt.Errorf("read %d held pages: %w", len(h.queries), err)
	}
	return h.answers, ctx.Err()
}

// readAndHold reads one page as Read does, and holds it. Keys of the query are looked up one by one
// only if the page is too large to be held.
func (r *Pages) readAndHold(ctx context.Context, q Query) (Answer, error) {
	number := r.layout.pageOf(q.User)
	if h := r.large.of(number); h == nil || int(h.Shape.Bits/8) <= r.lists.largest {
		q.Keys = nil
	}
	a, err := r.Read(ctx, q)
	if err == nil && a.Page != nil {
		r.lists.put(r.layout.pageID(a.Number), a.Page)
	}
	return a, err
}

// ReadHeld reads the pages of several users as [Alone.Read] does, in one round trip.
func (p *Alone) ReadHeld(ctx context.Context, queries []Query) ([]Answer, error) {
	a, err := p.Read(ctx, Query{Lists: queries})
	return a.Lists, err
}
