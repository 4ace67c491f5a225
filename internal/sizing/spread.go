package sizing

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// spread is the distribution of the number of keys of a place. Its numbers are rounded.
type spread interface {
	Mean() float64
	CDF(x float64) float64
}

// placed returns the distribution of the keys of a page, with that many users on average. A hash
// puts users on pages, so the number of users has Poisson's distribution. The keys of a user have a
// standard deviation of cv times their mean. The sum is approximated by a gamma distribution of the
// same mean and variance.
func placed(users, keys, cv float64) distuv.Gamma {
	keys = max(keys, 1e-9)
	scale := 1 + keys*(1+cv*cv) // 1: of rounding
	return distuv.Gamma{Alpha: users * keys / scale, Beta: 1 / scale}
}

// single is the spread over users, with a standard deviation of cv times the mean. It is
// approximated by a lognormal distribution, so a few users have a lot.
func single(keys, cv float64) distuv.LogNormal {
	sigma := max(math.Sqrt(math.Log1p(cv*cv)), 1e-6)
	return distuv.LogNormal{Mu: math.Log(max(keys, 1e-9)) - sigma*sigma/2, Sigma: sigma}
}

// weighted counts each place as often as it has keys, because a user sends as many feed checks as
// the user is active.
func weighted(s spread) spread { //nolint:ireturn // there are two kinds
	switch s := s.(type) {
	case distuv.Gamma:
		s.Alpha++
		return s
	case distuv.LogNormal:
		s.Mu += s.Sigma * s.Sigma
		return s
	}
	return s
}

// quantile is the least number that all places but a share of 1-q have at most.
func quantile(s spread, q float64) float64 {
	low, high := -1.0, 0.0
	for s.CDF(high+0.5) < q {
		low, high = high, 2*high+1
	}
	for high-low > 1 {
		if mid := math.Floor((low + high) / 2); s.CDF(mid+0.5) < q {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// over is the mean of value, a function of a place's keys: every number up to 64, then numbers that
// are a 64th apart.
func over(s spread, value func(keys float64) float64) float64 {
	const enough, most = 1 - 1e-13, 1e15
	mean, before := 0.0, 0.0
	for keys := 0.0; before < enough && keys < most; {
		width := 1 + math.Floor(keys/64)
		below := s.CDF(keys + width - 0.5)
		mean += (below - before) * value(keys+math.Floor(width/2))
		keys, before = keys+width, below
	}
	return mean
}
