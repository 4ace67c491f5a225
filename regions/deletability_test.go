package regions_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/regions"
)

// simulate fills filters with random keys. It returns the share of keys that have at least 0, 1, 2,
// ... k clearable bits, by index.
func simulate(rng *rand.Rand, filters int, g regions.Geometry, keys int) []float64 {
	share := make([]float64, g.K+1)
	all := make([][]uint32, keys)
	scratch := make([]uint32, 0, g.K)
	for range filters {
		p := newPair(g.Bits, g.Region)
		for i := range all {
			all[i] = randomKey(rng, all[i][:0], g)
			p.Insert(all[i])
		}
		for _, key := range all {
			for least := range len(p.Clearable(scratch, key)) + 1 {
				share[least] += 1 / float64(filters*keys)
			}
		}
	}
	return share
}

// randomKey returns the distinct positions of a key, in the memory of key.
func randomKey(rng *rand.Rand, key []uint32, g regions.Geometry) []uint32 {
	for len(key) < g.K {
		if bit := rng.Uint32N(g.Bits); !slices.Contains(key, bit) {
			key = append(key, bit)
		}
	}
	return key
}

// TestDeletableAgreesWithSimulation compares the formula with filters that are filled key by key,
// for each number of bits that a delete may ask for. Beyond what the comment of Deletable says, the
// bounds leave room for noise: there are a twentieth as many filters. The seeds are fixed.
func TestDeletableAgreesWithSimulation(t *testing.T) {
	for bits, bound := range map[uint32]float64{2_000: 0.02, 16_000: 0.015} {
		for _, k := range []int{1, 4, 8, 10} {
			t.Run(fmt.Sprintf("bits=%d,k=%d", bits, k), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(bits), uint64(k)))
				worst := 0.0
				for _, load := range []float64{0.1, 0.35, math.Ln2, 1} {
					for _, size := range []regions.Size{1, 4, 10} {
						g := regions.Geometry{Bits: bits, K: k, Region: size}
						keys := int(load * float64(bits) / float64(k))
						got := simulate(rng, 960_000/int(bits), g, keys)
						for least := 1; least <= k; least++ {
							want := g.Deletable(keys, least)
							worst = max(worst, math.Abs(got[least]-want))
							if math.Abs(got[least]-want) > bound {
								t.Errorf("%+v, %d keys, %d bits at least: simulated %.4f, formula %.4f",
									g, keys, least, got[least], want)
							}
						}
					}
				}
				t.Logf("largest difference: %.4f", worst)
			})
		}
	}
}

// The share of keys with a clearable bit, by region size, as the design measured it at full load
// with k = 10.
func TestDeletableAtFullLoad(t *testing.T) {
	for size, want := range map[regions.Size]float64{20: 0.19, 10: 0.69, 5: 0.95, 3: 0.987} {
		g := regions.Geometry{Bits: 1 << 20, K: 10, Region: size}
		const full = 72_682 // ln 2 times the bits, over k
		if got := g.Deletable(full, 1); math.Abs(got-want) > 0.005 {
			t.Errorf("regions of %d bits: %.4f deletable, want %.3f", size, got, want)
		}
	}
}

// TestDeletableForManyBits compares the share with the limits of its comment.
func TestDeletableForManyBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGeometry(t)
		g.Bits = 1 << 29
		keys := int(rapid.Float64Range(0.01, 2).Draw(t, "load") * float64(g.Bits) / float64(g.K))
		load := g.Load(keys)
		q := math.Exp(-load) * math.Pow(math.Exp(-load)*(1+load), float64(g.Region-1))
		if got, want := g.Deletable(keys, 1), 1-math.Pow(1-q, float64(g.K)); math.Abs(got-want) > 1e-5 {
			t.Fatalf("one bit: %v, want %v", got, want)
		}
		if got, want := g.Deletable(keys, g.K), math.Pow(q, float64(g.K)); math.Abs(got-want) > 1e-5 {
			t.Fatalf("all bits: %v, want %v", got, want)
		}
	})
}

func drawGeometry(t *rapid.T) regions.Geometry {
	return regions.Geometry{
		Bits:   rapid.Uint32Range(64, 1<<20).Draw(t, "bits"),
		K:      rapid.IntRange(1, 31).Draw(t, "k"),
		Region: regions.Size(rapid.Uint32Range(1, 64).Draw(t, "region")),
	}
}

// Shares that can be counted by hand.
func TestDeletableByHand(t *testing.T) {
	for name, c := range map[string]struct {
		g           regions.Geometry
		keys, least int
		want        float64
	}{
		"no keys":                          {regions.Geometry{Bits: 100, K: 10, Region: 4}, 0, 3, 1},
		"one key, which hits no other":     {regions.Geometry{Bits: 100, K: 10, Region: 4}, 1, 10, 1},
		"far too full":                     {regions.Geometry{Bits: 100, K: 10, Region: 4}, 10_000, 1, 0},
		"the other key hits elsewhere":     {regions.Geometry{Bits: 4, K: 1, Region: 1}, 2, 1, 3. / 4},
		"both others do":                   {regions.Geometry{Bits: 4, K: 1, Region: 1}, 3, 1, 9. / 16},
		"one bit of two":                   {regions.Geometry{Bits: 4, K: 2, Region: 1}, 2, 1, 3. / 4},
		"both bits":                        {regions.Geometry{Bits: 4, K: 2, Region: 1}, 2, 2, 1. / 4},
		"more bits than the key has":       {regions.Geometry{Bits: 4, K: 2, Region: 1}, 2, 3, 1. / 4},
		"no regions":                       {regions.Geometry{Bits: 4, K: 2}, 1, 1, 0},
		"a delete that asks for no bit":    {regions.Geometry{Bits: 4, K: 2, Region: 1}, 1, 0, 0},
		"a number of keys that is not one": {regions.Geometry{Bits: 4, K: 2, Region: 1}, -7, 1, 1},
	} {
		if got := c.g.Deletable(c.keys, c.least); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestDeletableIsAMonotonicShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGeometry(t)
		keys := rapid.IntRange(0, int(2*g.Bits)/g.K).Draw(t, "keys")
		more := keys + rapid.IntRange(0, 1000).Draw(t, "more")
		least := rapid.IntRange(1, g.K).Draw(t, "least")
		larger := g
		larger.Region++
		d := g.Deletable(keys, least)
		const rounding = 1e-12
		switch {
		case !(d >= 0 && d <= 1):
			t.Fatalf("%v is no share", d)
		case g.Deletable(more, least) > d+rounding:
			t.Fatalf("%d keys instead of %d make deletes easier", more, keys)
		case larger.Deletable(keys, least) > d+rounding:
			t.Fatal("a larger region makes deletes easier")
		case g.Deletable(keys, least+1) > d+rounding:
			t.Fatal("to ask for another bit makes deletes easier")
		}
	})
}

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		keys, k int
		bits    uint32
		want    float64
	}{{0, 10, 100, 0}, {7, 10, 100, 0.7}, {1 << 23, 32, 1 << 29, 0.5}, {3_000_000_000, 1, 3_000_000_000, 1}} {
		if got := (regions.Geometry{Bits: c.bits, K: c.k}).Load(c.keys); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("load of %d keys of %d in %d bits: %v, want %v", c.keys, c.k, c.bits, got, c.want)
		}
	}
}
