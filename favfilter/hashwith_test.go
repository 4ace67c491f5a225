package favfilter_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// If a value changes, every stored page becomes useless.
func TestWithGolden(t *testing.T) {
	for _, c := range []struct {
		first      favfilter.Start
		rest, want favfilter.Hash
	}{
		{favfilter.Start{}, favfilter.Hash{}, favfilter.Hash{}},
		{favfilter.Start{H1: 1}, favfilter.Hash{}, favfilter.Hash{H1: 0x9e3779b97f4a7c15, H2: 0x9e3779b9}},
		{favfilter.Start{H2: 1}, favfilter.Hash{}, favfilter.Hash{H1: 0xff51afd7, H2: 0xff51afd7ed558ccd}},
		{favfilter.HashStart(0, "hide:U1_P"), favfilter.HashKey(0, "2"),
			favfilter.Hash{H1: 0xd8d7ce6a2d6e6032, H2: 0x60655998a0846a17}},
		{favfilter.HashStart(0x0123456789abcdef, "block:U1_U"), favfilter.HashKey(0x0123456789abcdef, "2"),
			favfilter.Hash{H1: 0xbb3b48771c8e1ad0, H2: 0x2281962098ad55bb}},
	} {
		if got := c.first.With(c.rest); got != c.want {
			t.Errorf("{%#x, %#x} with {%#x, %#x} is {%#x, %#x}, want {%#x, %#x}",
				c.first.H1, c.first.H2, c.rest.H1, c.rest.H2, got.H1, got.H2, c.want.H1, c.want.H2)
		}
	}
}

// The seed of starts is the first output of SplitMix64 for the seed of IDs. These outputs are
// published values.
func TestStartSeedGolden(t *testing.T) {
	for seed, want := range map[uint64]uint64{0: 0xe220a8397b1dcdaf, 1234567: 6457827717110365317} {
		for _, start := range []string{"", "hide:U1_P", "block:Ua%5Fb_U"} {
			if got, want := favfilter.HashStart(seed, start), favfilter.Start(favfilter.HashKey(want, start)); got != want {
				t.Errorf("seed %d: HashStart(%q) = %x, want %x", seed, start, got, want)
			}
			if got, want := favfilter.HashStartBytes(seed, []byte(start)), favfilter.HashStart(seed, start); got != want {
				t.Errorf("seed %d: HashStartBytes(%q) = %x, want %x", seed, start, got, want)
			}
		}
	}
}

// Different parts give different hashes. Each part can be computed from the hash and the other
// part.
func TestWithIsInvertible(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) favfilter.Hash {
		return favfilter.Hash{H1: rapid.Uint64().Draw(t, "H1"), H2: rapid.Uint64().Draw(t, "H2")}
	})
	rapid.Check(t, func(t *rapid.T) {
		first, rest := favfilter.Start(draw.Draw(t, "first")), draw.Draw(t, "rest")
		h := first.With(rest)
		a := h.H1 ^ h.H2>>32 // With keeps the high halves
		a = a&^(1<<32-1) | (h.H1^h.H2>>32)&(1<<32-1)
		b := h.H2 ^ a>>32
		got := favfilter.Hash{H1: a*inverse(0x9e3779b97f4a7c15) ^ first.H1, H2: b*inverse(0xff51afd7ed558ccd) ^ first.H2}
		if got != rest {
			t.Fatalf("from %x and %x: %x, want %x", h, first, got, rest)
		}
	})
}

// inverse returns the number whose product with odd is 1 (Newton's iteration).
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

// A page reports absent keys as often as its set bits say, whatever users share it, and even if
// several kinds of keys have the same IDs.
func TestWithKeepsTheRate(t *testing.T) {
	shape := shapeFor(t, 2000, 0.01)
	ids := make([]favfilter.Hash, 1000)
	for seed := range uint64(20) {
		for i := range ids {
			// Many apps number their IDs consecutively.
			ids[i] = favfilter.HashKey(seed, fmt.Sprint("u", 1_000_000+i))
		}
		page := newPage(t, favfilter.Header{Identity: favfilter.Identity{Seed: seed, Pages: 1}, Shape: shape})
		for _, owner := range []string{"block:U1_U", "block:U2_U"} {
			for _, id := range ids {
				page.Insert(favfilter.HashStart(seed, owner).With(id))
			}
		}
		looked, found := 0, 0
		for user := range 20 {
			for _, kind := range []string{"blocked-by", "hide", "like"} {
				start := favfilter.HashStart(seed, fmt.Sprintf("%s:U%d_U", kind, user))
				for _, id := range ids {
					looked++
					if page.Contains(start.With(id)) {
						found++
					}
				}
			}
		}
		want := page.FalsePositiveRate() * float64(looked)
		// The seeds never change, so neither does the result.
		if off := math.Abs(float64(found) - want); off > 6*math.Sqrt(want) {
			t.Errorf("seed %d: %d false positives among %d, %.0f expected", seed, found, looked, want)
		}
	}
}
