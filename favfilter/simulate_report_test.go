package favfilter_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// BenchmarkShapes prints what shapes cost, as a table of docs/BENCHMARKS.md.
//
//	go test ./favfilter -run '^$' -bench Shapes -benchtime 1x
func BenchmarkShapes(b *testing.B) {
	for b.Loop() {
		fmt.Print("\n" + tableHead)
		for _, rate := range []float64{0.00025, 0.001} {
			for _, share := range []float64{2. / 3, 5. / 6, 1} {
				for _, region := range []uint16{8, 6, 5, 4, 3} {
					g := geometry{rate, uint8(math.Round(share * math.Log2(1/rate))), region, servedHeadroom, 3}
					fmt.Print(g.row(simulate(g)))
				}
			}
		}
		for _, g := range variants() {
			fmt.Print(g.row(simulate(g)))
		}
	}
}

// BenchmarkResidue reports how many of the keys removed from a page of 1,000 are reported later.
// Each removal clears at least one, two or three bits, and then a tenth of the page is added as new
// keys.
//
//	go test ./favfilter -run '^$' -bench Residue -benchtime 1x
func BenchmarkResidue(b *testing.B) {
	const pages, keys, changes = 500, 1000, 100
	for _, g := range served() {
		for least := 1; least <= 3; least++ {
			b.Run(fmt.Sprintf("rate=%g,least=%d", g.rate, least), func(b *testing.B) {
				for b.Loop() {
					removed, reported := 0, 0
					for seed := range uint64(pages) {
						l := newLife(g, seed)
						for range keys {
							l.put(randomHash(l.rng))
						}
						l.anew()
						page, gone := l.page, l.live[:0:0]
						for _, h := range l.live[:changes] {
							if own, _ := clearable(page, h); own >= least && page.Remove(h) == favfilter.Removed {
								gone = append(gone, h)
							}
						}
						for range changes {
							page.Insert(randomHash(l.rng))
						}
						removed += len(gone)
						for _, h := range gone {
							if page.Contains(h) {
								reported++
							}
						}
					}
					b.ReportMetric(100*float64(reported)/float64(removed), "%reported")
					b.ReportMetric(float64(removed), "removed")
				}
			})
		}
	}
}

// variants returns the other rows of the table: with other headrooms, and with other numbers of
// bits that a removal must clear.
func variants() []geometry {
	var all []geometry
	for _, rate := range []float64{0.00025, 0.001} {
		k := uint8(math.Round(5. / 6 * math.Log2(1/rate)))
		before := uint8(math.Round(2. / 3 * math.Log2(1/rate)))
		all = append(all, geometry{rate, before, 8, 1.25, 3})
		for _, headroom := range []float64{1.02, 1.1, 1.25} {
			all = append(all, geometry{rate, k, 4, headroom, 3})
		}
		for _, least := range []int{1, 2} {
			all = append(all, geometry{rate, k, 4, servedHeadroom, least}, geometry{rate, k, 8, servedHeadroom, least})
		}
	}
	return all
}

const tableHead = "| rate | k | R | headroom | least | bits a key | B grown | B churned | waits /1000 | fullest | no bit | full /1000 | stuck | late " +
	"| fp mean | fp worst | grow /1000 | shrink waits, shrunk |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

func (g geometry) row(f figures) string {
	c := f.churn
	return fmt.Sprintf("| %g %% | %d | %d | %g | %d | %.1f | %.2f | %.2f | %.0f | %.0f | %.1f | %.1f | %d/%d | %d/%d = %.4f %% | %.4f %% | %.4f %% | %.1f | %.0f, %.1f |\n",
		100*g.rate, g.hashes, g.region, g.headroom, g.least, g.perKey(), f.grown, f.churned,
		perThousand(c.jammed, c.removals), f.waits, perThousand(c.bare, c.removals), perThousand(c.full, c.removals),
		c.stuck, c.removals, c.late, c.looked, 100*float64(c.late)/float64(c.looked), 100*c.rates/c.changes, 100*c.worst,
		perThousand(f.growth.full, f.growth.adds), perThousand(f.shrink.jammed, f.shrink.removals), perThousand(f.shrink.shrunk, f.shrink.removals))
}
