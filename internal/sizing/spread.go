package sizing

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// spread is the distribution of keys over places (pages or users), rounded to whole numbers.
type spread interface {
	Mean() float64
	CDF(x float64) float64
}

// placed returns the spread over pages with an average number of users each. A hash places users,
// so their number has a Poisson distribution; keys per user have a standard deviation of cv times
// the mean. The sum is approximated by a gamma distribution with the same mean and variance.
func placed(users, keys, cv float64) distuv.Gamma {
	keys = max(keys, 1e-9)
	scale := 1 + keys*(1+cv*cv) // 1: of rounding
	return distuv.Gamma{Alpha: users * keys / scale, Beta: 1 / scale}
}

// single returns the spread over users, with a standard deviation of cv times the mean. It is
// approximated as lognormal: few users have most.
func single(keys, cv float64) distuv.LogNormal {
	sigma := max(math.Sqrt(math.Log1p(cv*cv)), 1e-6)
	return distuv.LogNormal{Mu: math.Log(max(keys, 1e-9)) - sigma*sigma/2, Sigma: sigma}
}

// weighted weights each place by its keys: active users ask for more feeds.
func weighted(s spread) spread { //nolint:ireturn // two types
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

// quantile returns the smallest number that a share of at least q of all places do not exceed.
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

// over returns the mean of value over all places. It evaluates every number of keys up to 64, then
// numbers a 64th apart.
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
