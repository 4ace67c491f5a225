// Package ratetest computes how many false positives a test may find. Filters have random seeds, so
// each run finds others.
package ratetest

import "gonum.org/v1/gonum/stat/distuv"

// Most returns the number that a count of independent rare events with this mean exceeds less than
// once in 1e9 runs. It uses Poisson's distribution: a normal distribution gives far too low a
// number for small means.
func Most(mean float64) int {
	if mean <= 0 {
		return 0
	}
	n := 0
	for distribution := (distuv.Poisson{Lambda: mean}); distribution.Survival(float64(n)) >= 1e-9; {
		n++
	}
	return n
}
