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
	answers := make([]Answer, len(queries))
	var rest errgroup.Group
	read := func(i int) {
		rest.Go(func() (err error) {
			answers[i], err = r.readAndHold(ctx, queries[i])
			return err
		})
	}
	since := r.recent()
	var known []heldList
	for i, q := range queries {
		at := r.keepUp(ctx, q.User, since)
		// Taken before the versions are read.
		l := heldList{query: i, at: at, want: r.sequences.of(at.page).required.Load(), id: r.layout.pageID(at.page)}
		var ok bool
		if l.held, ok = r.lists.held.Get(l.id); !ok || !at.known || !at.holds(l.page.Header()) {
			read(i)
			continue
		}
		known = append(known, l)
	}
	same := r.unchanged(ctx, known)
	for n, l := range known {
		if !same[n] {
			read(l.query)
			continue
		}
		r.stats.fromLists.Add(1)
		answers[l.query] = Answer{Number: l.at.page, Header: l.page.Header(), Page: l.page}
	}
	if err := rest.Wait(); err != nil {
		return nil, fmt.Errorf("read %d held pages: %w", len(queries), err)
	}
	return answers, ctx.Err()
}

// heldList is a held page that may answer a query.
type heldList struct {
	held

	query int // index of the query
	at    position
	want  uint64
	id    favfilter.PageID
}

// unchanged reports, for each of the held pages, whether it may be used: whether it is the page in
// the store, and nothing is wrong with that.
func (r *Pages) unchanged(ctx context.Context, known []heldList) []bool {
	same := make([]bool, len(known))
	if len(known) == 0 {
		return same
	}
	ids := make([]favfilter.PageID, len(known))
	for n, l := range known {
		ids[n] = l.id
	}
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	versions, err := r.store.Versions(limited, ids)
	if err != nil {
		return same // a read of each page decides what to do about it
	}
	for n, l := range known {
		same[n] = versions[n] == l.version && r.fault(ctx, l.at.page, l.want, favfilter.Status{Header: l.page.Header()}) == ""
	}
	return same
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

// ReadHeld reads the pages of several users at the same time, each as [Alone.Read] does.
func (p *Alone) ReadHeld(ctx context.Context, queries []Query) ([]Answer, error) {
	answers := make([]Answer, len(queries))
	var all errgroup.Group
	for i, q := range queries {
		all.Go(func() (err error) {
			answers[i], err = p.Read(ctx, q)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, fmt.Errorf("read %d held pages: %w", len(queries), err)
	}
	return answers, nil
}
