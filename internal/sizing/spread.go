package sizing

import "math"

// spread is the distribution of keys over places (pages or users), rounded to whole numbers. It is
// approximated as lognormal: few places have most.
type spread struct{ mu, sigma float64 }

// newSpread returns the spread with a mean and a standard deviation of cv times the mean.
func newSpread(mean, cv float64) spread {
	sigma := max(math.Sqrt(math.Log1p(cv*cv)), 1e-6)
	return spread{math.Log(max(mean, 1e-9)) - sigma*sigma/2, sigma}
}

// placed returns the spread over pages with an average number of users each, who have keys with a
// spread of cv. A hash places users, so their number has a Poisson distribution.
func placed(users, keys, cv float64) spread {
	rounding := 1 / max(users*keys, 1e-9)
	return newSpread(users*keys, math.Sqrt((1+cv*cv)/users+rounding))
}

func (s spread) mean() float64 { return math.Exp(s.mu + s.sigma*s.sigma/2) }

// weighted weights each place by its keys: active users ask for more feeds.
func (s spread) weighted() spread { return spread{s.mu + s.sigma*s.sigma, s.sigma} }

// below returns the share of places with fewer keys than x.
func (s spread) below(x float64) float64 {
	return math.Erfc((s.mu-math.Log(x))/s.sigma/math.Sqrt2) / 2
}

// most99 returns the number of keys that 99 % of places do not exceed.
func (s spread) most99() float64 {
	return max(0, math.Ceil(math.Exp(s.mu+s.sigma*math.Sqrt2*math.Erfinv(0.98))-0.5))
}

// over returns the mean of value over all places. It evaluates every number of keys up to 64, then
// numbers a 64th apart.
func (s spread) over(value func(keys float64) float64) float64 {
	const enough, most = 1 - 1e-13, 1e15
	mean, before := 0.0, 0.0
	for keys := 0.0; before < enough && keys < most; {
		width := 1 + math.Floor(keys/64)
		below := s.below(keys + width - 0.5)
		mean += (below - before) * value(keys+math.Floor(width/2))
		keys, before = keys+width, below
	}
	return mean
}
