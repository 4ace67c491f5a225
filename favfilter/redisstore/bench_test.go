package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkApply adds keys to 960 pages, all at once or in calls of a few pages. It reports the CPU
// time of Redis for a page.
func BenchmarkApply(b *testing.B) {
	for _, capacity := range []int{80, 400, 1600, 6400} {
		for _, keys := range []int{1, 3, 8} {
			for _, at := range []int{60, 960} {
				shape := shapeFor(b, capacity)
				b.Run(fmt.Sprintf("%d bytes/%d keys/%d pages", shape.Bits/8, keys, at), func(b *testing.B) {
					server := redistest.Start(b)
					client := dial(b, server.Addr())
					s := openStore(b, client, "bench")
					ids := pageIDs(960)
					whole := favfilter.Identity{Seed: 42, Pages: 1024, Incarnation: 7}
					for _, id := range ids {
						page, err := favfilter.NewPage(favfilter.Header{Identity: whole, Shape: shape, Number: id.Number, Build: 1})
						must(b, err)
						put(b, s, id, page)
					}
					cpu := func() (seconds float64) {
						for line := range strings.Lines(client.Info(b.Context(), "cpu").Val()) {
							name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
							if name == "used_cpu_user" || name == "used_cpu_sys" {
								n, err := strconv.ParseFloat(value, 64)
								must(b, err)
								seconds += n
							}
						}
						return seconds
					}
					start, n, sequence := cpu(), 0, uint64(0)
					for b.Loop() {
						sequence++
						var all []favfilter.Batch
						for _, id := range ids {
							batch := favfilter.Batch{ID: id, Identity: whole, Sequence: sequence}
							if sequence%2 == 1 {
								batch.Add = hashes(id.Number, 0, keys)
							} else {
								batch.Remove = hashes(id.Number, 0, keys)
							}
							all = append(all, batch)
						}
						for len(all) > 0 {
							for _, res := range s.Apply(b.Context(), all[:at]) {
								if res.Err != nil || res.State != favfilter.Applied {
									b.Fatalf("%+v", res)
								}
							}
							all = all[at:]
							n += at
						}
					}
					b.ReportMetric((cpu()-start)/float64(n)*1e6, "redis-us/page")
				})
			}
		}
	}
}
