package pages

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// wantSurvey checks that the survey has every page as it is in the store, and the right totals.
func (g *rig) wantSurvey(t *testing.T, pages ...uint32) {
	t.Helper()
	var sum SurveyTotals
	var numbers []uint32
	near := func(got float32, want float64) bool { return math.Abs(float64(got)-want) <= 1e-6*want }
	for p := range g.inspector.Survey() {
		numbers = append(numbers, p.Number)
		sum.Pages++
		sum.Looked++
		sum.Keys += uint64(p.Keys)
		sum.Bytes += uint64(p.Bytes)
		if p.Dedicated {
			sum.Dedicated++
		}
		loaded, err := g.store.LoadWhole(t.Context(), []favfilter.PageID{g.layout.pageID(p.Number)})
		must(t, err)
		page := loaded[0].Page
		if page == nil {
			if want := (SurveyedPage{Number: p.Number, State: PageUnused}); p != want {
				t.Errorf("surveyed %+v, want %+v", p, want)
			}
			continue
		}
		raw, collisions := page.Encode()
		st := page.Status()
		fill := float64(st.Header.Set) / float64(st.Size.Bits)
		collided := float64(st.Collided) / float64(st.Size.Regions)
		if p.State != PageSound || p.Keys != st.Header.Count || int(p.Bytes) != len(raw)+len(collisions) ||
			!near(p.Fill, fill) || !near(p.Collided, collided) || !near(p.Rate, page.FalsePositiveRate()) {
			t.Errorf("surveyed %+v, in the store %+v, %g full, %g collided, rate %g", p, st, fill, collided, page.FalsePositiveRate())
		}
	}
	if !slices.Equal(numbers, pages) {
		t.Errorf("surveyed pages %d, want %d", numbers, pages)
	}
	if got := g.inspector.SurveyTotals(); got != sum {
		t.Errorf("totals %+v, want %+v", got, sum)
	}
}

func numbersTo(n uint32) (pages []uint32) {
	for page := range n {
		pages = append(pages, page)
	}
	return pages
}

// TestSurvey checks that the survey shows what the scrub has read. A wrong page is shown as wrong
// until it is rebuilt.
func TestSurvey(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 16)
	for page, state := range g.states() {
		if state != PageUnknown {
			t.Errorf("page %d is %v before any look", page, state)
		}
	}
	if got := g.inspector.SurveyTotals(); got != (SurveyTotals{Pages: 16}) {
		t.Errorf("totals %+v before any look", got)
	}
	g.record(t, true, add("1", "block", "2"))
	g.scrubAll()
	g.wantSurvey(t, numbersTo(16)...)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	old := snapshot(t, client)
	_, err = g.Record(t.Context(), someActivities(1))
	must(t, err)
	g.scrubAll()
	g.wantSurvey(t, numbersTo(16)...)

	key := func(page int, which string) string { return fmt.Sprintf("fav:{feed/%d}:%s", page, which) }
	for _, c := range []struct {
		name string
		harm func()
		want map[uint32]PageState
	}{
		{"sound", func() {}, nil},
		{"gone", func() { must(t, client.Del(t.Context(), key(3, "bits"), key(3, "regions")).Err()) }, map[uint32]PageState{3: PageMissing}},
		{"half gone", func() { must(t, client.Del(t.Context(), key(4, "regions")).Err()) }, map[uint32]PageState{4: PageDamaged}},
		{"set back", func() {
			for _, which := range []string{"bits", "regions"} {
				must(t, client.Set(t.Context(), key(5, which), old[key(5, which)], 0).Err())
			}
		}, map[uint32]PageState{5: PageBehind}},
		{"swapped", func() {
			must(t, client.Copy(t.Context(), key(1, "bits"), key(2, "bits"), 0, true).Err())
			must(t, client.Copy(t.Context(), key(1, "regions"), key(2, "regions"), 0, true).Err())
		}, map[uint32]PageState{2: PageForeign}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.harm()
			found, _, _ := g.scrubber.peek(numbersTo(16))
			want := make(map[uint32]PageState)
			for page := range uint32(16) {
				want[page] = PageSound
			}
			maps.Copy(want, c.want)
			if got := g.states(); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			if got := g.inspector.SurveyTotals().Faulty; got != len(c.want) {
				t.Errorf("%d pages wrong, want %d", got, len(c.want))
			}
			if failed := g.scrubber.repair(found, pageTimeout, len(found)); failed > 0 {
				t.Errorf("%d pages could not be repaired", failed)
			}
			g.wantSurvey(t, numbersTo(16)...)
		})
	}
	must(t, client.FlushAll(t.Context()).Err())
	g.storage.keyRate /= 1000
	g.scrubAll()
	for _, page := range numbersTo(16) {
		if got := g.states()[page]; got != PageSound {
			t.Errorf("after a flush and a scrub page %d is %v", page, got)
		}
	}
}

// A page that exceeds a lowered rate is overfull. A page of a ledger that was set back is ahead.
func TestSurveyOfOtherFaults(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	ghost, err := g.image(t.Context(), 2, nil, ledger.PageState{Sequence: 41})
	must(t, err)
	_, err = g.store.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{Number: 2}, Page: ghost, Newer: true})
	must(t, err)
	g.scrubber.compare(numbersTo(4), 0, 0)
	if got := g.states(); got[2] != PageAhead || got[1] != PageSound {
		t.Errorf("%v, want page 2 ahead", got)
	}
	g.storage.keyRate /= 1000
	g.scrubber.compare(numbersTo(4), 0, 0)
	if got := g.states(); got[2] != PageAhead || got[1] != PageOverfull || got[3] != PageOverfull {
		t.Errorf("%v, want page 2 ahead, and the others overfull", got)
	}
	g.scrubAll()
	g.wantSurvey(t, numbersTo(4)...)
}

// Dedicated pages come last in the survey, and leave it with the user.
func TestSurveyOfDedicatedPages(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	for _, user := range []string{"7", "8"} {
		must(t, g.applier.dedicate(t.Context(), UserHash(g.storage.identity.Seed, user)))
	}
	g.scrubAll()
	g.wantSurvey(t, 0, 1, 2, 3, ledger.DedicatedPages, ledger.DedicatedPages+1)
	own := 0
	for p := range g.inspector.Survey() {
		if p.Dedicated {
			own++
			if p.Keys != 1 {
				t.Errorf("dedicated page of a user with one activity: %+v", p)
			}
		}
	}
	if own != 2 {
		t.Errorf("%d dedicated pages, want 2", own)
	}
	must(t, g.applier.release(t.Context(), UserHash(g.storage.identity.Seed, "7")))
	g.scrubAll()
	g.wantSurvey(t, 0, 1, 2, 3, ledger.DedicatedPages+1)
	if g := g.survey.chunk(ledger.DedicatedPages / surveyChunk)[0]; g != (SurveyedPage{}) {
		t.Errorf("an observation of a released page is kept: %+v", g)
	}
}

// After a growth the survey no longer has the pages of the old layout.
func TestSurveyAfterGrowth(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	_, err := g.Record(t.Context(), someActivities(0))
	must(t, err)
	g.scrubAll()
	must(t, g.grower.Grow(t.Context(), 8, nil))
	g.scrubAll()
	g.wantSurvey(t, 8, 9, 10, 11, 12, 13, 14, 15)
}

// A survey of very many pages lists each of them, and its caller may stop early.
func TestSurveyOfManyPages(t *testing.T) {
	const pages = 4 * surveyChunk
	g := newRig(t, &favfilter.Memory{}, pages)
	for page := uint32(0); page < pages; page += surveyChunk / 2 {
		g.survey.observe(page, PageSound, favfilter.Status{Header: favfilter.Header{Count: page + 1}, Size: favfilter.Size{Bytes: 80}})
	}
	next := uint32(0)
	for p := range g.inspector.Survey() {
		keys := uint32(0)
		if next%(surveyChunk/2) == 0 {
			keys = next + 1
		}
		if p.Number != next || p.Keys != keys || (p.State == PageSound) != (keys > 0) {
			t.Fatalf("page %d is surveyed as %+v", next, p)
		}
		next++
	}
	if next != pages {
		t.Errorf("%d pages are surveyed, want %d", next, pages)
	}
	for p := range g.inspector.Survey() {
		if p.Number > 2*surveyChunk {
			t.Fatal("the survey continues after break")
		}
		if p.Number == 2*surveyChunk {
			break
		}
	}
}

// A survey is consistent while pages are looked at: it never combines two looks at a page.
func TestSurveyDuringLooks(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	full := favfilter.Status{
		Header: favfilter.Header{Count: 9, Set: 8, Shape: favfilter.Shape{Bits: 8, Hashes: 1}},
		Size:   favfilter.Size{Bits: 8, Regions: 2, Bytes: 77}, Collided: 2,
	}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for i := range 2000 {
				page := []uint32{1, 3, ledger.DedicatedPages}[i%3]
				if i%2 == 0 {
					g.survey.observe(page, PageSound, full)
				} else {
					g.survey.observe(page, PageBehind, favfilter.Status{})
				}
			}
		})
	}
	for range 500 {
		for p := range g.inspector.Survey() {
			whole := p.Keys == 9 && p.Bytes == 77 && p.Fill == 1 && p.Collided == 1 && p.Rate == 1
			if whole != (p.State == PageSound) {
				t.Fatalf("parts of two looks: %+v", p)
			}
		}
		if totals := g.inspector.SurveyTotals(); totals.Keys != 9*(totals.Bytes/77) || totals.Looked > 3 {
			t.Fatalf("totals of parts of looks: %+v", totals)
		}
	}
	writers.Wait()
}

func BenchmarkSurvey(b *testing.B) {
	g := newRig(b, &favfilter.Memory{}, 16384)
	for page := range uint32(16384) {
		g.survey.observe(page, PageSound, favfilter.Status{Header: favfilter.Header{Count: 5}, Size: favfilter.Size{Bytes: 80}})
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range g.inspector.Survey() {
			n++
		}
		if n != 16384 {
			b.Fatal(n)
		}
	}
}
