package activity

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/activity/pages"
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
}

// Hit is an activity that is found on a candidate, rightly or by a false positive.
type Hit struct {
	Candidate int    // its index
	Kind      *Kind  // one of those that were asked for
	List      string // the list whose activity it is; "": the user's
	ID        string // the id on the candidate; in an audience, the owner
	Place     int    // of ID among the candidate's of the facet: 0 is the first, others follow
	Match     Match
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
		if facet := v.kinds[i].facet; s.of(facet) == nil {
			s.begin(facet)
			c.Hash(&s.hashes, facet, from, until)
			s.end()
		}
	}
	s.test(v, deciding)
	for _, list := range v.lists {
		s.test(list, deciding)
	}
	on := s.foundOn(until - from)
	number := 0
	for _, found := range on {
		if found {
			number++
		}
	}
	hits = slices.Grow(hits, number) // most have one
	for n, found := range on {
		if !found {
			continue
		}
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
	s.found, s.marks = s.found[:0], s.marks[:0]
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

// Owner is whatever kinds target. A user and a domain of the same id are different owners.
type Owner struct {
	Facet Facet
	ID    string
}

// Audience looks for what keeps posts of the owners from users: two-way kinds, and what users did
// with the owners of kinds with Fanout. The candidates are the users. A hit has the id of the
// owner, and that owner's index as its place. There are none of a kind that is neither, that
// targets another facet than the owner's, or that the ledger does not keep. Hits are as those of
// [View.Find]: on users on whom one of the first kinds is found, by user, kind and owner.
//
// Many requests need the owners' pages, so they are held in the process, see [Config.ListCache]. In
// one round trip for all of them, Audience asks the store whether they have changed. It misses
// nothing that was acknowledged before, like View. Errors are as those of View.
func (r *reader) Audience(
	ctx context.Context, owners []Owner, kinds []Kind, deciding int, users []string,
) ([]Hit, error) {
	views, read := make([]*View, len(owners)), make([]uint64, 0, len(owners))
	for i, owner := range owners {
		v := r.newView(owner.ID, kinds)
		for n := range v.kinds {
			r.ofAudience(&v.kinds[n], owner)
		}
		if views[i] = v; v.ledger { // all are alike
			read = append(read, v.userHash)
		}
	}
	a, err := r.source.Read(ctx, pages.Query{Lists: read})
	if err != nil {
		return nil, fmt.Errorf("read activities: %w", err)
	}
	for i, list := range a.Lists {
		views[i].takePage(list)
	}
	v := views[0]
	s := v.newSearch()
	defer s.release(v)
	s.begin(User)
	for _, id := range users {
		s.hashes.Add(id, nil)
	}
	s.end()
	for _, v := range views {
		s.test(v, deciding)
	}
	var hits []Hit
	for n, found := range s.found {
		if !found {
			continue
		}
		for i := range kinds {
			for place, v := range views {
				if m := v.kinds[i].match(s.hashes.all[n]); m != None {
					id := owners[place].ID
					hits = append(hits, Hit{Candidate: n, Kind: &kinds[i], ID: id, Place: place, Match: m})
				}
			}
		}
	}
	return hits, nil
}

// ofAudience makes l look for users who have the activity with the owner.
func (r *reader) ofAudience(l *lookup, owner Owner) {
	l.facet = User
	if l.kind.Reverse == "" {
		l.sides = None // what the owner did is no reason for the other
	}
	if _, mirror, ok := l.kind.rows("", owner.ID); ok && l.kind.Target == owner.Facet {
		l.sides |= Reverse
		l.reverse = r.startOf(&mirror)
	}
}
