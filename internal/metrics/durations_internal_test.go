package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestDurationsAreNeverReset checks that a histogram keeps its counts for any range of durations.
func TestDurationsAreNeverReset(t *testing.T) {
	o := durations("test_seconds", "Durations.")
	if o.NativeHistogramMinResetDuration != 0 {
		t.Errorf("reset after %v", o.NativeHistogramMinResetDuration)
	}
	h := prometheus.NewHistogram(o)
	const n = 1000
	for i, seconds := 0, 1e-6; i < n; i, seconds = i+1, seconds*1.02 { // up to six minutes
		h.Observe(seconds)
	}
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	if got := m.GetHistogram(); got.GetSampleCount() != n || len(got.GetPositiveDelta()) > 160 || len(got.GetPositiveDelta()) == 0 {
		t.Errorf("%d of %d durations in %d buckets", got.GetSampleCount(), n, len(got.GetPositiveDelta()))
	}
}
