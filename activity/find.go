package activity

import (
	"slices"

	"github.com/feedfilter/feedfilter/favfilter"
)

// maxPooledHashes is the largest number of hashes whose memory is reused, 1 MiB.
const maxPooledHashes = 1 << 16

// Candidates are what activities are looked for on, such as the posts of a feed.
type Candidates interface {
	// Hash adds the ids of a facet on the candidates from to until-1, by a call of [Hashes.Add] for
	// each candidate.
	Hash(to *Hashes, facet Facet, from, until int)
	// IDs returns what it adds for the n-th candidate.
	IDs(n int, facet Facet) (first string, others []string)
	// Text returns the text of the n-th candidate, in which phrases are found. "": none.
	Text(n int) string
}

// Hit is an activity that is found on a candidate, rightly or by a false positive.
type Hit struct {
	Candidate int    // its index
	Kind      *Kind  // one of those that were asked for
	List      string // the list whose activity it is; "": the user's
	ID        string // the id on the candidate; in an audience, the owner
	// Place is that of ID among the candidate's of the facet: 0 is the first, others follow. -1: ID
	// is a phrase.
	Place int
	Match Match
}

// Find looks for the ids on the candidates from to until-1. It hashes each id once for all kinds.
// It reports candidates on which it finds one of the first kinds of the View, so many as deciding
// says, and on these everything that any kind has.
//
// Hits are in the order in which they decide: by candidate. Those of the user are before those of
// the lists in their order. Then they are by kind, and by id as on the candidate.
func (v *View) Find(c Candidates, from, until, deciding int) (hits []Hit) {
	s := v.newSearch()
	defer s.release(v)
	s.from = from
	for i := range v.kinds {
		if l := &v.kinds[i]; l.phrases == nil && s.of(l.facet) == nil {
			facet := l.facet
			s.begin(facet)
			c.Hash(&s.hashes, facet, from, until)
			s.end()
		}
	}
	s.test(v, deciding)
	for _, list := range v.lists {
		s.test(list, deciding)
	}
	s.texts.prepare(v)
	for _, list := range v.lists {
		s.texts.prepare(list)
	}
	s.texts.search(c, from, until)
	v.cutOff = v.cutOff || s.texts.cutOff
	on := s.foundOn(until - from)
	s.texts.markFound(on, from, deciding)
	number := 0
	for _, found := range on {
		if found {
			number++
		}
	}
	hits = slices.Grow(hits, number) // most have one
	inTexts := s.texts.found
	for n, found := range on {
		if !found {
			continue
		}
		s.inText, inTexts = cutFound(inTexts, from+n)
		hits = s.add(v, "", c, from+n, deciding, hits)
		for _, list := range v.lists {
			hits = s.add(list, list.user, c, from+n, deciding, hits)
		}
	}
	return hits
}

// search looks for many ids in Views at once. Its memory is reused.
type search struct {
	hashes     Hashes   // of all ids, by facet
	columns    []column // of facets
	found      []bool   // for each hash, whether a View has it
	marks      []bool   // of lookups
	candidates []bool   // for each candidate, whether a View has any of its ids
	from       int      // the first candidate
	texts      texts
	inText     []found // on the candidate that add looks at
}

// Hashes are those of the ids on candidates.
type Hashes struct {
	seed   uint64
	all    []favfilter.Hash
	column *column // that Add adds to
}

// column holds the hashes of the ids of one facet.
type column struct {
	facet      Facet
	first, end int // its range of the hashes
	// before is the number of its hashes before each candidate, and at last of all; uneven: not each
	// candidate has just one.
	uneven bool
	before []int
}

// of returns which of the hashes the n-th candidate has.
func (c *column) of(n int) (first, end int) {
	if c.uneven {
		return c.first + c.before[n], c.first + c.before[n+1]
	}
	return c.first + n, c.first + n + 1
}

// Add adds the ids on a candidate: a first one, "" if there is none, and others.
func (h *Hashes) Add(first string, others []string) {
	if h.column.uneven || first == "" || len(others) > 0 {
		h.addUneven(first, others)
		return
	}
	h.all = append(h.all, favfilter.HashKey(h.seed, first))
}

// addUneven is Add from the first candidate on that has not just one id.
func (h *Hashes) addUneven(first string, others []string) {
	c := h.column
	if !c.uneven {
		c.uneven = true
		for before := range len(h.all) - c.first {
			c.before = append(c.before, before)
		}
	}
	c.before = append(c.before, len(h.all)-c.first)
	if first != "" {
		h.all = append(h.all, favfilter.HashKey(h.seed, first))
	}
	for _, id := range others {
		h.all = append(h.all, favfilter.HashKey(h.seed, id))
	}
}

// newSearch returns a search without ids.
func (v *View) newSearch() *search {
	s, ok := v.searches.Get().(*search)
	if !ok {
		s = new(search)
	}
	s.hashes.seed = v.seed
	return s
}

// release lets the memory of s be reused.
func (s *search) release(v *View) {
	if cap(s.hashes.all) > maxPooledHashes {
		*s = search{}
	}
	s.hashes.all, s.columns = s.hashes.all[:0], s.columns[:0]
	s.found, s.marks, s.inText = s.found[:0], s.marks[:0], nil
	s.texts.reset()
	v.searches.Put(s)
}

// begin begins a column. It reuses the memory of an earlier one.
func (s *search) begin(facet Facet) {
	s.columns = slices.Grow(s.columns, 1)[:len(s.columns)+1]
	c := &s.columns[len(s.columns)-1]
	*c = column{facet: facet, first: len(s.hashes.all), before: c.before[:0]}
	s.hashes.column = c
}

// end ends the column that began last.
func (s *search) end() {
	c := s.hashes.column
	if c.end = len(s.hashes.all); c.uneven {
		c.before = append(c.before, c.end-c.first)
	}
	s.found = slices.Grow(s.found, c.end-c.first)[:c.end]
	clear(s.found[c.first:])
}

// of returns the column of a facet; nil: there is none.
func (s *search) of(facet Facet) *column {
	for i := range s.columns {
		if s.columns[i].facet == facet {
			return &s.columns[i]
		}
	}
	return nil
}

// test notes which of the hashed ids the first kinds of a View have.
func (s *search) test(v *View, deciding int) {
	for i := range v.kinds[:min(deciding, len(v.kinds))] {
		l := &v.kinds[i]
		if l.phrases != nil {
			continue // texts has searched for them
		}
		c := s.of(l.facet)
		hashes, found := s.hashes.all[c.first:c.end], s.found[c.first:c.end]
		if l.window != nil {
			s.testWindow(l, hashes, found)
			continue
		}
		if l.page == nil {
			continue
		}
		if l.sides&Direct != 0 {
			l.page.ContainsAll(l.direct, hashes, found)
		}
		if l.sides&Reverse != 0 {
			l.page.ContainsAll(l.reverse, hashes, found)
		}
	}
}

// testWindow is test for a window. It notes what it finds for l as well, because looking it up
// again would take as long as the test.
func (s *search) testWindow(l *lookup, hashes []favfilter.Hash, found []bool) {
	from := len(s.marks)
	s.marks = slices.Grow(s.marks, len(hashes))[:from+len(hashes)]
	l.inWindow = s.marks[from:]
	clear(l.inWindow)
	l.window.ContainsAll(l.direct, hashes, l.inWindow)
	for i, in := range l.inWindow {
		if in {
			found[i] = true
		}
	}
}

// foundOn reports for each of so many candidates whether test found an id on it.
func (s *search) foundOn(candidates int) []bool {
	s.candidates = slices.Grow(s.candidates[:0], candidates)[:candidates]
	on := s.candidates
	clear(on)
	for i := range s.columns {
		c := &s.columns[i]
		if !c.uneven {
			for n, found := range s.found[c.first:c.end] {
				if found {
					on[n] = true
				}
			}
			continue
		}
		for n := range on {
			first, end := c.of(n)
			on[n] = on[n] || slices.Contains(s.found[first:end], true)
		}
	}
	return on
}

// add adds the hits of a View on candidate n of c. list is the View's, if it is one of a list.
func (s *search) add(v *View, list string, c Candidates, n, deciding int, hits []Hit) []Hit {
	for i := range v.kinds {
		l := &v.kinds[i]
		if l.phrases != nil {
			like := Hit{Candidate: n, Kind: l.kind, List: list, Match: Direct}
			hits = s.texts.appendHits(hits, s.inText, v, i, like)
			continue
		}
		column := s.of(l.facet)
		begin, end := column.of(n - s.from)
		for next := begin; next < end; next++ {
			if i < deciding && !s.found[next] {
				continue
			}
			var m Match
			switch {
			case i >= deciding || l.window == nil:
				m = l.match(s.hashes.all[next])
			case l.inWindow[next-column.first]:
				m = Direct
			}
			if m == None {
				continue
			}
			h := Hit{Candidate: n, Kind: l.kind, List: list, Match: m}
			first, others := c.IDs(n, l.facet)
			if h.Place = len(others) + 1 - (end - next); h.Place > 0 {
				first = others[h.Place-1]
			}
			h.ID = first
			hits = append(hits, h)
		}
	}
	return hits
}
