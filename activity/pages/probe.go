package pages

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// largePage is the number of bytes from which on feeds do not read a page whole but probe it, bit
// by bit. For a feed of 500 posts a probe costs the store some milliseconds, and the network next
// to nothing.
const largePage = 1 << 20

// probeChunk is the number of keys that are built and probed at a time. Before each chunk
// it is checked whether the caller has gone. A feed of 500 posts has some 2,000 keys.
const probeChunk = 4096

// largePages holds the headers of known pages that are too large to be read for each feed. It is
// safe for concurrent use.
type largePages struct{ headers sync.Map }

// of returns the last known header of the page; nil if the page is not known to be large.
func (l *largePages) of(page uint32) *favfilter.Header {
	found, _ := l.headers.Load(page)
	header, _ := found.(*favfilter.Header) // no other type is stored
	return header
}

// note keeps the header of a page of more than most bytes, and forgets that of a smaller page.
func (l *largePages) note(page uint32, h favfilter.Header, most uint32) {
	if h.Shape.Bits/8 <= most {
		l.headers.Delete(page)
		return
	}
	known := h // here, so that only large pages allocate it
	l.headers.Store(page, &known)
}

// forget removes the header, unless another has replaced it.
func (l *largePages) forget(page uint32, known *favfilter.Header) {
	l.headers.CompareAndDelete(page, known)
}

// isLarge reports whether the page is known to be too large to be read for each feed.
func (r *rebuilder) isLarge(page uint32) bool {
	return page >= ledger.DedicatedPages && r.large.of(page) != nil
}

// noteSize remembers a large page. It ignores shared pages: users who make these large leave them.
func (r *rebuilder) noteSize(page uint32, h favfilter.Header) {
	if page >= ledger.DedicatedPages {
		r.large.note(page, h, r.largePage)
	}
}

// probe looks up the Query's keys in its page, which is large, and reads the others at the same
// time. If the page is not as known, or not as required, probe returns false, and the page has to
// be read.
func (r *Pages) probe(ctx context.Context, q *Query, at position, want uint64, id favfilter.PageID, a *Answer) (ok bool) {
	page := at.page
	known := r.large.of(page)
	if known == nil || known.Identity != r.identity || !at.holds(*known) {
		return false
	}
	probed := Answer{Number: page, Header: *known}
	var both errgroup.Group
	both.Go(func() (err error) {
		probed.Others, err = r.loadWithin(ctx, loadTimeout, q.Others, q.versions)
		return err
	})
	both.Go(func() (err error) {
		limited, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		ok, err = r.probeChunks(limited, q.Keys, id, &probed)
		return err
	})
	switch err := both.Wait(); {
	case err != nil:
		return false
	case !ok:
		r.large.forget(page, known)
		return false
	case probed.Header.Sequence < want || r.ahead(ctx, page, probed.Header.Sequence):
		return false
	}
	r.stats.probed.Add(1)
	*a = probed
	return true
}

// probeChunks probes all keys, one chunk at a time. a.Header is the known header of the page. Its
// sequence becomes the lowest that the page had during the probes.
func (r *Pages) probeChunks(ctx context.Context, sought Keys, id favfilter.PageID, a *Answer) (ok bool, err error) {
	known := a.Header
	number, each := sought.Sought()
	a.Header.Sequence = favfilter.MaxSequence
	a.Found = make([]bool, number)
	keys, first := make([]favfilter.Hash, 0, min(number, probeChunk)), 0
	flush := func() (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		sequence, ok, err := r.store.Probe(ctx, id, known, keys, a.Found[first:first+len(keys)])
		a.Header.Sequence = min(a.Header.Sequence, sequence)
		first += len(keys)
		keys = keys[:0]
		return ok, err
	}
	for start, ids := range each {
		for _, target := range ids {
			keys = append(keys, start.With(target))
			if len(keys) < probeChunk {
				continue
			}
			if ok, err := flush(); !ok || err != nil {
				return false, err
			}
		}
	}
	if len(keys) > 0 || first == 0 {
		return flush()
	}
	return true, nil
}
