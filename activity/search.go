package activity

import (
	"slices"

	"github.com/feedfilter/feedfilter/favfilter"
)

// maxPooledHashes is the most hashes whose memory is used again, 1 MiB.
const maxPooledHashes = 1 << 16

// Search looks for many ids in a [View] at once. First all ids are hashed, each once for all kinds of
// its target; then Run tests their keys, kind by kind; then Hit and Match tell what was found. A Search
// is for one goroutine, and ends with Release.
type Search struct {
	view   *View
	hashes []favfilter.Hash // of ids
	ids    [Post + 1]span   // of hashes, by target
	keys   []favfilter.Hash // scratch of Run
	hits   []bool           // of hashes, those that Run found something of
}

// span is a part of the hashes.
type span struct{ first, end int }

// Search returns an empty search.
func (v *View) Search() *Search {
	s, ok := v.searches.Get().(*Search)
	if !ok {
		s = new(Search)
	}
	s.view = v
	return s
}

// Hash hashes an id that is looked for by kinds of that target. All ids of one target are hashed before
// the first of the other.
func (s *Search) Hash(target Target, id string) {
	ids := &s.ids[target]
	if ids.end == 0 {
		ids.first = len(s.hashes)
	}
	s.hashes = append(s.hashes, favfilter.HashKey(s.view.seed, id))
	ids.end = len(s.hashes)
}

// Run looks for all ids that were hashed, by the first so many kinds of the View.
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

// lookFor notes the ids whose key on that side is there.
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
	case l.kind.InLedger() && s.view.probed != nil:
		for n, id := range hashes {
			hits[n] = hits[n] || s.view.contains(l, side, id)
		}
	}
}

// appendKeys appends the hashes of the keys that begin with start and go on with ids.
func appendKeys(
	keys []favfilter.Hash, start favfilter.Start, ids []favfilter.Hash,
) []favfilter.Hash {
	keys = slices.Grow(keys, len(ids))
	for _, id := range ids {
		keys = append(keys, start.With(id))
	}
	return keys
}

// Hit reports whether Run found anything of the n-th id of a target. Most candidates are no hits, and
// nothing more has to be asked about these.
func (s *Search) Hit(target Target, n int) bool { return s.hits[s.ids[target].first+n] }

// Match is [View.Check] of the i-th kind with the n-th id of its target.
func (s *Search) Match(i, n int) Match {
	l := &s.view.kinds[i]
	return s.view.match(l, s.hashes[s.ids[l.kind.Target].first+n])
}

// Release ends the Search: its memory is used again. The View stays.
func (s *Search) Release() {
	searches := s.view.searches
	s.view, s.ids = nil, [Post + 1]span{}
	if cap(s.hashes) > maxPooledHashes {
		s.hashes, s.keys, s.hits = nil, nil, nil
	}
	s.hashes = s.hashes[:0]
	searches.Put(s)
}
