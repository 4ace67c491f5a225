package bench_test

import (
	"testing"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// BenchmarkKeys builds, hashes and tests the keys of a whole feed in process.
func BenchmarkKeys(b *testing.B) {
	p, err := bench.OpenProcess(b.Context(), b.TempDir(), 1)
	if err != nil {
		b.Fatal(err)
	}
	c := p.Keys()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Do(b.Context(), n); err != nil {
			b.Fatal(err)
		}
		n++
	}
	const keys = 500 * bench.KeysPerCandidate
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
	if err := p.Subject.Close(); err != nil {
		b.Fatal(err)
	}
}
