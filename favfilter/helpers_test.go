package favfilter_test

import (
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// fataler is the common part of testing.TB and rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newPage(t fataler, h favfilter.Header) *favfilter.Page {
	t.Helper()
	p, err := favfilter.NewPage(h)
	if err != nil {
		t.Fatalf("new page: %v", err)
	}
	return p
}

func decodePage(t fataler, raw, collisions []byte) *favfilter.Page {
	t.Helper()
	l := decode(raw, collisions)
	if l.Damage != nil {
		t.Fatalf("decode page: %v", l.Damage)
	}
	return l.Page
}

func decode(raw, collisions []byte) favfilter.Loaded {
	return favfilter.Decode(favfilter.PageID{}, raw, collisions)
}

func shapeFor(t fataler, capacity int, rate float64) favfilter.Shape {
	t.Helper()
	s, err := favfilter.ShapeFor(capacity, rate)
	if err != nil {
		t.Fatalf("shape for %d keys at %g: %v", capacity, rate, err)
	}
	return s
}

// emptyPage returns a page of shape in a filter of one page.
func emptyPage(t fataler, shape favfilter.Shape) *favfilter.Page {
	t.Helper()
	return newPage(t, favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: shape})
}

// fill adds random keys until page has limit bits set, and returns those that it added.
func fill(rng *rand.Rand, page *favfilter.Page, limit uint32) []favfilter.Hash {
	var keys []favfilter.Hash
	for range page.Header().Shape.Bits {
		if page.Header().Set >= limit {
			break
		}
		if h := randomHash(rng); addAbsent(page, h) == favfilter.Added {
			keys = append(keys, h)
		}
	}
	return keys
}

// addAbsent adds a key unless it looks present.
func addAbsent(page *favfilter.Page, h favfilter.Hash) favfilter.Outcome {
	if page.Contains(h) {
		return favfilter.Present
	}
	page.Insert(h)
	return favfilter.Added
}

// growing returns an empty page for capacity keys before it grows.
func growing(t fataler, rate float64, capacity int) *favfilter.Page {
	t.Helper()
	return emptyPage(t, shapeFor(t, capacity, rate/2))
}

// addGrowing adds keys to a page that may grow.
func addGrowing(page *favfilter.Page, rate float64, keys ...favfilter.Hash) []favfilter.Outcome {
	return page.Apply(favfilter.Batch{Identity: page.Header().Identity, Rate: rate, Add: keys}).Outcomes
}

// guarded applies a batch that follows on the sequence of the page.
func guarded(p *favfilter.Page, remove, add []favfilter.Hash) favfilter.State {
	h := p.Header()
	return p.Apply(favfilter.Batch{
		ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Sequence: h.Sequence + 1, Remove: remove, Add: add,
	}).State
}

func randomHash(rng *rand.Rand) favfilter.Hash {
	return favfilter.Hash{H1: rng.Uint64(), H2: rng.Uint64()}
}

// weighted returns the hash of a key with that weight.
func weighted(h favfilter.Hash, extra uint8) favfilter.Hash {
	h.Extra = extra
	return h
}

func drawHash(t *rapid.T, label string) favfilter.Hash {
	return favfilter.Hash{
		H1: rapid.Uint64().Draw(t, label+" H1"),
		H2: rapid.Uint64().Draw(t, label+" H2"),

		Extra: rapid.Uint8Range(0, favfilter.MaxExtra).Draw(t, label+" extra"),
	}
}

// drawShape draws a small shape of any kind: tiny pages, many hashes, short and
// oversized regions, and none.
func drawShape(t *rapid.T) favfilter.Shape {
	return favfilter.Shape{
		Bits:   8 * rapid.Uint32Range(1, 64).Draw(t, "bytes"),
		Hashes: rapid.Uint8Range(1, favfilter.MaxHashes).Draw(t, "hashes"),
		Region: rapid.SampledFrom([]uint16{0, 1, 3, 8, 13, 1000}).Draw(t, "region"),

		Uniform: rapid.Bool().Draw(t, "uniform"),
	}
}

// sample collects independent measurements of one value.
type sample struct{ n, sum, squares float64 }

func (s *sample) add(x float64) {
	s.n++
	s.sum += x
	s.squares += x * x
}

// mean returns the mean, and the standard deviation of the mean.
func (s *sample) mean() (mean, deviation float64) {
	mean = s.sum / s.n
	return mean, math.Sqrt((s.squares/s.n - mean*mean) / (s.n - 1))
}
