package activity

import (
	"slices"

	"github.com/feedfilter/feedfilter/favfilter"
)

// maxPooledHashes is the largest number of hashes whose memory is reused, 1 MiB.
const maxPooledHashes = 1 << 16

// Search looks for many ids in a [View] at once. Hash hashes each id once, for all kinds of its
// target. Then Run tests the keys, kind by kind. Then Hit and Match return the results. Release
// ends the Search. A Search is for one goroutine.
type Search struct {
	view   *View
	hashes []favfilter.Hash // of ids, in the order of the calls of Hash
	ids    [Post + 1]span   // which of the hashes each target has
	keys   []favfilter.Hash // scratch memory of Run
	hits   []bool           // for each hash, whether Run found anything
}

// span is a range of the hashes.
type span struct{ first, end int }

// Search returns an empty search of the View.
func (v *View) Search() *Search {
	s, ok := v.searches.Get().(*Search)
	if !ok {
		s = new(Search)
	}
	s.view = v
	return s
}

// Hash adds an id for the kinds of that target. All ids of one target must be added before the
// first of the other target.
func (s *Search) Hash(target Target, id string) {
	ids := &s.ids[target]
	if ids.end == 0 {
		ids.first = len(s.hashes)
	}
	s.hashes = append(s.hashes, favfilter.HashKey(s.view.seed, id))
	ids.end = len(s.hashes)
}

// Run tests all hashed ids against the View's kinds 0 to kinds-1.
func (s *Search) Run(kinds int) {
	n := len(s.hashes)
	s.hits = slices.Grow(s.hits[:0], n)[:n]
	clear(s.hits)
	for i := range kinds {
		l := &s.view.kinds[i]
		ids := s.ids[l.kind.Target]
		s.lookFor(l, Direct, ids)
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
		s.keys = appendKeys(s.keys[:0], start, hashes)
		l.window.ContainsAll(s.keys, hits)
	case l.page != nil:
		s.keys = appendKeys(s.keys[:0], start, hashes)
		l.page.ContainsAll(s.keys, hits)
	case l.kind.InLedger() && s.view.read.Found != nil:
		for n, id := range hashes {
			hits[n] = hits[n] || s.view.contains(l, side, id)
		}
	}
}

// appendKeys appends the hashes of the keys that start combines to with each of ids.
func appendKeys(
	keys []favfilter.Hash, start favfilter.Start, ids []favfilter.Hash,
) []favfilter.Hash {
	keys = slices.Grow(keys, len(ids))
	for _, id := range ids {
		keys = append(keys, start.With(id))
	}
	return keys
}

// Hit reports whether Run found anything for the n-th id of a target. Most candidates have no hit,
// and need no further check.
func (s *Search) Hit(target Target, n int) bool { return s.hits[s.ids[target].first+n] }

// Match is [View.Check] of the i-th kind with the n-th id of the kind's target.
func (s *Search) Match(i, n int) Match {
	l := &s.view.kinds[i]
	return s.view.match(l, s.hashes[s.ids[l.kind.Target].first+n])
}

// Release ends the Search, and lets its memory be reused. The View remains valid.
func (s *Search) Release() {
	searches := s.view.searches
	s.view, s.ids = nil, [Post + 1]span{}
	if cap(s.hashes) > maxPooledHashes {
		s.hashes, s.keys, s.hits = nil, nil, nil
	}
	s.hashes = s.hashes[:0]
	searches.Put(s)
}
