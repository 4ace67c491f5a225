package sizing

import "math"

// spread is how many keys there are in a place: a probability distribution over whole numbers.
type spread interface {
	mean() float64
	// below is the probability of n keys or fewer.
	below(n float64) float64
	// weighted is the spread as those see it who look as often as they have keys: of places, each counted as
	// often as it has keys.
	weighted() spread
}

// placed is the spread over places that get so many users each on average, who have keys each on average, with
// a standard deviation of cv times that. Hashing makes the number of users of a place Poisson's. The sum of what
// they have is taken for a gamma distribution of the same mean, users*E[X], and variance, users*E[X^2].
func placed(users, keys, cv float64) gamma {
	scale := 1 + keys*(1+cv*cv) // 1: of X itself, which is a whole number
	return gamma{shape: users * keys / scale, scale: scale}
}

// single is the spread over users who have keys each on average, with a standard deviation of cv times that: it
// is taken for lognormal, so few have nothing, and a few have a lot.
func single(keys, cv float64) lognormal {
	sigma := math.Sqrt(math.Log1p(cv * cv))
	return lognormal{mu: math.Log(keys) - sigma*sigma/2, sigma: sigma}
}

// quantile is the least n that all but a share of 1-q have at most.
func quantile(s spread, q float64) float64 {
	low, high := -1.0, 0.0
	for s.below(high) < q {
		low, high = high, 2*high+1
	}
	for high-low > 1 {
		if mid := math.Floor((low + high) / 2); s.below(mid) < q {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

type lognormal struct{ mu, sigma float64 }

func (l lognormal) mean() float64 { return math.Exp(l.mu + l.sigma*l.sigma/2) }

//nolint:ireturn // there are two kinds
func (l lognormal) weighted() spread { return lognormal{l.mu + l.sigma*l.sigma, l.sigma} }

func (l lognormal) below(n float64) float64 {
	from := math.Log(n+0.5) - l.mu
	if l.sigma == 0 {
		if from < 0 {
			return 0
		}
		return 1
	}
	return math.Erfc(-from/l.sigma/math.Sqrt2) / 2
}

type gamma struct{ shape, scale float64 }

func (g gamma) mean() float64 { return g.shape * g.scale }

//nolint:ireturn // there are two kinds
func (g gamma) weighted() spread { return gamma{g.shape + 1, g.scale} }

func (g gamma) below(n float64) float64 {
	if g.shape == 0 {
		return 1
	}
	return gammaBelow(g.shape, (n+0.5)/g.scale)
}

// gammaBelow is the regularized lower incomplete gamma function P(a, x), to some 1e-12: by its series below a+1, by
// Lentz's continued fraction above (Press et al., Numerical Recipes, 6.2).
func gammaBelow(a, x float64) float64 {
	const eps, tiny = 1e-15, 1e-300
	if x <= 0 {
		return 0
	}
	front := gammaFront(a, x)
	if front == 0 { // far out on either side
		if x < a {
			return 0
		}
		return 1
	}
	if x < a+1 {
		term, sum := 1.0, 1.0
		for n := 1.0; term > sum*eps; n++ {
			term *= x / (a + n)
			sum += term
		}
		return min(1, front*sum)
	}
	b := x + 1 - a
	c, d := 1/tiny, 1/b
	h := d
	for n := 1.0; ; n++ {
		an := -n * (n - a)
		b += 2
		d = 1 / orTiny(an*d+b, tiny)
		c = orTiny(b+an/c, tiny)
		h *= d * c
		if math.Abs(d*c-1) < eps || n > 1e7 {
			break
		}
	}
	return max(0, 1-front*a*h)
}

func orTiny(x, tiny float64) float64 {
	if math.Abs(x) < tiny {
		return tiny
	}
	return x
}

// gammaFront is x^a e^-x / Gamma(a+1), also where a is large and its parts would overflow or cancel (Loader, 2000).
func gammaFront(a, x float64) float64 {
	if a < 20 {
		lgamma, _ := math.Lgamma(a + 1)
		return math.Exp(a*math.Log(x) - x - lgamma)
	}
	r := (x - a) / a
	deviance := r - math.Log1p(r)
	if math.Abs(r) < 1e-3 { // or the difference would cancel
		deviance = r * r * (1./2 - r*(1./3-r*(1./4-r*(1./5-r/6))))
	}
	stirling := 1/(12*a) - 1/(360*a*a*a) + 1/(1260*math.Pow(a, 5))
	return math.Exp(-a*deviance-stirling) / math.Sqrt(2*math.Pi*a)
}
