// Package ratetest says how many false positives a test may find: filters have random seeds, so that
// others are found in each run.
package ratetest

import "gonum.org/v1/gonum/stat/distuv"

// Most is the number that a count of independent rare events exceeds less than once in 1e9 runs, for
// the count's mean: of Poisson's distribution, as a normal one says far too little of small means.
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
