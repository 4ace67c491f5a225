package activity

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
)

// probing answers as pages do whose page is too large to be read.
type probing struct {
	source

	keys []favfilter.Hash // that were looked for
}

func (p *probing) Read(ctx context.Context, q pages.Query) (pages.Answer, error) {
	a, err := p.source.Read(ctx, q)
	if err != nil || q.Keys == nil {
		return a, err
	}
	number, each := q.Keys.Sought()
	a.Found = make([]bool, 0, number)
	p.keys = p.keys[:0]
	for start, ids := range each {
		for _, id := range ids {
			p.keys = append(p.keys, start.With(id))
			a.Found = append(a.Found, a.Page.Contains(start.With(id)))
		}
	}
	a.Page = nil
	return a, nil
}

// seek yields ids of users and posts, for a View.
func seek(users, posts []string) func(yield func(Facet, string) bool) {
	return func(yield func(Facet, string) bool) {
		for _, id := range users {
			if !yield(User, id) {
				return
			}
		}
		for _, id := range posts {
			if !yield(Post, id) {
				return
			}
		}
	}
}

// A View of a probed page finds the same as a View of the same page that is read. The test looks up
// id by id and in a Search, for every kind and on both sides. Each key is looked for once. Keys
// that were not sought count as found.
func TestViewOfProbedPage(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	var users, ids []string
	for i := range 40 {
		users, ids = append(users, fmt.Sprint("u", i), fmt.Sprint("u", i)), append(ids, fmt.Sprint("p", i))
		switch i % 4 {
		case 0:
			g.record(t, true, add("1", "block", fmt.Sprint("u", i)))
			g.record(t, true, add("1", "hide", fmt.Sprint("p", i)))
		case 1:
			g.record(t, true, add(fmt.Sprint("u", i), "block", "1"))
			g.record(t, true, add("1", "seen", fmt.Sprint("p", i)))
		}
	}
	kinds := g.Kinds().All()
	read, err := g.View(t.Context(), "1", kinds, nil)
	must(t, err)
	p := &probing{source: g.source}
	g.source = p
	v, err := g.View(t.Context(), "1", kinds, seek(users, ids))
	must(t, err)
	s := v.Search()
	s.addAll(users, ids)
	s.Run(v, len(kinds))
	for i, k := range kinds {
		of := ids
		if k.Target == User {
			of = users
		}
		for n, id := range of {
			want := read.Check(i, id)
			if got := v.Check(i, id); got != want {
				t.Errorf("%s %s: %v, want %v", k.Name, id, got, want)
			}
			if got := s.Match(v, i, n); got != want || want != None && !s.Hits(k.Target)[n] {
				t.Errorf("%s %s: found %v by a search, want %v", k.Name, id, got, want)
			}
		}
		if k.InLedger() && v.Check(i, "not sought") == None {
			t.Errorf("%s: an id that was not sought is missed", k.Name)
		}
	}
	s.Release()
	if want := 40*2 + 40*2; len(p.keys) != want { // both sides of a block; hide and like
		t.Errorf("%d keys were looked for, want %d", len(p.keys), want)
	}
	slices.SortFunc(p.keys, compareHashes)
	if n := len(slices.Compact(p.keys)); n != len(p.keys) {
		t.Errorf("%d of %d keys differ", n, len(p.keys))
	}
	if page := v.Page(); page.Keys != read.Page().Keys || page.Bytes != read.Page().Bytes || v.At() != read.At() {
		t.Errorf("the page is %+v, want %+v", page, read.Page())
	}
}

func (s *Search) addAll(users, posts []string) {
	s.Begin(User)
	for _, id := range users {
		s.Add(id)
	}
	s.Begin(Post)
	for _, id := range posts {
		s.Add(id)
	}
}
