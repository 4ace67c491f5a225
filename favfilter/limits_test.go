package favfilter_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/regions"
)

// The figures that the comment of Filter states under Limits: what a page can and
// cannot do without a ledger. They are measured on pages as Filter makes them by
// default, 2,146 keys at a false-positive rate of 0.1 %.
const (
	limitsRate     = 0.001
	limitsCapacity = 2000 // raised to 2,146 by the size class
)

// alone is a page in the hands of a Filter: changed by batches without a guard, up
// to the limit.
type alone struct {
	*favfilter.Page
	rng   *rand.Rand
	limit uint32
	live  []favfilter.Hash // keys that were added, and not removed
}

// newAlone returns a page filled with random keys to a share of its capacity.
func newAlone(t fataler, rng *rand.Rand, load float64) *alone {
	t.Helper()
	s := shapeFor(t, limitsCapacity, limitsRate)
	a := &alone{Page: emptyPage(t, s), rng: rng, limit: s.Limit(limitsRate)}
	for range int(load * float64(s.Capacity(limitsRate))) {
		a.addRandom()
	}
	return a
}

func (a *alone) add(h favfilter.Hash) favfilter.Outcome {
	return a.Apply(favfilter.Batch{Identity: a.Header().Identity, Limit: a.limit, Add: []favfilter.Hash{h}}).Outcomes[0]
}

func (a *alone) remove(h favfilter.Hash) favfilter.Outcome {
	return a.Apply(favfilter.Batch{Identity: a.Header().Identity, Remove: []favfilter.Hash{h}}).Outcomes[0]
}

func (a *alone) addRandom() favfilter.Outcome {
	h := randomHash(a.rng)
	o := a.add(h)
	if o == favfilter.Added {
		a.live = append(a.live, h)
	}
	return o
}

// removeRandom takes out a random live key; one that is stuck is live no more.
func (a *alone) removeRandom() favfilter.Outcome {
	i := a.rng.IntN(len(a.live))
	o := a.remove(a.live[i])
	a.live[i] = a.live[len(a.live)-1]
	a.live = a.live[:len(a.live)-1]
	return o
}

// measure runs f on so many pages and returns its figures by name.
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

// wantStated checks a measured figure against the one stated: half a unit of its
// last digit for rounding, and four standard deviations for noise.
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

// A key all of whose regions are shared cannot be removed; the formula of
// package regions says how many.
func TestLimitStuckShare(t *testing.T) {
	s := shapeFor(t, limitsCapacity, limitsRate)
	for _, c := range []struct{ load, stated, unit float64 }{{0.5, 0.0005, 0.0002}, {0.75, 0.008, 0.001}, {1, 0.05, 0.005}} {
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
		hashesPerBit := c.load * float64(s.Capacity(limitsRate)) * float64(s.Hashes) / float64(s.Bits)
		formula := 1 - regions.Deletable(hashesPerBit, int(s.Hashes), int(s.Region))
		if mean, deviation := got.mean(); math.Abs(mean-formula) > 4*deviation {
			t.Errorf("load %g: stuck %.5f (+-%.5f), formula %.5f", c.load, mean, deviation, formula)
		}
	}
}

// Marks of regions never go away, so with every turnover more keys are stuck, and
// stay as ghosts that take up room: first the rate rises, though never past the
// one configured, then new keys are refused.
func TestLimitTurnover(t *testing.T) {
	type stated struct{ stuck, refused, rate float64 }
	for _, c := range []struct {
		load      float64
		turnovers int
		stated    stated
	}{
		{0.5, 0, stated{0, 0, 0.000017}},
		{0.5, 1, stated{0.007, 0, 0.000085}},
		{0.5, 2, stated{0.027, 0, 0.00052}},
		{0.5, 4, stated{0.07, 0.23, 0.001}},
		{1, 1, stated{0.12, 0.57, 0.001}},
	} {
		got := measure(22, 15, func(rng *rand.Rand) map[string]float64 { return turnOver(t, rng, c.load, c.turnovers) })
		what := fmt.Sprintf("load %g, %d turnovers: ", c.load, c.turnovers)
		wantStated(t, what+"stuck share of removals", got["stuck"], c.stated.stuck, 0.004)
		wantStated(t, what+"refused share of keys to add", got["refused"], c.stated.refused, 0.02)
		wantStated(t, what+"false-positive rate", got["rate"], c.stated.rate, c.stated.rate/20)
	}
}

// turnOver replaces the keys of a page, one at a time, as many times over as
// stated.
func turnOver(t fataler, rng *rand.Rand, load float64, turnovers int) map[string]float64 {
	t.Helper()
	page := newAlone(t, rng, load)
	stuck, refused, steps := 0, 0, turnovers*len(page.live)
	for range steps {
		if page.removeRandom() == favfilter.Stuck {
			stuck++
		}
		if page.addRandom() == favfilter.Full {
			refused++
		}
	}
	for _, h := range page.live {
		if !page.Contains(h) {
			t.Fatalf("a live key was lost")
		}
	}
	return map[string]float64{
		"stuck":   float64(stuck) / float64(max(steps, 1)),
		"refused": float64(refused) / float64(max(steps, 1)),
		"rate":    page.Header().FalsePositiveRate(),
	}
}

// To add a key twice changes nothing, and it can be removed as before.
func TestLimitAddTwice(t *testing.T) {
	page := newAlone(t, rand.New(rand.NewPCG(23, 0)), 0.5)
	before := encoded(page.Page)
	for _, h := range page.live {
		if o := page.add(h); o != favfilter.Present {
			t.Fatalf("the second time a key is %v, want present", o)
		}
	}
	if !bytes.Equal(encoded(page.Page), before) {
		t.Error("keys added twice changed the page")
	}
}

// Insert takes the caller's word. A key that it is given twice meets itself
// everywhere and is stuck for good: the reason why Add looks first.
func TestLimitInsertTwice(t *testing.T) {
	page := newAlone(t, rand.New(rand.NewPCG(24, 0)), 0.5)
	for _, h := range page.live {
		page.Insert(h)
		if o := page.Remove(h); o != favfilter.Stuck {
			t.Fatalf("removal of a key inserted twice: %v, want stuck", o)
		}
	}
}

// A new key that looks present is not added: it rests on the bits of others, and is
// mostly lost when these are removed.
func TestLimitFalsePositiveAdd(t *testing.T) {
	const newKeys = 20_000
	got := measure(25, 40, func(rng *rand.Rand) map[string]float64 {
		page := newAlone(t, rng, 1)
		var resting []favfilter.Hash
		for range newKeys {
			h := randomHash(rng)
			if !page.Contains(h) { // would be added, if there were room
				continue
			}
			if o := page.add(h); o != favfilter.Present {
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
	wantStated(t, "share of new keys taken for present", got["taken for present"], 0.001, 0.0001)
	wantStated(t, "share of those lost when half of the others are removed", got["lost"], 0.8, 0.05)
}

// A removal of a key that was never added finds it absent, but for false positives:
// then it takes bits from keys that were.
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
	wantStated(t, "share of strangers removed", got["removed"], 0.001, 0.0001)
	wantStated(t, "keys lost by each", got["lost"], 3.1, 0.1)
}
