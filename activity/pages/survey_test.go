package pages

import (
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// wantSurvey checks that the survey is of these pages, as they are in the store.
func (g *rig) wantSurvey(t *testing.T, pages ...uint32) {
	t.Helper()
	want := newSurvey()
	want.Whole = true
	for _, page := range pages {
		loaded, err := g.store.LoadWhole(t.Context(), []favfilter.PageID{g.layout.PageID(page)})
		must(t, err)
		want.add(page, favfilter.Status{Missing: true})
		f := &want.Shared
		if page >= ledger.DedicatedPages {
			f = &want.Dedicated
		}
		p := loaded[0].Page
		if p == nil {
			continue
		}
		raw, collisions := p.Encode()
		st := p.Status()
		f.Keys.add(float64(st.Header.Count))
		f.Bytes.add(float64(len(raw) + len(collisions)))
		f.Fill.add(float64(st.Header.Set) / float64(st.Size.Bits))
		f.Collided.add(float64(st.Collided) / float64(st.Size.Regions))
		f.Rate.add(p.FalsePositiveRate())
	}
	got := g.Survey()
	if got.Whole != want.Whole || got.Looked != want.Looked || got.Faulty != 0 || got.Keys() != want.Keys() || got.Bytes() != want.Bytes() {
		t.Errorf("surveyed %+v, want %+v", got, want)
	}
	for i, of := range [][2]*Figures{{&got.Shared, &want.Shared}, {&got.Dedicated, &want.Dedicated}} {
		for n, h := range [][2]Histogram{
			{of[0].Keys, of[1].Keys}, {of[0].Bytes, of[1].Bytes}, {of[0].Fill, of[1].Fill}, {of[0].Collided, of[1].Collided}, {of[0].Rate, of[1].Rate},
		} {
			if h[0].Count != h[1].Count || !slices.Equal(h[0].Counts, h[1].Counts) || h[0].Sum < h[1].Sum*(1-1e-6) || h[0].Sum > h[1].Sum*(1+1e-6) {
				t.Errorf("figures %d, histogram %d: %+v, want %+v", i, n, h[0], h[1])
			}
		}
	}
}

func numbersTo(n uint32) (pages []uint32) {
	for page := range n {
		pages = append(pages, page)
	}
	return pages
}

// TestSurvey checks that the survey has the pages as the last whole round read them.
func TestSurvey(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	if s := g.Survey(); s.Whole || s.Looked != 0 || s.Keys() != 0 {
		t.Errorf("before any look: %+v", s)
	}
	g.record(t, true, add("1", "block", "2"))
	g.scrubAll()
	g.wantSurvey(t, numbersTo(4)...)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	for _, user := range []string{"7", "8"} {
		must(t, g.applier.dedicate(t.Context(), g.hashOf(user)))
	}
	g.scrubAll()
	g.wantSurvey(t, 0, 1, 2, 3, ledger.DedicatedPages, ledger.DedicatedPages+1)
	if n := g.Survey().Dedicated.Keys.Count; n != 2 {
		t.Errorf("%d dedicated pages, want 2", n)
	}
	must(t, g.applier.release(t.Context(), g.hashOf("7")))
	must(t, g.grower.growTo(t.Context(), 8))
	g.scrubAll()
	g.wantSurvey(t, 8, 9, 10, 11, 12, 13, 14, 15, ledger.DedicatedPages+1)
	g.record(t, true, add("1", "hide", "later"))
	g.scrub(t, 0)
	g.wantSurvey(t, 8, 9, 10, 11, 12, 13, 14, 15, ledger.DedicatedPages+1)
}

// TestSurveyOfFaults checks that a page counts as faulty until a round can rebuild it, and that a
// round that cannot read all pages leaves the survey of the one before.
func TestSurveyOfFaults(t *testing.T) {
	store := &favfilter.Memory{}
	g := newRig(t, store, 4)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	g.useStore(unwritable{&favfilter.Memory{}})
	g.scrubAll()
	if s := g.Survey(); !s.Whole || s.Looked != 4 || s.Faulty != 4 || s.Keys() != 0 {
		t.Errorf("of missing pages: %+v", s)
	}
	g.useStore(store)
	g.scrubAll()
	g.wantSurvey(t, numbersTo(4)...)
}

// TestSurveyOfSome checks that the first round is shown as far as it has come. Later ones are shown
// when all their pages have been read.
func TestSurveyOfSome(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4*scrubChunk)
	s := scrub{}
	for n := range 4 {
		g.scrubber.scrubStep(&s)
		if now := g.Survey(); now.Looked != (n+1)*scrubChunk || now.Whole != (n == 3) || now.Ended.IsZero() == now.Whole {
			t.Errorf("after %d steps: %+v", n+1, now)
		}
	}
	before := g.Survey()
	for range 3 {
		g.scrubber.scrubStep(&s)
	}
	s.missed++
	g.scrubber.scrubStep(&s)
	if g.Survey() != before {
		t.Errorf("a round that missed a page is shown: %+v", g.Survey())
	}
}

// TestSurveyIsConstant checks that a survey does not change while a later one is made.
func TestSurveyIsConstant(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	full := favfilter.Status{
		Header: favfilter.Header{Count: 9, Set: 8, Shape: favfilter.Shape{Bits: 8, Hashes: 1}},
		Size:   favfilter.Size{Bits: 8, Regions: 2, Bytes: 77}, Collided: 2,
	}
	s := newSurvey()
	s.add(1, full)
	g.scrubber.publish(s)
	first := g.Survey()
	s.add(1, full)
	if first.Looked != 1 || first.Keys() != 9 ||
		slices.Max(first.Shared.Keys.Counts) != 1 {
		t.Errorf("a page that was added later changed %+v", first)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for range 2000 {
			s.add(1, full)
			g.scrubber.publish(s)
		}
	})
	for range 500 {
		s := g.Survey()
		n := s.Shared.Keys.Count
		if s.Keys() != 9*n || s.Bytes() != 77*n || uint64(s.Looked) != n || s.Shared.Rate.Counts[9] != 0 || s.Shared.Rate.Count != n {
			t.Fatalf("parts of two surveys: %+v", s)
		}
	}
	writer.Wait()
}
