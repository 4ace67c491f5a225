package migrate

import (
	"math"
	"testing"
)

// The ends of Wilson's interval are the rates p at which what was seen is just z standard
// deviations away: (p - seen)^2 = z^2 p(1-p)/n.
func TestRate(t *testing.T) {
	for _, c := range []Compared{{Clean: 1000}, {Clean: 1000, FalsePositives: 1}, {Clean: 50, FalsePositives: 25}, {Clean: 9, FalsePositives: 9}} {
		c.rate()
		seen := float64(c.FalsePositives) / float64(c.Clean)
		if c.Rate != seen || c.RateLow > seen || c.RateHigh < seen {
			t.Errorf("%+v", c)
		}
		for _, p := range []float64{c.RateLow, c.RateHigh} {
			if p == seen { // an end of 0 to 1
				continue
			}
			if z := math.Abs(p-seen) / math.Sqrt(p*(1-p)/float64(c.Clean)); math.Abs(z-2.5758) > 1e-3 {
				t.Errorf("%d of %d: %v is %v standard deviations away, want 2.5758", c.FalsePositives, c.Clean, p, z)
			}
		}
	}
}
