package favfilter_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// scaled returns an empty page with the first shape of s.
func scaled(t fataler, s favfilter.Scaling, capacity int) *favfilter.Page {
	t.Helper()
	shape, err := s.First(capacity)
	if err != nil {
		t.Fatalf("first shape: %v", err)
	}
	return emptyPage(t, shape)
}

// scaleTo adds random keys until page has the given number of layers and the newest is full. It
// returns the added keys.
func scaleTo(t fataler, rng *rand.Rand, s favfilter.Scaling, page *favfilter.Page, layers int) []favfilter.Hash {
	t.Helper()
	var keys []favfilter.Hash
	for len(page.Layers()) < layers || !favfilter.NewestFull(s, page) {
		h := randomHash(rng)
		switch o := s.Add(page, h); o {
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
func TestScalingKeepsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := favfilter.Scaling{FalsePositiveRate: drawRate(t), Region: rapid.SampledFrom([]uint16{0, 8}).Draw(t, "region")}
		page := scaled(t, s, rapid.IntRange(0, 200).Draw(t, "capacity"))
		rng := rand.New(rand.NewPCG(51, rapid.Uint64().Draw(t, "seed")))
		rate := s.FalsePositiveRate
		var keys []favfilter.Hash
		for layers := 1; layers <= 3; layers++ {
			keys = append(keys, scaleTo(t, rng, s, page, layers)...)
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
func TestScalingRateMeasured(t *testing.T) {
	const rate, probes = 0.01, 300_000
	for _, region := range []uint16{0, favfilter.DefaultRegion} {
		s := favfilter.Scaling{FalsePositiveRate: rate, Region: region}
		rng := rand.New(rand.NewPCG(52, uint64(region)))
		page := scaled(t, s, 500)
		scaleTo(t, rng, s, page, 5)
		found := 0
		for range probes {
			if page.Contains(randomHash(rng)) {
				found++
			}
		}
		stated := page.FalsePositiveRate()
		if z := (float64(found) - probes*stated) / math.Sqrt(probes*stated); math.Abs(z) > 4 || stated > rate {
			t.Errorf("regions of %d: measured %.5f, the page states %.5f", region, float64(found)/probes, stated)
		}
	}
}

func TestScalingShapes(t *testing.T) {
	for _, c := range []struct {
		rate     float64
		region   uint16
		capacity int
		length   uint32 // of the bits string
		hashes   uint8
	}{
		// With removals five sixths of the best number of bits for a key, without all of it.
		{0.001, 8, 2000, 4090, 9},
		{0.001, 0, 2000, 4090, 11},
		{0.00025, 0, 3500, 10234, 13},
		{0.5, 0, 0, 314, 2},
		{1e-9, 0, 1000, 6138, 31},
	} {
		s := favfilter.Scaling{FalsePositiveRate: c.rate, Region: c.region}
		got, err := s.First(c.capacity)
		want := favfilter.Shape{Bits: 8 * (c.length - favfilter.HeaderBytes), Hashes: c.hashes, Region: c.region}
		if err != nil || got != want {
			t.Errorf("%+v, %d keys: %v, %v, want %v", s, c.capacity, got, err, want)
		}
		if got.Capacity(c.rate/2) < c.capacity {
			t.Errorf("%v has room for %d keys of %d", got, got.Capacity(c.rate/2), c.capacity)
		}
	}
	for _, c := range []struct {
		capacity int
		rate     float64
		want     string
	}{
		{-1, 0.001, "capacity -1 is negative"}, {10, 0, "rate 0 is not in"}, {10, 0.6, "rate 0.6 is not in"}, {1 << 40, 0.001, "bytes, more than 67108864"},
	} {
		if _, err := (favfilter.Scaling{FalsePositiveRate: c.rate}).First(c.capacity); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// The string of a page with a new layer also ends at the end of its size class.
func TestScalingFillsTheAllocatorsBlocks(t *testing.T) {
	s := favfilter.Scaling{FalsePositiveRate: 0.001}
	page := scaled(t, s, 100)
	for layers := 2; layers <= 8; layers++ {
		scaleTo(t, rand.New(rand.NewPCG(55, 0)), s, page, layers)
		raw, _ := page.Encode()
		if size := len(raw) + stringOverhead(len(raw)); sizeClass(size) != size {
			t.Errorf("%d layers: a string of %d bytes takes %d of a block of %d", len(page.Layers()), len(raw), size, sizeClass(size))
		}
	}
}

// A page that cannot grow any further takes keys until the configured rate is used up. It then
// refuses keys, and still reports the keys it holds.
func TestScalingPastTheLimits(t *testing.T) {
	const rate = 0.01
	s := favfilter.Scaling{FalsePositiveRate: rate, Region: 8}
	rng := rand.New(rand.NewPCG(53, 0))
	page := emptyPage(t, favfilter.Shape{Bits: 512, Hashes: 4, Region: 8})
	for range favfilter.MaxLayers - 1 {
		if err := page.Grow(favfilter.Shape{Bits: 512, Hashes: 6, Region: 8}); err != nil {
			t.Fatal(err)
		}
	}
	var keys []favfilter.Hash
	full := favfilter.Hash{}
	for full == (favfilter.Hash{}) {
		h := randomHash(rng)
		if o := s.Add(page, h); o == favfilter.Added {
			keys = append(keys, h)
		} else if o == favfilter.Full {
			full = h
		}
	}
	if got := page.FalsePositiveRate(); got > rate || got < rate*0.8 {
		t.Errorf("rate %g of a page that is full, configured %g", got, rate)
	}
	before := encoded(page)
	if s.Add(page, keys[0]) != favfilter.Present || s.Add(page, full) != favfilter.Full || !slices.Equal(encoded(page), before) {
		t.Error("a page that is full changed")
	}
}

// A batch that may not grow the page can use what the layers have left of the rate. A batch that
// may grow it stops each layer at its share.
func TestBatchRate(t *testing.T) {
	const rate = 0.001
	s := favfilter.Scaling{FalsePositiveRate: rate, Region: 8}
	page := scaled(t, s, 200)
	rng := rand.New(rand.NewPCG(54, 0))
	scaleTo(t, rng, s, page, 2)
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
