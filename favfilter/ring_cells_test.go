package favfilter_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// This file has the alternative that a Ring is compared with: a Bloom filter of time-stamp cells in
// place of bits. A cell of four bits holds the tick in which a key last set it, in a cycle of 15, or
// 0. A key is present if all its cells are of the last few ticks.

const (
	cycle      = 15
	window     = 30 * 24 * time.Hour
	windowRate = 0.001
)

// cells keeps keys for a window, and for one tick more at most. Two cells share a byte.
type cells struct {
	raw    []byte
	n      uint64 // cells
	hashes int
	life   int64         // how many ticks a window has; the one under way comes on top
	tick   time.Duration // window / life
	swept  int64         // the tick up to which cells that are over were cleared
}

// newCells sizes cells like a Bloom filter for the given number of keys and rate, half full. life
// is 2 to 13: of 15 stamps, life+1 are stamps of keys. At least one other is needed for expired
// cells that are not cleared yet.
func newCells(keys int, life int64) *cells {
	k := math.Round(math.Log2(1 / windowRate))
	n := uint64(math.Ceil(float64(keys) * k / math.Ln2))
	return &cells{raw: make([]byte, (n+1)/2), n: n, hashes: int(k), life: life, tick: window / time.Duration(life)}
}

// at returns the position of the i-th cell of a key, hashed as in a page but without rotating the
// stride.
func (c *cells) at(h favfilter.Hash, i int) (at uint64, shift uint) {
	x := h.H1 + uint64(i)*(h.H2|1)
	cell := x >> 32 * c.n >> 32 // the high word of the product, as n fits one half
	return cell / 2, uint(cell%2) * 4
}

func (c *cells) number(now time.Time) int64 { return now.UnixNano() / int64(c.tick) }

// age returns how many ticks before tick a stamp was written. The last sweep determines the cycle
// of the stamp.
func (c *cells) age(stamp byte, tick int64) int64 {
	return (c.swept%cycle-int64(stamp-1)+cycle)%cycle + tick - c.swept
}

// sweep clears the cells that have expired at now, and must run before stamps of now are written.
// It returns the number of bytes written: all of them, once a tick.
func (c *cells) sweep(now time.Time) (written int) {
	tick := c.number(now)
	if tick == c.swept {
		return 0
	}
	for i, b := range c.raw {
		for shift := uint(0); shift < 8; shift += 4 {
			if s := b >> shift & 15; s != 0 && c.age(s, tick) > c.life {
				b &^= 15 << shift
			}
		}
		c.raw[i] = b
	}
	c.swept = tick
	return len(c.raw)
}

func (c *cells) add(h favfilter.Hash, now time.Time) {
	stamp := byte(c.number(now)%cycle) + 1
	for i := range c.hashes {
		at, shift := c.at(h, i)
		c.raw[at] = c.raw[at]&^(15<<shift) | stamp<<shift
	}
}

func (c *cells) contains(h favfilter.Hash, now time.Time) bool {
	tick := c.number(now)
	for i := range c.hashes {
		at, shift := c.at(h, i)
		if s := c.raw[at] >> shift & 15; s == 0 || c.age(s, tick) > c.life {
			return false
		}
	}
	return true
}

// TestCells checks the structure that a Ring is compared with. It forgets nothing within its
// window, and keeps nothing more than a tick longer, except at the rate, however long nothing was
// written.
func TestCells(t *testing.T) {
	for _, life := range []int64{2, 6, 13} {
		at := newClock()
		rng := rand.New(rand.NewPCG(1, uint64(life)))
		keys := make([]favfilter.Hash, 3000)
		last := make([]time.Time, len(keys))
		for i := range keys {
			keys[i] = randomHash(rng)
		}
		c := newCells(len(keys), life)
		wrong, absent := 0, 0
		for range 1000 {
			pause := time.Duration(rng.Int64N(int64(window / 20)))
			if rng.IntN(100) == 0 {
				pause = time.Duration(rng.Int64N(int64(5 * window)))
			}
			at.now = at.now.Add(pause)
			if rng.IntN(2) == 0 {
				c.sweep(at.now)
				for range rng.IntN(60) {
					i := rng.IntN(len(keys))
					c.add(keys[i], at.now)
					last[i] = at.now
				}
			}
			for i, h := range keys {
				switch age, found := at.now.Sub(last[i]), c.contains(h, at.now); {
				case age < window && !found:
					t.Fatalf("life %d: key %d is missed %v after it was added", life, i, age)
				case age >= window+c.tick:
					absent++
					if found {
						wrong++
					}
				}
			}
		}
		if absent < 100_000 || float64(wrong) > float64(absent)*windowRate {
			t.Errorf("life %d: %d of %d absent keys found", life, wrong, absent)
		}
	}
}

// stream is the activity of one user over time: batches of 20 keys.
type stream []time.Time

const batchKeys = 20

// steadyStream returns 210 batches per window, at equal intervals.
func steadyStream(windows int) (s stream) {
	from := newClock().now
	for i := range 210 * windows {
		s = append(s, from.Add(time.Duration(i)*(window/210)))
	}
	return s
}

// burstyStream returns sessions whose intervals and lengths have heavy tails, with up to 200
// batches within an hour. It also has 210 batches per window on average.
func burstyStream(windows int) (s stream) {
	rng := rand.New(rand.NewPCG(9, 9))
	pareto := func(alpha, least, most float64) float64 {
		return min(most, least*math.Pow(1-rng.Float64(), -1/alpha))
	}
	from := newClock().now
	end := from.Add(time.Duration(windows) * window)
	for now := from; ; {
		now = now.Add(time.Duration(pareto(1.3, 0.0085, 3) * float64(window)))
		for i := range int(pareto(1.1, 2, 200)) {
			s = append(s, now.Add(time.Duration(i)*15*time.Second))
		}
		if now.After(end) {
			return s
		}
	}
}

// most returns the largest number of keys in any span of the stream of the given length.
func (s stream) most(length time.Duration) int {
	most, from := 0, 0
	for i := range s {
		for s[i].Sub(s[from]) > length {
			from++
		}
		most = max(most, i-from+1)
	}
	return most * batchKeys
}

// forgetter keeps keys for a window.
type forgetter interface {
	sweep(now time.Time) (written int)                                    // bytes; before add
	add(t testing.TB, keys []favfilter.Hash, now time.Time) (written int) // bytes
	find(t testing.TB, keys []favfilter.Hash, now time.Time) (found []bool)
	size(t testing.TB, now time.Time) int // bytes
}

// ringForgetter is a Ring in a Memory. It reads before it adds, as a feed does.
type ringForgetter struct {
	*favfilter.Ring

	store  *favfilter.Memory
	at     *clock
	loaded []favfilter.Loaded
}

func newRingForgetter(t testing.TB, parts int) *ringForgetter {
	t.Helper()
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	return &ringForgetter{
		Ring: newRing(t, store, favfilter.RingConfig{Length: window, Parts: parts, FalsePositiveRate: windowRate}), store: store, at: at,
	}
}

func (r *ringForgetter) load(t testing.TB, now time.Time) {
	t.Helper()
	r.at.now = now
	loaded, err := r.store.Load(t.Context(), r.Pages(favfilter.PageID{Part: "w"}, now))
	if err != nil {
		t.Fatal(err)
	}
	r.loaded = loaded
}

// sweep does nothing: the store drops expired parts.
func (r *ringForgetter) sweep(time.Time) int { return 0 }

func (r *ringForgetter) add(t testing.TB, keys []favfilter.Hash, now time.Time) int {
	t.Helper()
	r.load(t, now)
	if _, err := r.Add(t.Context(), favfilter.PageID{Part: "w"}, now, keys, r.loaded); err != nil {
		t.Fatal(err)
	}
	r.load(t, now)
	raw, _ := r.loaded[0].Page.Encode()
	return len(raw)
}

func (r *ringForgetter) find(t testing.TB, keys []favfilter.Hash, now time.Time) []bool {
	t.Helper()
	r.load(t, now)
	pages := make([]*favfilter.Page, 0, len(r.loaded))
	for _, l := range r.loaded {
		if p := r.Usable(l); p != nil {
			pages = append(pages, p)
		}
	}
	found := make([]bool, len(keys))
	for i, h := range keys {
		found[i] = slices.ContainsFunc(pages, func(p *favfilter.Page) bool { return p.Contains(h) })
	}
	return found
}

func (r *ringForgetter) size(t testing.TB, now time.Time) (bytes int) {
	t.Helper()
	r.load(t, now)
	for _, l := range r.loaded {
		if l.Page != nil {
			raw, collisions := l.Page.Encode()
			bytes += len(raw) + len(collisions)
		}
	}
	return bytes
}

// cellsForgetter is cells in place, without a store.
type cellsForgetter struct{ *cells }

// add counts nibbles.
func (c cellsForgetter) add(_ testing.TB, keys []favfilter.Hash, now time.Time) (written int) {
	for _, h := range keys {
		c.cells.add(h, now)
	}
	return (len(keys)*c.hashes + 1) / 2
}

func (c cellsForgetter) find(_ testing.TB, keys []favfilter.Hash, now time.Time) []bool {
	found := make([]bool, len(keys))
	for i, h := range keys {
		found[i] = c.contains(h, now)
	}
	return found
}

func (c cellsForgetter) size(testing.TB, time.Time) int { return len(c.raw) }
