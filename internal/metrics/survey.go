package metrics

import (
	"iter"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedfilter/feedfilter/activity/pages"
)

const (
	// manyPages is the number of pages above which not every scrape surveys them.
	manyPages = 1 << 18
	// surveyKept is how long the last survey is then used.
	surveyKept = 30 * time.Second
)

// spread is a histogram of a property of all pages.
type spread struct {
	family
	of     func(pages.SurveyedPage) float64
	bounds []float64
}

// Survey adds histograms of the fill, size and precision of pages at their last check. Their
// buckets may also go down.
func (r *Registry) Survey(all func() iter.Seq[pages.SurveyedPage]) {
	c := &source{}
	rates := []float64{1e-7, 1e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2}
	spreads := []spread{
		{c.histogram("feedfilter_page_keys", "Keys in a page.", "use"),
			func(p pages.SurveyedPage) float64 { return float64(p.Keys) }, []float64{0, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 65536,
				1 << 20}},
		{c.histogram("feedfilter_page_size_bytes", "Size of a page in the page store.", "use"),
			func(p pages.SurveyedPage) float64 { return float64(p.Bytes) }, []float64{512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
				1 << 18, 1 << 20}},
		{c.histogram("feedfilter_page_fill_ratio", "Share of bits that are set.", "use"),
			func(p pages.SurveyedPage) float64 { return float64(p.Fill) }, []float64{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6}},
		{c.histogram("feedfilter_page_collided_ratio", "Share of regions whose collision bit is set.", "use"),
			func(p pages.SurveyedPage) float64 { return float64(p.Collided) }, []float64{0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5}},
		{c.histogram("feedfilter_page_false_positive_ratio", "False-positive rate of one key in a page.", "use"),
			func(p pages.SurveyedPage) float64 { return float64(p.Rate) }, rates},
	}
	s := &survey{all: all, spreads: spreads}
	c.collect = func(to sink) {
		for _, m := range s.metrics(time.Now()) {
			to <- m
		}
	}
	r.registry.MustRegister(c)
}

// survey holds the last survey of all pages.
type survey struct {
	all     func() iter.Seq[pages.SurveyedPage]
	spreads []spread

	mu   sync.Mutex
	last []prometheus.Metric // of the last survey; sent again until then
	then time.Time
}

func (s *survey) metrics(now time.Time) []prometheus.Metric {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.then) {
		return s.last
	}
	var tallies [2][]tally // of shared and dedicated pages
	for use := range tallies {
		tallies[use] = make([]tally, len(s.spreads))
		for i, sp := range s.spreads {
			tallies[use][i].buckets = make([]uint64, len(sp.bounds))
		}
	}
	n := 0
	for p := range s.all() {
		n++
		if !stands(p.State) {
			continue
		}
		use := 0
		if p.Dedicated {
			use = 1
		}
		for i, sp := range s.spreads {
			tallies[use][i].add(sp.of(p), sp.bounds)
		}
	}
	var all []prometheus.Metric
	for use, name := range [...]string{"shared", "own"} {
		for i, sp := range s.spreads {
			all = append(all, tallies[use][i].metric(sp, name))
		}
	}
	if n > manyPages {
		s.last, s.then = all, now.Add(surveyKept)
	}
	return all
}

// tally counts each value in the first bucket that it fits.
type tally struct {
	buckets []uint64
	count   uint64
	sum     float64
}

func (t *tally) add(value float64, bounds []float64) {
	t.count++
	t.sum += value
	for i, most := range bounds {
		if value <= most {
			t.buckets[i]++
			return
		}
	}
}

func (t *tally) metric(s spread, use string) prometheus.Metric { //nolint:ireturn // what a collector sends
	cumulative := make(map[float64]uint64, len(s.bounds))
	n := uint64(0)
	for i, most := range s.bounds {
		n += t.buckets[i]
		cumulative[most] = n
	}
	return prometheus.MustNewConstHistogram(s.desc, t.count, t.sum, cumulative, use)
}

// stands reports whether the content of a page is known.
func stands(s pages.PageState) bool {
	return s != pages.PageUnknown && s != pages.PageUnused && s != pages.PageMissing && s != pages.PageDamaged
}
