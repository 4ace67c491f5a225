package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// Survey adds histograms of the fill, size and precision of pages at their last check. Their
// buckets may also go down.
func (r *Registry) Survey(survey func() *pages.Survey) {
	c := &source{}
	figures := []struct {
		family
		of func(*pages.Figures) *pages.Histogram
	}{
		{c.histogram("feedfilter_page_keys", "Keys in a page.", "use"), func(f *pages.Figures) *pages.Histogram { return &f.Keys }},
		{c.histogram("feedfilter_page_size_bytes", "Size of a page in the page store.", "use"),
			func(f *pages.Figures) *pages.Histogram { return &f.Bytes }},
		{c.histogram("feedfilter_page_fill_ratio", "Share of bits that are set.", "use"),
			func(f *pages.Figures) *pages.Histogram { return &f.Fill }},
		{c.histogram("feedfilter_page_collided_ratio", "Share of regions whose collision bit is set.", "use"),
			func(f *pages.Figures) *pages.Histogram { return &f.Collided }},
		{c.histogram("feedfilter_page_false_positive_ratio", "False-positive rate of one key in a page.", "use"),
			func(f *pages.Figures) *pages.Histogram { return &f.Rate }},
	}
	c.collect = func(to sink) {
		s := survey()
		for _, figure := range figures {
			to <- histogramOf(figure.family, figure.of(&s.Shared), "shared")
			to <- histogramOf(figure.family, figure.of(&s.Dedicated), "dedicated")
		}
	}
	r.registry.MustRegister(c)
}

func histogramOf(f family, h *pages.Histogram, use string) prometheus.Metric { //nolint:ireturn // what a collector sends
	upTo, n := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		upTo[bound] = n
	}
	return prometheus.MustNewConstHistogram(f.desc, h.Count, h.Sum, upTo, use)
}
