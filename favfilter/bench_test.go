package favfilter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Keys and hashes come from pools of 65,536. With a few repeated keys, the branch predictor learns
// the answers, and benchmarks are too fast by a factor of two.
const benchKeys = 1 << 16

// benchPage returns a page of 8 KiB filled to its limit, about 4,330 keys.
func benchPage(b testing.TB) (*favfilter.Page, []favfilter.Hash) {
	b.Helper()
	s := shapeFor(b, 4300, 0.001)
	page := emptyPage(b, s)
	return page, fill(rand.New(rand.NewPCG(32, 0)), page, s.Limit(0.001))
}

func BenchmarkHashKey(b *testing.B) {
	keys := make([]string, benchKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("U%d_P%d", 1_000_000+i*7, 30_000_000+i*13)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		favfilter.HashKey(1, keys[i%benchKeys])
	}
}

// BenchmarkContains looks up keys that are in the page, and others.
func BenchmarkContains(b *testing.B) {
	page, in := benchPage(b)
	rng, out := rand.New(rand.NewPCG(31, 1)), make([]favfilter.Hash, benchKeys)
	for i := range out {
		out[i] = randomHash(rng)
	}
	for name, keys := range map[string][]favfilter.Hash{"hit": in, "miss": out} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				page.Contains(keys[i%len(keys)])
			}
		})
	}
}

// BenchmarkContainsAll looks up 500 keys that are not in the page, as a feed check does.
func BenchmarkContainsAll(b *testing.B) {
	page, _ := benchPage(b)
	rng, ids := rand.New(rand.NewPCG(33, 0)), make([]favfilter.Hash, benchKeys)
	for i := range ids {
		ids[i] = randomHash(rng)
	}
	const feed = 500
	start, found := favfilter.HashStart(1, "hide:U1_P"), make([]bool, feed)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + feed) % (benchKeys - feed) {
		page.ContainsAll(start, ids[i:i+feed], found)
	}
}

// BenchmarkInsert inserts keys into empty pages until they are full. No key of a benchmark is
// inserted twice: all its bits would be set.
func BenchmarkInsert(b *testing.B) {
	full, keys := benchPage(b)
	empty := emptyPage(b, full.Header().Shape)
	page := empty.Clone()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(keys) {
			b.StopTimer()
			i, page = 0, empty.Clone()
			b.StartTimer()
		}
		page.Insert(keys[i])
	}
}

// BenchmarkRemove removes half of the keys of full pages.
func BenchmarkRemove(b *testing.B) {
	full, keys := benchPage(b)
	page := full.Clone()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(keys)/2 {
			b.StopTimer()
			i, page = 0, full.Clone()
			b.StartTimer()
		}
		page.Remove(keys[i])
	}
}

// BenchmarkDecode decodes a full page, which counts its bits.
func BenchmarkDecode(b *testing.B) {
	page, _ := benchPage(b)
	raw, collisions := page.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if l := decode(raw, collisions); l.Damage != nil {
			b.Fatal(l.Damage)
		}
	}
}

// BenchmarkPageApply applies a guarded batch of one removal and one new key to full pages.
func BenchmarkPageApply(b *testing.B) {
	full, keys := benchPage(b)
	rng, fresh := rand.New(rand.NewPCG(34, 0)), make([]favfilter.Hash, len(keys)/8)
	for i := range fresh {
		fresh[i] = randomHash(rng)
	}
	page := full.Clone()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(fresh) {
			b.StopTimer()
			i, page = 0, full.Clone()
			b.StartTimer()
		}
		guarded(page, keys[i:i+1], fresh[i:i+1])
	}
}

// Looking up a key, and changing a page, allocates nothing.
func TestNoAllocations(t *testing.T) {
	page, in := benchPage(t)
	empty := emptyPage(t, page.Header().Shape)
	key, keyBytes := "U1000001_P30000001", []byte("U1000001_P30000001")
	positions := make([]uint32, 0, favfilter.MaxHashes)
	for name, f := range map[string]func(){
		"HashKey":        func() { favfilter.HashKey(1, key) },
		"HashStartBytes": func() { favfilter.HashStartBytes(1, keyBytes) },
		"Contains hit":   func() { page.Contains(in[0]) },
		"Contains miss":  func() { page.Contains(favfilter.Hash{}) },
		"Positions":      func() { page.Header().Shape.Positions(positions, in[0]) },
		"Insert":         func() { empty.Insert(in[0]) },
		"Remove absent":  func() { page.Remove(favfilter.Hash{}) },
		"Encode":         func() { page.Encode() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { empty.Remove(in[1]); empty.Insert(in[1]); empty.Remove(in[1]) }); n != 0 {
		t.Errorf("Add and Remove allocate %g times", n)
	}
}
