package regions_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/regions"
)

// page is a Bloom filter with one collision bitmap for each region size, so that
// one run of insertions serves all sizes. Collision bits never influence the Bloom bits.
type page struct {
	bits       regions.Bitmap
	sizes      []uint32
	collisions []regions.Bitmap
}

func newPage(bits uint32, sizes ...uint32) *page {
	p := &page{bits: make(regions.Bitmap, bits/8+1), sizes: sizes}
	for _, size := range sizes {
		p.collisions = append(p.collisions, make(regions.Bitmap, regions.Count(bits, size)/8+1))
	}
	return p
}

// insert adds a key, given as distinct positions.
func (p *page) insert(key []uint32) {
	for _, bit := range key {
		if !p.bits.Get(bit) {
			p.bits.Set(bit)
			continue
		}
		for i, size := range p.sizes {
			p.collisions[i].Set(regions.Of(bit, size))
		}
	}
}

func (p *page) contains(key []uint32) bool {
	for _, bit := range key {
		if !p.bits.Get(bit) {
			return false
		}
	}
	return true
}

// shares is what a simulation measures for one region size.
type shares struct{ deletable, collided float64 }

// simulate fills pages of m bits to the load with random keys of k positions, and measures the
// shares. Positions come from double hashing, h1 + i h2, as in a filter. simulate examines a third
// of the keys of each page. The noise comes from the few regions of a page whose collision bit is
// clear, so more pages reduce it, and more keys do not.
func simulate(rng *rand.Rand, load float64, k int, sizes []uint32) []shares {
	const pages, m = 20, 65_000
	n := int(load * m / float64(k))
	result := make([]shares, len(sizes))
	scratch := make([]uint32, 0, k)
	for range pages {
		p := newPage(m, sizes...)
		var watched [][]uint32
		for i := range n {
			key := randomKey(rng, k, m)
			p.insert(key)
			if i%3 == 0 {
				watched = append(watched, key)
			}
		}
		for i, size := range sizes {
			for _, key := range watched {
				if len(p.collisions[i].Clearable(scratch[:0], key, size)) > 0 {
					result[i].deletable += 1 / float64(pages*len(watched))
				}
			}
			count := float64(regions.Count(m, size))
			result[i].collided += float64(p.collisions[i].Count()) / count / pages
		}
	}
	return result
}

func randomKey(rng *rand.Rand, k int, m uint64) []uint32 {
	h1, h2 := rng.Uint64(), rng.Uint64()
	key := make([]uint32, 0, k)
	for i := range k {
		bit, _ := bits.Mul64(h1+uint64(i)*h2, m)
		if !slices.Contains(key, uint32(bit)) {
			key = append(key, uint32(bit))
		}
	}
	return key
}

// The bound leaves room for noise. Over 3,000 pages with k = 10 the means differ by less than
// 0.001. Single pages have a standard deviation of up to 0.017 (ln 2, regions of 16), and the mean
// of 20 pages one of 0.004.
func TestFormulasAgainstSimulation(t *testing.T) {
	const bound = 0.01
	sizes := []uint32{3, 5, 8, 10, 16, 20}
	for _, k := range []int{7, 8, 10} {
		t.Run(fmt.Sprintf("k=%d", k), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(2026, uint64(k)))
			var worst shares
			for _, load := range []float64{0.1, 0.35, math.Ln2, 1} {
				for i, got := range simulate(rng, load, k, sizes) {
					size := int(sizes[i])
					want := shares{regions.Deletable(load, k, size), regions.Collided(load, size)}
					off := shares{math.Abs(got.deletable - want.deletable), math.Abs(got.collided - want.collided)}
					if off.deletable > bound || off.collided > bound {
						t.Errorf("load %.2f, size %d: simulated %.4f, formulas %.4f", load, size, got, want)
					}
					worst.deletable = max(worst.deletable, off.deletable)
					worst.collided = max(worst.collided, off.collided)
				}
			}
			t.Logf("largest differences: deletable %.4f, collided %.4f", worst.deletable, worst.collided)
		})
	}
}

// The published shares at full load of a filter with k = 10, in percent.
func TestDeletableAtFullLoad(t *testing.T) {
	tests := []struct {
		size             int
		percent, rounded float64
	}{
		{20, 19, 0.5},
		{10, 69, 0.5},
		{5, 95, 0.5},
		{3, 98.7, 0.15}, // the formula gives 98.82
	}
	for _, tt := range tests {
		got := 100 * regions.Deletable(math.Ln2, 10, tt.size)
		if math.Abs(got-tt.percent) > tt.rounded {
			t.Errorf("regions of %d bits: %.2f %% deletable, published %.1f %%", tt.size, got, tt.percent)
		}
	}
}

func TestFormulasAtTheEdges(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name                string
		load                float64
		k, size             int
		deletable, collided float64
	}{
		{"empty page", 0, 10, 8, 1, 0},
		{"far too full", 1e6, 10, 8, 0, 1},
		{"one bit a region, one hash", 0.5, 1, 1, math.Exp(-0.5), 1 - 1.5*math.Exp(-0.5)},
		{"negative load", -0.1, 10, 8, nan, nan},
		{"load not a number", nan, 10, 8, nan, nan},
		{"infinite load", math.Inf(1), 10, 8, nan, nan},
		{"size 0", 0.5, 10, 0, nan, nan},
		{"no hash", 0.5, 0, 8, nan, regions.Collided(0.5, 8)},
	}
	for _, tt := range tests {
		if got := regions.Deletable(tt.load, tt.k, tt.size); !same(got, tt.deletable) {
			t.Errorf("%s: Deletable = %v, want %v", tt.name, got, tt.deletable)
		}
		if got := regions.Collided(tt.load, tt.size); !same(got, tt.collided) {
			t.Errorf("%s: Collided = %v, want %v", tt.name, got, tt.collided)
		}
	}
}

// same allows for rounding, and treats two NaNs as equal.
func same(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-12
}

func TestFormulasAreMonotonicShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := rapid.Float64Range(0, 4).Draw(t, "load")
		more := load + rapid.Float64Range(0, 4).Draw(t, "more")
		k := rapid.IntRange(1, 20).Draw(t, "k")
		size := rapid.IntRange(1, 64).Draw(t, "size")
		d, c := regions.Deletable(load, k, size), regions.Collided(load, size)
		const rounding = 1e-12
		switch {
		case !(d >= 0 && d <= 1 && c >= 0 && c <= 1):
			t.Fatalf("not shares: deletable %v, collided %v", d, c)
		case regions.Deletable(more, k, size) > d+rounding || regions.Collided(more, size) < c-rounding:
			t.Fatalf("load %v to %v makes deletes easier", load, more)
		case regions.Deletable(load, k, size+1) > d+rounding || regions.Collided(load, size+1) < c-rounding:
			t.Fatalf("a larger region makes deletes easier")
		case regions.Deletable(load, k+1, size) < d-rounding:
			t.Fatalf("another bit makes deletes harder at the same load")
		}
	})
}
