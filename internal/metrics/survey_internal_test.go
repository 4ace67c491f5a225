package metrics

import (
	"testing"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// TestSurvey checks that the histograms have the counts of the survey, separately for shared and
// dedicated pages.
func TestSurvey(t *testing.T) {
	r := New(Settings{})
	figures := func(n uint64) pages.Figures {
		of := func(n uint64) pages.Histogram {
			return pages.Histogram{Bounds: []float64{1, 2}, Counts: []uint64{n, 10 * n}, Count: 12 * n, Sum: float64(100 * n)}
		}
		return pages.Figures{Keys: of(n), Bytes: of(n + 1), Fill: of(n + 2), Collided: of(n + 3), Rate: of(n + 4)}
	}
	r.Survey(func() *pages.Survey { return &pages.Survey{Shared: figures(1), Dedicated: figures(6)} })
	families, err := r.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]uint64)
	for i, name := range []string{"keys", "size_bytes", "fill_ratio", "collided_ratio", "false_positive_ratio"} {
		want["feedfilter_page_"+name+" shared"], want["feedfilter_page_"+name+" dedicated"] = uint64(1+i), uint64(6+i)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			if h == nil || len(m.GetLabel()) != 1 || m.GetLabel()[0].GetName() != "use" {
				continue
			}
			key := f.GetName() + " " + m.GetLabel()[0].GetValue()
			n := want[key]
			b := h.GetBucket()
			if n == 0 || len(b) != 2 || b[0].GetUpperBound() != 1 || b[0].GetCumulativeCount() != n || b[1].GetCumulativeCount() != 11*n ||
				h.GetSampleCount() != 12*n || h.GetSampleSum() != float64(100*n) {
				t.Errorf("%s: %v, want %d in the first bucket", key, h, n)
			}
			delete(want, key)
		}
	}
	if len(want) > 0 {
		t.Errorf("no histograms %v", want)
	}
}
