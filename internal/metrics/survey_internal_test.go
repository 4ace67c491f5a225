package metrics

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// TestSurvey checks that pages are counted in the right buckets, separately for shared and
// dedicated pages.
func TestSurvey(t *testing.T) {
	r := New(Settings{})
	all := []pages.SurveyedPage{
		{State: pages.PageMissing, Keys: 7}, {State: pages.PageUnknown}, {State: pages.PageUnused}, {State: pages.PageDamaged},
		{State: pages.PageSound, Keys: 100, Bytes: 600, Fill: 0.04, Collided: 0.25, Rate: 9e-6},
		{State: pages.PageBehind, Keys: 5000, Bytes: 9000, Fill: 0.42, Collided: 0.009, Rate: 3e-4},
		{State: pages.PageOverfull, Dedicated: true, Keys: 1e6, Bytes: 4e6, Fill: 0.7, Collided: 0.6, Rate: 0.5},
	}
	r.Survey(func() iter.Seq[pages.SurveyedPage] { return slices.Values(all) })
	families, err := r.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	type least struct {
		name, use string
		bound     float64
	}
	want := map[least]uint64{
		{"feedfilter_page_keys", "shared", 64}: 0, {"feedfilter_page_keys", "shared", 128}: 1, {"feedfilter_page_keys", "shared", 4096}: 1,
		{"feedfilter_page_keys", "shared", 8192}: 2, {"feedfilter_page_keys", "own", 65536}: 0, {"feedfilter_page_keys", "own", 1 << 20}: 1,
		{"feedfilter_page_size_bytes", "shared", 1024}: 1, {"feedfilter_page_size_bytes", "shared", 16384}: 2, {"feedfilter_page_size_bytes", "own", 1 << 20}: 0,
		{"feedfilter_page_fill_ratio", "shared", 0.05}: 1, {"feedfilter_page_fill_ratio", "shared", 0.4}: 1, {"feedfilter_page_fill_ratio", "shared", 0.45}: 2, {"feedfilter_page_fill_ratio", "own", 0.6}: 0,
		{"feedfilter_page_collided_ratio", "shared", 0.01}: 1, {"feedfilter_page_collided_ratio", "shared", 0.3}: 2, {"feedfilter_page_collided_ratio", "own", 0.5}: 0,
		{"feedfilter_page_false_positive_ratio", "shared", 1e-5}: 1, {"feedfilter_page_false_positive_ratio", "shared", 5e-4}: 2, {"feedfilter_page_false_positive_ratio", "own", 1e-2}: 0,
	}
	counts := map[string]uint64{"shared": 2, "own": 1}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			if h == nil || len(m.GetLabel()) != 1 || m.GetLabel()[0].GetName() != "use" {
				continue
			}
			use := m.GetLabel()[0].GetValue()
			if h.GetSampleCount() != counts[use] {
				t.Errorf("%s has %d pages %s", f.GetName(), h.GetSampleCount(), use)
			}
			if f.GetName() == "feedfilter_page_keys" && use == "shared" && h.GetSampleSum() != 5100 {
				t.Errorf("%v keys", h.GetSampleSum())
			}
			for _, b := range h.GetBucket() {
				key := least{f.GetName(), use, b.GetUpperBound()}
				if n, ok := want[key]; ok && n != b.GetCumulativeCount() {
					t.Errorf("%v: %d, want %d", key, b.GetCumulativeCount(), n)
				}
				delete(want, key)
			}
		}
	}
	for key := range want {
		t.Errorf("no bucket %v", key)
	}
}

// TestSurveyKept checks that few pages are surveyed at each scrape, and many pages at most every 30
// seconds.
func TestSurveyKept(t *testing.T) {
	n, looks := 10, 0
	s := &survey{all: func() iter.Seq[pages.SurveyedPage] {
		looks++
		return func(yield func(pages.SurveyedPage) bool) {
			for range n {
				if !yield(pages.SurveyedPage{State: pages.PageSound}) {
					return
				}
			}
		}
	}}
	now := time.Unix(0, 0)
	s.metrics(now)
	s.metrics(now)
	if looks != 2 {
		t.Errorf("%d looks at few pages, want 2", looks)
	}
	n, looks = manyPages+1, 0
	s.metrics(now)
	s.metrics(now.Add(surveyKept - 1))
	if looks != 1 {
		t.Errorf("%d looks at many pages, want 1", looks)
	}
	s.metrics(now.Add(surveyKept))
	if looks != 2 {
		t.Errorf("%d looks after a while, want 2", looks)
	}
}
