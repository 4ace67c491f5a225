package activity

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// largePage is the number of bytes from which on feeds do not read a page whole but probe it, bit
// by bit. For a feed of 500 posts a probe costs the store some milliseconds, and the network next
// to nothing.
const largePage = 1 << 20

// probeChunk is the number of keys that are built and probed at a time. Before each chunk the
// Recorder checks whether the caller has gone. A feed of 500 posts has some 2,000 keys.
const probeChunk = 4096

// sought holds the hashes of the ids to look for in a page that is probed: by target, sorted, each
// once.
type sought [Post + 1][]favfilter.Hash

func (s *sought) of(target Target) []favfilter.Hash { return s[target] }

func compareHashes(a, b favfilter.Hash) int {
	return cmp.Or(cmp.Compare(a.H1, b.H1), cmp.Compare(a.H2, b.H2))
}

// hashIDs hashes the ids that v will be asked about, unless it already did.
func (v *View) hashIDs() {
	if v.sought != nil {
		return
	}
	v.sought = new(sought)
	for target, id := range v.ids {
		v.sought[target] = append(v.sought[target], favfilter.HashKey(v.seed, id))
	}
	for _, target := range [...]Target{User, Post} {
		slices.SortFunc(v.sought[target], compareHashes)
		v.sought[target] = slices.Compact(v.sought[target])
	}
}

// probed is the result of probing a page.
type probed struct {
	header favfilter.Header
	// found has an element for each sought id, for one start of keys after another.
	found []bool
}

// has reports whether the key with that id was found. at is the place of the first of ids, for the
// start of the key. An id that was not probed counts as found, so that no activity is missed.
func (p *probed) has(at int, ids []favfilter.Hash, id favfilter.Hash) bool {
	n, asked := slices.BinarySearchFunc(ids, id, compareHashes)
	return !asked || p.found[at+n]
}

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

// probe looks up the keys of v in its page, which is large, and reads the windows at the same time.
// If the page is not as known, or not as required, probe returns false, and the page has to be
// read.
func (r *Recorder) probe(
	ctx context.Context, v *View, at position, want uint64, parts []favfilter.PageID,
) (windows []favfilter.Loaded, ok bool) {
	page := at.page
	known := r.large.of(page)
	if known == nil || known.Identity != r.identity || !at.holds(*known) {
		return nil, false
	}
	found := &probed{header: *known}
	var both errgroup.Group
	both.Go(func() (err error) {
		windows, err = r.load(ctx, parts[1:])
		return err
	})
	both.Go(func() (err error) {
		limited, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		ok, err = r.probeChunks(limited, v, parts[0], found)
		return err
	})
	switch err := both.Wait(); {
	case err != nil:
		return nil, false
	case !ok:
		r.large.forget(page, known)
		return nil, false
	case found.header.Sequence < want || r.ahead(ctx, page, found.header.Sequence):
		return nil, false
	}
	v.probed = found
	r.stats.probed.Add(1)
	return windows, true
}

// probeChunks probes all keys of v, one chunk at a time. p.header is the known header of the page.
// Its sequence becomes the lowest that the page had during the probes.
func (r *Recorder) probeChunks(
	ctx context.Context, v *View, id favfilter.PageID, p *probed,
) (ok bool, err error) {
	known := p.header
	p.header.Sequence = favfilter.MaxSequence
	p.found = make([]bool, v.place())
	keys, first := make([]favfilter.Hash, 0, min(len(p.found), probeChunk)), 0
	flush := func() (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		sequence, ok, err := r.store.Probe(ctx, id, known, keys, p.found[first:first+len(keys)])
		p.header.Sequence = min(p.header.Sequence, sequence)
		first += len(keys)
		keys = keys[:0]
		return ok, err
	}
	for start, ids := range v.starts() {
		for len(ids) > 0 {
			n := min(len(ids), probeChunk-len(keys))
			keys = appendKeys(keys, start, ids[:n])
			ids = ids[n:]
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

// starts yields the starts of the keys that v looks for in its page, each with the sought ids.
func (v *View) starts() iter.Seq2[favfilter.Start, []favfilter.Hash] {
	return func(yield func(favfilter.Start, []favfilter.Hash) bool) {
		for i := range v.kinds {
			l := &v.kinds[i]
			if !l.kind.InLedger() {
				continue
			}
			ids := v.sought.of(l.kind.Target)
			if !yield(l.direct, ids) || l.twoWay && !yield(l.reverse, ids) {
				return
			}
		}
	}
}

// place gives each start its place in probed.found, in the order of starts, and returns the number
// of keys.
func (v *View) place() (keys int) {
	for i := range v.kinds {
		l := &v.kinds[i]
		if !l.kind.InLedger() {
			continue
		}
		ids := len(v.sought.of(l.kind.Target))
		l.directAt = keys
		keys += ids
		if l.twoWay {
			l.reverseAt = keys
			keys += ids
		}
	}
	return keys
}

// contains looks up the key of a kind that the ledger keeps, on one side, with the hashed id.
func (v *View) contains(l *lookup, side Match, id favfilter.Hash) bool {
	start, at := l.direct, l.directAt
	if side == Reverse {
		start, at = l.reverse, l.reverseAt
	}
	switch {
	case l.page != nil:
		return l.page.Contains(start.With(id))
	case v.probed != nil:
		return v.probed.has(at, v.sought.of(l.kind.Target), id)
	default:
		return false
	}
}
