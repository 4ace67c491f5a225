package favfilter_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

func TestShapeForRefuses(t *testing.T) {
	for _, c := range []struct {
		capacity int
		rate     float64
		want     string
	}{
		{-1, 0.001, "capacity -1 is negative"},
		{math.MinInt, 0.001, "is negative"},
		{100, 0, "rate 0 is not in"},
		{100, -0.1, "rate -0.1 is not in"},
		{100, 0.51, "rate 0.51 is not in"},
		{100, 9e-12, "rate 9e-12 is not in"},
		{100, math.NaN(), "rate NaN is not in"},
		{100, math.Inf(1), "rate +Inf is not in"},
		{40_000_000, 0.001, "40000000 keys at rate 0.001 need 73"},
		{math.MaxInt, 1e-9, "need"},
	} {
		s, err := favfilter.ShapeFor(c.capacity, c.rate)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ShapeFor(%d, %g) = %v, error %v, want %q", c.capacity, c.rate, s, err, c.want)
		}
		if s != (favfilter.Shape{}) {
			t.Errorf("ShapeFor(%d, %g) = %v beside an error", c.capacity, c.rate, s)
		}
	}
}

// These cases are at the ends of size classes. The header that Redis puts around a string is longer
// from 64 KiB on, so bits strings end 6 or 10 bytes below a power of two.
func TestShapeForGolden(t *testing.T) {
	for _, c := range []struct {
		capacity int
		rate     float64
		length   uint32
		hashes   uint8
	}{
		{0, 0.001, 314, 8},
		{136, 0.001, 314, 8},
		{137, 0.001, 378, 8},
		{2000, 0.001, 4090, 8},
		{4448, 0.001, 8186, 8},
		{4449, 0.001, 10234, 8},
		{35852, 0.001, 65530, 8},
		{35853, 0.001, 81910, 8},
		{10_000_000, 0.001, 20971510, 8},
		{100, 0.5, 314, 1},
		{1000, 0.01, 1274, 6},
		{1000, 0.00025, 2554, 10},
		{1000, 1e-9, 6138, 25},
	} {
		s := shapeFor(t, c.capacity, c.rate)
		want := favfilter.Shape{Bits: 8 * (c.length - favfilter.HeaderBytes), Hashes: c.hashes, Region: favfilter.DefaultRegion}
		if s != want {
			t.Errorf("ShapeFor(%d, %g) = %v, want %v", c.capacity, c.rate, s, want)
		}
	}
}

func drawRate(t *rapid.T) float64 {
	return math.Pow(10, rapid.Float64Range(-9, math.Log10(0.5)).Draw(t, "log10 of rate"))
}

func TestShapeForFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(0, 1_000_000).Draw(t, "capacity")
		rate := drawRate(t)
		s := shapeFor(t, capacity, rate)
		if got := s.Capacity(rate); got < capacity {
			t.Fatalf("%v holds %d keys at %g, want %d", s, got, rate, capacity)
		}
		if more := shapeFor(t, capacity+rapid.IntRange(0, 1000).Draw(t, "more"), rate); more.Bits < s.Bits {
			t.Fatalf("more keys fit in %v than in %v", more, s)
		}
		length := favfilter.HeaderBytes + int(s.Bits/8)
		size := length + stringOverhead(length)
		if sizeClass(size) != size {
			t.Fatalf("a string of %d bytes takes %d of a block of %d", length, size, sizeClass(size))
		}
		smaller := s // the longest string in the size class below
		smaller.Bits = 8 * uint32(longestBelow(size)-favfilter.HeaderBytes)
		if got := smaller.Capacity(rate); length > 314 && got >= capacity {
			t.Fatalf("%v of the size class below holds %d keys at %g, and %d were asked for", smaller, got, rate, capacity)
		}
		newPage(t, favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: s})
	})
}

// sizeClass returns the size of the block that jemalloc serves for size bytes: from
// 128 on, four classes for each doubling.
func sizeClass(size int) int {
	for class := 128; ; class *= 2 {
		for quarter := 4; quarter < 8; quarter++ {
			if block := class / 4 * quarter; block >= size {
				return block
			}
		}
	}
}

// stringOverhead is the number of bytes that Redis puts around a string: a header with its length
// and room, and a final zero.
func stringOverhead(length int) int {
	switch {
	case length < 1<<8:
		return 3 + 1
	case length < 1<<16:
		return 5 + 1
	default:
		return 9 + 1
	}
}

// longestBelow returns the length of the longest string in the size class below
// that of size.
func longestBelow(size int) int {
	length := size
	for sizeClass(length+stringOverhead(length)) >= size {
		length--
	}
	return length
}

// The cost of fewer hashes is what ShapeFor's comment states: the bits per key, compared with n
// log2(1/rate) / ln 2 bits of a Bloom filter with the best k.
func TestShapeForCost(t *testing.T) {
	const capacity = 1_000_000
	for rate, want := range map[float64]float64{0.3: 1.12, 0.1: 1.00, 0.01: 1.00, 0.001: 1.02, 0.0005: 1.01, 0.00025: 1.01, 1e-6: 1.01, 1e-9: 1.01} {
		s := shapeFor(t, capacity, rate)
		// The room up to the end of the size class does not count.
		perKey := float64(s.Bits) / float64(s.Capacity(rate))
		if got := perKey / (math.Log2(1/rate) * math.Log2E); math.Abs(got-want) > 0.005 {
			t.Errorf("rate %g: %.3f times the bits of a plain Bloom filter, stated %.2f", rate, got, want)
		}
	}
}

// Capacity is the mean number of keys at which Limit bits are set.
func TestLimitAndCapacityAgreeWithSimulation(t *testing.T) {
	const pages = 25
	for _, rate := range []float64{0.00025, 0.001, 0.01} {
		for _, capacity := range []int{109, 1000, 5000} {
			rng := rand.New(rand.NewPCG(3, uint64(capacity)))
			s := shapeFor(t, capacity, rate)
			var keys sample
			for range pages {
				page := emptyPage(t, s)
				for page.Header().Set < s.Limit(rate) && page.Header().Count < s.Bits {
					page.Insert(randomHash(rng))
				}
				keys.add(float64(page.Header().Count))
				most := favfilter.RateAt(s, s.Limit(rate)+uint32(s.Hashes)-1)
				if got := page.FalsePositiveRate(); got > most {
					t.Errorf("%v: %g past the limit of rate %g, want no more than %g", s, got, rate, most)
				}
			}
			// On average, the key that reaches the limit passes it by half a key. Two keys are
			// allowed for repeated positions.
			mean, deviation := keys.mean()
			if off := mean - float64(s.Capacity(rate)); off < -4*deviation || off > 2+4*deviation {
				t.Errorf("rate %g, %v: full at %.1f keys (+-%.1f), capacity %d", rate, s, mean, deviation, s.Capacity(rate))
			}
		}
	}
}

func TestLimitOfShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := drawRate(t)
		s := shapeFor(t, rapid.IntRange(0, 100_000).Draw(t, "capacity"), rate)
		limit := s.Limit(rate)
		if got := favfilter.RateAt(s, limit); got > rate*(1+1e-9) {
			t.Fatalf("%v: rate %g with %d bits set, want %g", s, got, limit, rate)
		}
		if got := favfilter.RateAt(s, limit+1); got < rate*(1-1e-9) {
			t.Fatalf("%v: rate %g with %d bits set, so the limit is not the most", s, got, limit+1)
		}
		if limit == 0 {
			t.Fatalf("%v: the limit is 0, which a batch takes for none", s)
		}
	})
}

// Room in the allocator's size class does not make a page too large.
func TestShapeOfMaxBits(t *testing.T) {
	s, err := favfilter.ShapeFor(35_772_825, 0.001)
	if err == nil && s.Bits > favfilter.MaxBits {
		t.Errorf("%v has more than %d bits", s, favfilter.MaxBits)
	}
}
