package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// Survey adds histograms of the fill, size and precision of pages at their last check. Their
// buckets may also go down.
func (r *Registry) Survey(survey func() *pages.Survey) {
	r.add(func(to sink) {
		s := survey()
		for use, f := range map[string]*pages.Figures{"shared": &s.Shared, "dedicated": &s.Dedicated} {
			histogram(to, "feedfilter_page_keys", "Keys in a page.", &f.Keys, use)
			histogram(to, "feedfilter_page_size_bytes",
				"Size of a page in the page store.", &f.Bytes, use)
			histogram(to, "feedfilter_page_fill_ratio", "Share of bits that are set.", &f.Fill, use)
			histogram(to, "feedfilter_page_collided_ratio",
				"Share of regions whose collision bit is set.", &f.Collided, use)
			histogram(to, "feedfilter_page_false_positive_ratio",
				"False-positive rate of one key in a page.", &f.Rate, use)
		}
	})
}

func histogram(to sink, name, help string, h *pages.Histogram, use string) {
	upTo, n := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		upTo[bound] = n
	}
	to <- prometheus.MustNewConstHistogram(describe(name, help, "use", use), h.Count, h.Sum, upTo)
}
