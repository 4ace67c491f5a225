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

func benchHashes(seed uint64) []favfilter.Hash {
	rng := rand.New(rand.NewPCG(31, seed))
	hashes := make([]favfilter.Hash, benchKeys)
	for i := range hashes {
		hashes[i] = randomHash(rng)
	}
	return hashes
}

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

func BenchmarkHashKeyBytes(b *testing.B) {
	keys := make([][]byte, benchKeys)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "U%d_P%d", 1_000_000+i*7, 30_000_000+i*13)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		favfilter.HashKeyBytes(1, keys[i%benchKeys])
	}
}

func BenchmarkContains(b *testing.B) {
	page, in := benchPage(b)
	benchContains(b, page, in)
}

// benchContains looks up keys that are in the page, and others.
func benchContains(b *testing.B, page *favfilter.Page, in []favfilter.Hash) {
	b.Helper()
	out := benchHashes(1)
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			page.Contains(in[i%len(in)])
		}
	})
	b.Run("miss", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			page.Contains(out[i%benchKeys])
		}
	})
}

// BenchmarkContainsLayers is BenchmarkContains for a page created for a sixteenth of its keys.
func BenchmarkContainsLayers(b *testing.B) {
	page := growing(b, 0.001, 290)
	var in []favfilter.Hash
	keys := benchHashes(5)[:4300]
	for i, o := range addGrowing(page, 0.001, keys...) {
		if o == favfilter.Added {
			in = append(in, keys[i])
		}
	}
	b.Logf("%d layers", len(page.Layers()))
	benchContains(b, page, in)
}

// BenchmarkApplyGrowing adds 1,000 keys at a time to a page that grows.
func BenchmarkApplyGrowing(b *testing.B) {
	keys := benchHashes(6)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		from := i * 1000 % (benchKeys - 1000)
		addGrowing(growing(b, 0.001, 1000), 0.001, keys[from:from+1000]...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/key")
}

// BenchmarkInsertRemove inserts a key into a half-full page and removes it again. Collision bits
// stay set, so it replaces the page before they prevent removals.
func BenchmarkInsertRemove(b *testing.B) {
	s := shapeFor(b, 4300, 0.001)
	half := emptyPage(b, s)
	fill(rand.New(rand.NewPCG(33, 0)), half, s.Limit(0.001)/2)
	keys := benchHashes(2)
	var page *favfilter.Page
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			page = half.Clone()
		}
		h := keys[i%benchKeys]
		page.Insert(h)
		page.Remove(h)
	}
}

// BenchmarkBuildPage builds a page of 5,000 keys from their hashes, as a rebuild does.
func BenchmarkBuildPage(b *testing.B) {
	const keys = 5000
	s := shapeFor(b, keys, 0.001)
	hashes := benchHashes(4)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		page := emptyPage(b, s)
		from := i * keys % (benchKeys - keys)
		for _, h := range hashes[from : from+keys] {
			page.Insert(h)
		}
		page.Encode()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}

func BenchmarkDecode(b *testing.B) {
	page, _ := benchPage(b)
	raw, collisions := page.Encode()
	b.ReportAllocs()
	for b.Loop() {
		decodePage(b, raw, collisions)
	}
}

// Looking up a key, and changing a page, allocates nothing.
func TestNoAllocations(t *testing.T) {
	page, in := benchPage(t)
	empty := emptyPage(t, page.Header().Shape)
	key, keyBytes := "U1000001_P30000001", []byte("U1000001_P30000001")
	positions := make([]uint32, 0, favfilter.MaxHashes)
	for name, f := range map[string]func(){
		"HashKey":       func() { favfilter.HashKey(1, key) },
		"HashKeyBytes":  func() { favfilter.HashKeyBytes(1, keyBytes) },
		"Contains hit":  func() { page.Contains(in[0]) },
		"Contains miss": func() { page.Contains(favfilter.Hash{}) },
		"Positions":     func() { page.Header().Shape.Positions(positions, in[0]) },
		"Insert":        func() { empty.Insert(in[0]) },
		"Remove absent": func() { page.Remove(favfilter.Hash{}) },
		"Encode":        func() { page.Encode() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { empty.Remove(in[1]); empty.Insert(in[1]); empty.Remove(in[1]) }); n != 0 {
		t.Errorf("Add and Remove allocate %g times", n)
	}
}
