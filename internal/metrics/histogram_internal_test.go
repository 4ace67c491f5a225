package metrics

import (
	"math"
	"testing"
	"time"
)

// A quantile is of the values since an earlier time, from all routes, and within its bucket.
func TestQuantile(t *testing.T) {
	q := New(Settings{}).Requests()
	a, b := q.Route("/a", "POST"), q.Route("/b", "POST")
	none := Durations(a, b)
	if got := none.Quantile(0.5, &none); !math.IsNaN(got) {
		t.Errorf("without values: %g", got)
	}
	for range 1000 {
		a.Done(200, 3*time.Second) // before
	}
	before := Durations(a, b)
	for i := range 1000 {
		took := time.Duration(i+1) * 100 * time.Microsecond // up to 100 ms
		[]*Route{a, b}[i%2].Done(200+200*(i%2), took)
	}
	now := Durations(a, b)
	// Within each bucket the values are spread evenly.
	for share, want := range map[float64]float64{0.001: 1e-4, 0.1: 0.01, 0.5: 0.05, 0.75: 0.075, 0.99: 0.099, 1: 0.1} {
		if got := now.Quantile(share, &before); math.Abs(got/want-1) > 0.01 {
			t.Errorf("quantile %g: %g s, want %g", share, got, want)
		}
	}
	if got := now.Quantile(0.5, &none); got < 0.0999 || got > 2.5 {
		t.Errorf("with the earlier values, half took up to %g s", got)
	}
	if now.Count != 2000 || before.Count != 1000 || math.Abs(now.Sum-before.Sum-50.05) > 1e-6 {
		t.Errorf("%d values in all, %d before, sums %g and %g", now.Count, before.Count, now.Sum, before.Sum)
	}
	a.Done(200, time.Hour)
	last := Durations(a, b)
	if got := last.Quantile(0.5, &now); got != 10 {
		t.Errorf("an hour counts as %g s, want the end of the last bucket", got)
	}
}
