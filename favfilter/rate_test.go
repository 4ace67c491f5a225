package favfilter_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Pages filled to their limit have the rate that their number of set bits implies, at every size.
// Each case expects 1,000 false positives, so one standard deviation is 3.2 %.
func TestFalsePositiveRateAtTheLimit(t *testing.T) {
	for _, rate := range []float64{0.00025, 0.001, 0.01} {
		for _, capacity := range []int{109, 300, 1000, 5000, 20_000} {
			t.Run(fmt.Sprintf("rate %g, %d keys", rate, capacity), func(t *testing.T) {
				t.Parallel()
				s := shapeFor(t, capacity, rate)
				rng := rand.New(rand.NewPCG(uint64(capacity), math.Float64bits(rate)))
				got := measureRate(t, rng, s, rate, 1000)
				z := (got.rate - got.formula) / got.deviation
				t.Logf("%6d bits: %.3g, %+.1f %% of what the set bits say, z = %.1f", s.Bits, got.rate, 100*(got.rate/got.formula-1), z)
				if math.Abs(z) > 4 {
					t.Errorf("false-positive rate %.4g, the set bits say %.4g", got.rate, got.formula)
				}
			})
		}
	}
}

// A weight is worth as many hash functions, up to the largest of both: a key of weight e is
// reported if k + e bits are set. Some pages are fuller than their limit, because few keys would be
// reported otherwise.
func TestFalsePositiveRateOfWeights(t *testing.T) {
	const probes = 200_000
	for _, c := range []struct {
		k, extra uint8
		fill     float64
	}{{6, 4, 0.46}, {8, 13, 0.7}, {10, 6, 0.65}, {1, 16, 0.7}, {favfilter.MaxHashes, favfilter.MaxExtra, 0.9}} {
		for _, bits := range []uint32{4000, 80_000} {
			t.Run(fmt.Sprintf("k=%d,extra=%d,bits=%d", c.k, c.extra, bits), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(bits), uint64(c.k)))
				found, want := 0, 0.0
				const pages = 8
				for range pages {
					page := emptyPage(t, favfilter.Shape{Bits: bits, Hashes: c.k, Region: favfilter.DefaultRegion})
					for n := uint8(0); float64(page.Header().Set) < c.fill*float64(bits); n++ {
						page.Insert(weighted(randomHash(rng), n%(favfilter.MaxExtra+1)))
					}
					want += probes * math.Pow(float64(page.Header().Set)/float64(bits), float64(c.k+c.extra))
					for range probes {
						if page.Contains(weighted(randomHash(rng), c.extra)) {
							found++
						}
					}
				}
				z := (float64(found) - want) / math.Sqrt(want)
				t.Logf("%d found, %.0f expected, z = %.1f", found, want, z)
				if math.Abs(z) > 4 || want < 500 {
					t.Errorf("%d of %d absent keys are reported, the set bits say %.0f", found, probes*pages, want)
				}
			})
		}
	}
}

type measured struct {
	rate      float64 // of absent keys reported
	deviation float64 // standard deviation of rate, binomial
	formula   float64 // mean of Page.FalsePositiveRate
}

// measureRate fills pages to the limit of rate. It looks up enough absent keys to expect the stated
// number of false positives.
func measureRate(t fataler, rng *rand.Rand, s favfilter.Shape, rate float64, positives int) measured {
	t.Helper()
	pages := max(4, 20_000/s.Capacity(rate))
	probes := int(float64(positives)/rate) / pages
	m, found := measured{}, 0
	for range pages {
		page := emptyPage(t, s)
		fill(rng, page, s.Limit(rate))
		m.formula += page.FalsePositiveRate() / float64(pages)
		for range probes {
			if page.Contains(randomHash(rng)) {
				found++
			}
		}
	}
	n := float64(pages * probes)
	m.rate = float64(found) / n
	m.deviation = math.Sqrt(m.formula * (1 - m.formula) / n)
	return m
}
