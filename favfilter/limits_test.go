package favfilter_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// These tests check the figures in the section Limits of Filter's comment: what a page can and
// cannot do without a ledger. They measure pages as Filter creates them by default for 2,000 keys
// at a false-positive rate of 0.1 %. Such a page is full with 2,010 keys.
const (
	limitsRate     = 0.001
	limitsCapacity = 2000 // raised to 2,010 by the size class
)

// alone is a page as a Filter uses it. It grows, and batches without a guard change it.
type alone struct {
	*favfilter.Page
	rng  *rand.Rand
	live []favfilter.Hash // keys that were added and not removed
}

// newAlone returns a page filled with random keys to a share of its capacity.
func newAlone(t fataler, rng *rand.Rand, load float64) *alone {
	t.Helper()
	a := &alone{Page: growing(t, limitsRate, limitsCapacity), rng: rng}
	a.addRandom(int(load * float64(a.Header().Shape.Capacity(limitsRate/2))))
	return a
}

func (a *alone) add(hs ...favfilter.Hash) []favfilter.Outcome {
	return addGrowing(a.Page, limitsRate, hs...)
}

func (a *alone) remove(h favfilter.Hash) favfilter.Outcome {
	return a.Apply(favfilter.Batch{Identity: a.Header().Identity, Remove: []favfilter.Hash{h}}).Outcomes[0]
}

// addRandom adds n random keys.
func (a *alone) addRandom(n int) {
	keys := make([]favfilter.Hash, n)
	for i := range keys {
		keys[i] = randomHash(a.rng)
	}
	for i, o := range a.add(keys...) {
		if o == favfilter.Added {
			a.live = append(a.live, keys[i])
		}
	}
}

// removeRandom removes a random live key. A stuck key no longer counts as live.
func (a *alone) removeRandom() favfilter.Outcome {
	i := a.rng.IntN(len(a.live))
	o := a.remove(a.live[i])
	a.live[i] = a.live[len(a.live)-1]
	a.live = a.live[:len(a.live)-1]
	return o
}

// measure runs f on that many pages and returns its figures by name.
func measure(seed, pages uint64, f func(rng *rand.Rand) map[string]float64) map[string]*sample {
	samples := map[string]*sample{}
	for i := range pages {
		for name, x := range f(rand.New(rand.NewPCG(seed, i))) {
			if samples[name] == nil {
				samples[name] = &sample{}
			}
			samples[name].add(x)
		}
	}
	return samples
}

// wantStated checks a measured figure against the stated one. It allows half a unit of the last
// digit for rounding, and four standard deviations for noise.
func wantStated(t *testing.T, what string, got *sample, stated, unit float64) {
	t.Helper()
	mean, deviation := got.mean()
	t.Logf("%s: %.3g (+-%.2g), stated %g", what, mean, deviation, stated)
	if off := math.Abs(mean - stated); off > unit/2+4*deviation {
		t.Errorf("%s: %.5f, stated %g", what, mean, stated)
	}
	if deviation > unit {
		t.Errorf("%s: measured to %.5f, too loosely for the stated %g", what, deviation, stated)
	}
}

// A key cannot be removed if other keys share all its regions.
func TestLimitStuckShare(t *testing.T) {
	for _, c := range []struct{ load, stated, unit float64 }{{0.5, 0.0001, 0.0001}, {0.75, 0.001, 0.0005}, {1, 0.01, 0.001}} {
		got := measure(21, 40, func(rng *rand.Rand) map[string]float64 {
			page := newAlone(t, rng, c.load)
			stuck, tried := 0, 0
			for i := 0; i < len(page.live); i += 2 {
				tried++
				if page.Clone().Remove(page.live[i]) == favfilter.Stuck {
					stuck++
				}
			}
			return map[string]float64{"stuck": float64(stuck) / float64(tried)}
		})["stuck"]
		wantStated(t, fmt.Sprintf("stuck at load %g", c.load), got, c.stated, c.unit)
	}
}

// Collision bits are never cleared, so every turnover leaves more stuck keys, which take up room
// although they were removed. The page grows, though its number of live keys does not.
func TestLimitTurnover(t *testing.T) {
	type stated struct{ stuck, rate, layers, bytes float64 }
	for _, c := range []struct {
		load      float64
		turnovers int
		stated    stated
	}{
		{0.5, 0, stated{0, 0.0000032, 1, 4090}},
		{0.5, 1, stated{0.001, 0.000015, 1, 4090}},
		{0.5, 2, stated{0.005, 0.00011, 1, 4090}},
		{0.5, 4, stated{0.018, 0.00014, 2, 14330}},
		{0.5, 16, stated{0.006, 0.0001, 2, 14330}},
		{1, 4, stated{0.004, 0.000026, 2, 14330}},
	} {
		got := measure(22, 15, func(rng *rand.Rand) map[string]float64 { return turnOver(t, rng, c.load, c.turnovers) })
		what := fmt.Sprintf("load %g, %d turnovers: ", c.load, c.turnovers)
		wantStated(t, what+"stuck share of removals", got["stuck"], c.stated.stuck, 0.002)
		wantStated(t, what+"false-positive rate", got["rate"], c.stated.rate, c.stated.rate/10)
		wantStated(t, what+"layers", got["layers"], c.stated.layers, 0.2)
		wantStated(t, what+"bytes", got["bytes"], c.stated.bytes, 1)
	}
}

// turnOver replaces all keys of a page the given number of times, one key at a time.
func turnOver(t fataler, rng *rand.Rand, load float64, turnovers int) map[string]float64 {
	t.Helper()
	page := newAlone(t, rng, load)
	stuck, steps := 0, turnovers*len(page.live)
	for range steps {
		if page.removeRandom() == favfilter.Stuck {
			stuck++
		}
		page.addRandom(1)
	}
	for _, h := range page.live {
		if !page.Contains(h) {
			t.Fatalf("a live key was lost")
		}
	}
	raw, _ := page.Encode()
	return map[string]float64{
		"stuck":  float64(stuck) / float64(max(steps, 1)),
		"layers": float64(len(page.Layers())),
		"bytes":  float64(len(raw)),
		"rate":   page.FalsePositiveRate(),
	}
}

// A page that has grown takes more memory than one created for as many keys.
func TestLimitGrowth(t *testing.T) {
	for _, c := range []struct {
		times  int // number of keys, in multiples of those that the page was created for
		layers int
		memory float64 // memory, in multiples of that of a page created for all keys
		rate   float64
	}{{2, 2, 1.75, 0.0005}, {4, 3, 2.5, 0.00075}, {16, 4, 1.5, 0.00088}, {64, 6, 2, 0.00097}} {
		keys := c.times * limitsCapacity
		page := newAlone(t, rand.New(rand.NewPCG(27, 0)), 0)
		page.addRandom(keys)
		raw, _ := page.Encode()
		made := favfilter.HeaderBytes + growing(t, limitsRate, keys).Header().Shape.Bits/8
		memory := float64(len(raw)) / float64(made)
		rate := page.FalsePositiveRate()
		t.Logf("%d times: %d layers, %.3g times the memory, rate %.3g", c.times, len(page.Layers()), memory, rate)
		if len(page.Layers()) != c.layers || math.Abs(memory-c.memory) > 0.05 || math.Abs(rate-c.rate) > 0.02*c.rate {
			t.Errorf("stated %+v", c)
		}
		if len(page.live) < keys*99/100 {
			t.Errorf("%d of %d keys went in", len(page.live), keys)
		}
	}
}

// Insert does not check that the key is absent. A key inserted twice collides with itself in all
// its regions, and is stuck until a rebuild. So Add checks first.
func TestLimitInsertTwice(t *testing.T) {
	page := newAlone(t, rand.New(rand.NewPCG(24, 0)), 0.5)
	for _, h := range page.live {
		page.Insert(h)
		if o := page.Remove(h); o != favfilter.Stuck {
			t.Fatalf("removal of a key inserted twice: %v, want stuck", o)
		}
	}
}

// A new key that looks present is not added. It depends on bits of other keys, and is usually lost
// when those are removed.
func TestLimitFalsePositiveAdd(t *testing.T) {
	const newKeys = 20_000
	got := measure(25, 40, func(rng *rand.Rand) map[string]float64 {
		page := newAlone(t, rng, 1)
		var resting []favfilter.Hash
		for range newKeys {
			h := randomHash(rng)
			if !page.Contains(h) { // not a false positive, so Add would add it or find the page full
				continue
			}
			if o := page.add(h)[0]; o != favfilter.Present {
				t.Fatalf("a key that looks present is %v", o)
			}
			resting = append(resting, h)
		}
		for range len(page.live) / 2 {
			page.removeRandom()
		}
		lost := 0
		for _, h := range resting {
			if !page.Contains(h) {
				lost++
			}
		}
		return map[string]float64{
			"taken for present": float64(len(resting)) / newKeys,
			"lost":              float64(lost) / float64(len(resting)),
		}
	})
	wantStated(t, "share of new keys taken for present", got["taken for present"], 0.0005, 0.0001)
	wantStated(t, "share of those lost when half of the others are removed", got["lost"], 0.87, 0.05)
}

// Removing a key that was never added is a no-op, except for a false positive: that clears bits of
// keys that were added.
func TestLimitBogusRemoval(t *testing.T) {
	const strangers = 20_000
	got := measure(26, 40, func(rng *rand.Rand) map[string]float64 {
		page := newAlone(t, rng, 1)
		removed, lost := 0, 0
		for range strangers {
			h := randomHash(rng)
			if !page.Contains(h) { // absent, and Remove says so
				continue
			}
			after := page.Clone()
			if after.Remove(h) == favfilter.Removed {
				removed++
			}
			for _, live := range page.live {
				if !after.Contains(live) {
					lost++
				}
			}
		}
		return map[string]float64{"removed": float64(removed) / strangers, "lost": float64(lost) / float64(removed)}
	})
	wantStated(t, "share of strangers removed", got["removed"], 0.0005, 0.0001)
	wantStated(t, "keys lost by each", got["lost"], 4.9, 0.1)
}
