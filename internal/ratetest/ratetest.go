// Package ratetest computes how many false positives a test may find. Filters have random seeds, so
// each run finds others.
package ratetest

import "math"

// Most returns the number that a count of independent rare events with this mean exceeds less than
// once in 1e9 runs. It uses Poisson's distribution: a normal distribution gives far too low a
// number for small means.
func Most(mean float64) int {
	if mean <= 0 {
		return 0
	}
	n := int(mean) // a count exceeds fewer in far more runs
	for exceeds(mean, n) >= 1e-9 {
		n++
	}
	return n
}

// exceeds returns the probability of a count above n, for n of the mean or more.
func exceeds(mean float64, n int) (p float64) {
	for k := float64(n + 1); ; k++ {
		logFactorial, _ := math.Lgamma(k + 1)
		next := math.Exp(k*math.Log(mean) - mean - logFactorial)
		if p += next; next < 1e-15 {
			return p
		}
	}
}
