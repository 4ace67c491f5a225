package ratetest

import "testing"

func TestMost(t *testing.T) {
	// Exact: P(X > n) is below 1e-9, and P(X > n-1) is not.
	for _, c := range []struct {
		mean float64
		want int
	}{{0, 0}, {1e-10, 0}, {1e-5, 1}, {0.1, 6}, {1, 11}, {25, 60}, {1e4, 10_606}} {
		if got := Most(c.mean); got != c.want {
			t.Errorf("mean %g: %d, want %d", c.mean, got, c.want)
		}
	}
}
