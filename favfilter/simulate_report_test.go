package favfilter_test

import (
	"fmt"
	"testing"
)

// BenchmarkShapes prints what shapes cost, as a table of docs/BENCHMARKS.md.
//
//	go test ./favfilter -run '^$' -bench Shapes -benchtime 1x
func BenchmarkShapes(b *testing.B) {
	for b.Loop() {
		fmt.Print("\n| rate of a key | k, R, headroom | bytes a key | rebuilt | waits |\n|---|---|---|---|---|\n")
		for _, g := range append([]geometry{{0.00025, 8, 8, 1.25, 3}}, served()...) {
			grown, churned, waits := g.simulate()
			fmt.Printf("| %g %% | %d, %d, %g | %.2f | %.2f | %.0f |\n", 100*g.rate, g.hashes, g.region, g.headroom, grown, churned, waits)
		}
	}
}

// simulate lets pages grow, and replaces half of their keys. It returns the bytes of an activity in
// Redis, after growth and after the replacement, and the removals in 1,000 that need a rebuild.
func (g geometry) simulate() (grown, churned, waits float64) {
	sizes := simulatedSizes()
	for i, keys := range sizes {
		l := newLife(g, uint64(i))
		bytes := func() float64 { return float64(bytesOf(l.page)) / float64(keys) / float64(len(sizes)) }
		for range keys {
			l.add()
		}
		grown += bytes()
		l.tally = tally{}
		for range keys / 2 {
			l.remove()
			l.add()
		}
		churned += bytes()
		waits += perThousand(l.jammed, l.removals) / float64(len(sizes))
	}
	return grown, churned, waits
}
