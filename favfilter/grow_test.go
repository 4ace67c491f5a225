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

// A page that cannot grow any further takes keys until the configured rate is used up. It then
// refuses keys, and still reports the keys it holds.
func TestGrowingPastTheLimits(t *testing.T) {
	const rate = 0.01
	rng := rand.New(rand.NewPCG(53, 0))
	page := emptyPage(t, favfilter.Shape{Bits: 512, Hashes: 4, Region: 8})
	for range favfilter.MaxLayers - 1 {
		must(t, page.Grow(favfilter.Shape{Bits: 512, Hashes: 6, Region: 8}))
	}
	var keys []favfilter.Hash
	full := favfilter.Hash{}
	for full == (favfilter.Hash{}) {
		h := randomHash(rng)
		if o := addGrowing(page, rate, h)[0]; o == favfilter.Added {
			keys = append(keys, h)
		} else if o == favfilter.Full {
			full = h
		}
	}
	if got := page.FalsePositiveRate(); got > rate || got < rate*0.8 {
		t.Errorf("rate %g of a page that is full, configured %g", got, rate)
	}
	before := encoded(page)
	outcomes := addGrowing(page, rate, keys[0], full)
	if !slices.Equal(outcomes, []favfilter.Outcome{favfilter.Present, favfilter.Full}) || !slices.Equal(encoded(page), before) {
		t.Errorf("a page that is full: %v, or it changed", outcomes)
	}
}

// A batch that may not grow the page can use what the layers have left of the rate. A batch that
// may grow it stops each layer at its share.
func TestBatchRate(t *testing.T) {
	const rate = 0.001
	page := growing(t, rate, 200)
	rng := rand.New(rand.NewPCG(54, 0))
	growTo(t, rng, page, rate, 2)
	if got := page.FalsePositiveRate(); got > 0.75*rate || got < 0.7*rate {
		t.Errorf("rate %g of two full layers, want three quarters of %g", got, rate)
	}
	batch := favfilter.Batch{Identity: page.Header().Identity, Rate: rate}
	for range 2000 {
		batch.Add = append(batch.Add, randomHash(rng))
	}
	still := page.Clone()
	res := still.Apply(batch)
	if got := still.FalsePositiveRate(); res.Header.Grown != 1 || got > rate || got < 0.95*rate || !slices.Contains(res.Outcomes, favfilter.Full) {
		t.Errorf("%d layers, rate %g, want two and %g", res.Header.Grown+1, got, rate)
	}
	batch.Grow = true
	grown := page.Clone()
	res = grown.Apply(batch)
	if slices.Contains(res.Outcomes, favfilter.Full) || res.Header.Grown < 2 || grown.FalsePositiveRate() > rate {
		t.Errorf("%d layers, rate %g", res.Header.Grown+1, grown.FalsePositiveRate())
	}
	batch.Rate = 0
	free := page.Clone()
	res = free.Apply(batch)
	if slices.Contains(res.Outcomes, favfilter.Full) || res.Header.Grown != 1 {
		t.Errorf("without a rate: %d layers", res.Header.Grown+1)
	}
	if got := (favfilter.Batch{}).Limit(page.Header().Shape); got != math.MaxUint32 {
		t.Errorf("limit %d without a rate", got)
	}
}
