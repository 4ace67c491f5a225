package activity

import (
	"slices"
	"sync"

	"github.com/feedfilter/feedfilter/favfilter"
)

// maxPooledHashes is the largest number of hashes whose memory is reused, 1 MiB.
const maxPooledHashes = 1 << 16

// Search looks for many ids in Views at once. Begin and Add hash each id once, for all kinds of its
// facet. Then Run tests the keys, kind by kind, in one View after the other. Then Hits and Match
// return the results. Release ends the Search. A Search is for one goroutine.
type Search struct {
	pool   *sync.Pool
	seed   uint64
	hashes []favfilter.Hash // of ids, in the order of the calls of Add
	spans  []span           // which of the hashes each facet has, in the order of the calls of Begin
	hits   []bool           // for each hash, whether Run found anything
}

// span is a facet's range of the hashes.
type span struct {
	facet      Facet
	first, end int
}

// Search returns an empty search, of the View and others of the same Recorder.
func (v *View) Search() *Search {
	s, ok := v.searches.Get().(*Search)
	if !ok {
		s = new(Search)
	}
	s.pool, s.seed = v.searches, v.seed
	return s
}

// Begin begins the ids of a facet. It is called once for each facet.
func (s *Search) Begin(facet Facet) {
	s.end()
	s.spans = append(s.spans, span{facet: facet, first: len(s.hashes)})
}

// end ends the ids of the facet that began last.
func (s *Search) end() {
	if n := len(s.spans); n > 0 {
		s.spans[n-1].end = len(s.hashes)
	}
}

// of returns the range of a facet. It is empty if the facet has not begun.
func (s *Search) of(facet Facet) span {
	for _, ids := range s.spans {
		if ids.facet == facet {
			return ids
		}
	}
	return span{}
}

// Add adds an id of the facet that began last.
func (s *Search) Add(id string) {
	s.hashes = append(s.hashes, favfilter.HashKey(s.seed, id)) // small, to be inlined
}

// Run tests all hashed ids against a View's kinds 0 to kinds-1.
func (s *Search) Run(v *View, kinds int) {
	s.end()
	if n := len(s.hashes); len(s.hits) < n { // nothing was run yet
		s.hits = slices.Grow(s.hits[:0], n)[:n]
		clear(s.hits)
	}
	for i := range kinds {
		l := &v.kinds[i]
		ids := s.of(l.facet)
		if !l.mirrorOnly {
			s.lookFor(l, Direct, ids)
		}
		if l.twoWay {
			s.lookFor(l, Reverse, ids)
		}
	}
}

// lookFor sets the hits of the ids whose key on that side is present.
func (s *Search) lookFor(l *lookup, side Match, ids span) {
	hashes, hits := s.hashes[ids.first:ids.end], s.hits[ids.first:ids.end]
	start := l.direct
	if side == Reverse {
		start = l.reverse
	}
	switch {
	case l.window != nil:
		l.window.ContainsAll(start, hashes, hits)
	case l.page != nil:
		l.page.ContainsAll(start, hashes, hits)
	}
}

// Hits reports for each id of a facet, in the order of the calls of Add, whether Run found
// anything. It is valid until Release, and the caller may change it. Most ids have no hit, and need
// no further check.
func (s *Search) Hits(facet Facet) []bool {
	ids := s.of(facet)
	return s.hits[ids.first:ids.end]
}

// Match is [View.Check] of v for its i-th kind and the n-th id of the kind's facet. From the side
// of the Audience, that facet is the users.
func (s *Search) Match(v *View, i, n int) Match {
	l := &v.kinds[i]
	return v.match(l, s.hashes[s.of(l.facet).first+n])
}

// Release ends the Search, and lets its memory be reused. The Views remain valid.
func (s *Search) Release() {
	pool := s.pool
	s.pool, s.spans, s.hits = nil, s.spans[:0], s.hits[:0]
	if cap(s.hashes) > maxPooledHashes {
		s.hashes, s.hits = nil, nil
	}
	s.hashes = s.hashes[:0]
	pool.Put(s)
}
