package favfilter_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// growTo adds random keys until page has the given number of layers and the newest is full. It
// returns the added keys.
func growTo(t fataler, rng *rand.Rand, page *favfilter.Page, rate float64, layers int) []favfilter.Hash {
	t.Helper()
	var keys []favfilter.Hash
	for len(page.Layers()) < layers || !favfilter.NewestFull(page, rate) {
		h := randomHash(rng)
		switch o := addGrowing(page, rate, h)[0]; o {
		case favfilter.Added:
			keys = append(keys, h)
		case favfilter.Present: // a false positive
		default:
			t.Fatalf("a key is %v", o)
		}
	}
	return keys
}

// At any rate and size, a page that grows holds its keys and never exceeds the rate. Each layer has
// room for twice as many keys as the previous one.
func TestGrowingKeepsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := drawRate(t)
		first := shapeFor(t, rapid.IntRange(0, 200).Draw(t, "capacity"), rate/2)
		first.Region = rapid.SampledFrom([]uint16{0, 8}).Draw(t, "region")
		page := emptyPage(t, first)
		rng := rand.New(rand.NewPCG(51, rapid.Uint64().Draw(t, "seed")))
		var keys []favfilter.Hash
		for layers := 1; layers <= 3; layers++ {
			keys = append(keys, growTo(t, rng, page, rate, layers)...)
			// The rate is lower where k is large and there are few bits.
			if got := page.FalsePositiveRate(); got > rate || got < rate*(1-math.Pow(0.5, float64(layers)))/4 {
				t.Fatalf("rate %g with %d full layers, configured %g", got, layers, rate)
			}
		}
		for _, h := range keys {
			if !page.Contains(h) {
				t.Fatalf("a key of %d is lost", len(keys))
			}
		}
		shapes := page.Layers()
		for i, shape := range shapes[1:] {
			before := shapes[i].Capacity(rate * math.Pow(0.5, float64(i+1)))
			if got := shape.Capacity(rate * math.Pow(0.5, float64(i+2))); got < 2*before || got > 4*before+100 {
				t.Fatalf("room for %d keys after room for %d", got, before)
			}
		}
		raw, collisions := page.Encode()
		if again := decodePage(t, raw, collisions); again.Header() != page.Header() {
			t.Fatalf("decoded %+v, want %+v", again.Header(), page.Header())
		}
	})
}

// The measured rate equals the rate that the page states.
func TestGrowingRateMeasured(t *testing.T) {
	const rate, probes = 0.01, 300_000
	rng := rand.New(rand.NewPCG(52, 4))
	page := growing(t, rate, 500)
	growTo(t, rng, page, rate, 5)
	found := 0
	for range probes {
		if page.Contains(randomHash(rng)) {
			found++
		}
	}
	stated := page.FalsePositiveRate()
	if z := (float64(found) - probes*stated) / math.Sqrt(probes*stated); math.Abs(z) > 4 || stated > rate {
		t.Errorf("measured %.5f, the page states %.5f", float64(found)/probes, stated)
	}
}

// The shapes of further layers are golden. Without removals a key sets the best number of bits for
// a Bloom filter, with them five sixths of it.
func TestGrowingGolden(t *testing.T) {
	for region, want := range map[uint16][]favfilter.Shape{
		0: {{Bits: 4480, Hashes: 12}, {Bits: 13184, Hashes: 13}},
		4: {{Bits: 4480, Hashes: 10, Region: 4}, {Bits: 13184, Hashes: 11, Region: 4}},
	} {
		first := shapeFor(t, 100, 0.0005)
		first.Region = region
		page := emptyPage(t, first)
		growTo(t, rand.New(rand.NewPCG(55, 0)), page, 0.001, 3)
		if got := page.Layers(); !slices.Equal(got[1:], want) {
			t.Errorf("regions of %d: layers %+v, want %+v", region, got[1:], want)
		}
	}
}

// The string of a page with a new layer also ends at the end of its size class.
func TestGrowingFillsTheAllocatorsBlocks(t *testing.T) {
	page := growing(t, 0.001, 100)
	for layers := 2; layers <= 8; layers++ {
		growTo(t, rand.New(rand.NewPCG(55, 0)), page, 0.001, layers)
		raw, _ := page.Encode()
		if size := len(raw) + stringOverhead(len(raw)); sizeClass(size) != size {
			t.Errorf("%d layers: a string of %d bytes takes %d of a block of %d", len(page.Layers()), len(raw), size, sizeClass(size))
		}
	}
}

// A page that cannot grow any further takes keys until its newest layer is full. It then refuses
// keys, and still reports the keys it holds.
func TestGrowingPastTheLimits(t *testing.T) {
	const rate = 0.01
	rng := rand.New(rand.NewPCG(53, 0))
	page := emptyPage(t, favfilter.Shape{Bits: 512, Hashes: 4, Region: 8})
	for range favfilter.MaxLayers - 1 {
		page.Grow(favfilter.Shape{Bits: 4096, Hashes: 17, Region: 8})
	}
	keys := growTo(t, rng, page, rate, favfilter.MaxLayers)
	before := encoded(page)
	outcomes := addGrowing(page, rate, keys[0], randomHash(rng))
	if !slices.Equal(outcomes, []favfilter.Outcome{favfilter.Present, favfilter.Full}) || !slices.Equal(encoded(page), before) {
		t.Errorf("a page that is full: %v, or it changed", outcomes)
	}
	if got := page.FalsePositiveRate(); got > rate || len(keys) < 50 {
		t.Errorf("rate %g of a page that is full, with %d keys, configured %g", got, len(keys), rate)
	}
}

// A page also grows no further than to the most bits that a page may have.
func TestGrowingToTheMostBits(t *testing.T) {
	page := emptyPage(t, favfilter.Shape{Bits: favfilter.MaxBits / 2, Hashes: 1})
	page.Grow(favfilter.Shape{Bits: favfilter.MaxBits/2 - 8, Hashes: 1})
	page.Grow(favfilter.Shape{Bits: 8, Hashes: 1})
	if outcomes := addGrowing(page, 0.01, keyHash(1)); !slices.Equal(outcomes, []favfilter.Outcome{favfilter.Full}) {
		t.Errorf("%v, want a page that is full", outcomes)
	}
}

// A batch without a rate adds keys without limit.
func TestBatchWithoutRate(t *testing.T) {
	page := growing(t, 0.001, 200)
	if got := (favfilter.Batch{Add: make([]favfilter.Hash, 1)}).Room(page.Header().Shape); got != math.MaxUint32 {
		t.Errorf("room for keys on %d bits without a rate", got)
	}
	rng := rand.New(rand.NewPCG(54, 0))
	var keys []favfilter.Hash
	for range 2000 {
		keys = append(keys, randomHash(rng))
	}
	if outcomes := addGrowing(page, 0, keys...); slices.Contains(outcomes, favfilter.Full) || page.Header().Grown > 0 {
		t.Errorf("%d layers, and a key that is full: %v", page.Header().Grown+1, slices.Contains(outcomes, favfilter.Full))
	}
}
