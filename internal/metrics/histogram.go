package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Histogram is what a histogram has counted at one time, in its classic buckets.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets []Bucket // in ascending order
}

// Bucket counts values of at most Most.
type Bucket struct {
	Most  float64
	Count uint64
}

// add adds what another histogram with the same buckets has counted.
func (h *Histogram) add(of prometheus.Histogram) {
	var m dto.Metric
	if of.Write(&m) != nil {
		return // never happens: the labels were checked when the histogram was made
	}
	h.Count += m.GetHistogram().GetSampleCount()
	h.Sum += m.GetHistogram().GetSampleSum()
	for i, b := range m.GetHistogram().GetBucket() {
		if i == len(h.Buckets) {
			h.Buckets = append(h.Buckets, Bucket{Most: b.GetUpperBound()})
		}
		h.Buckets[i].Count += b.GetCumulativeCount()
	}
}

// Quantile returns the value that a share of the values counted since an earlier time are below;
// NaN without values. Within a bucket it assumes that values are spread evenly. It is at most the
// end of the last bucket.
func (h *Histogram) Quantile(share float64, earlier *Histogram) float64 {
	total := h.Count - earlier.Count
	if total == 0 {
		return math.NaN()
	}
	rank, least, below := share*float64(total), 0.0, 0.0
	for i, b := range h.Buckets {
		upTo := float64(b.Count - earlier.Buckets[i].Count)
		if upTo >= rank && upTo > below {
			return least + (b.Most-least)*(rank-below)/(upTo-below)
		}
		least, below = b.Most, upTo
	}
	return least
}
