package pages

import (
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkRecord records hides one at a time and 1,000 at a time, one caller.
func BenchmarkRecord(b *testing.B) {
	stores := map[string]func() favfilter.Store{
		"memory": func() favfilter.Store { return &favfilter.Memory{} },
		"redis":  func() favfilter.Store { return redisStore(b, redistest.Start(b)) },
	}
	for _, name := range []string{"memory", "redis"} {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				g := newRig(b, stores[name](), 256)
				next := 0
				for b.Loop() {
					batch := make([]act, n)
					for i := range batch {
						batch[i] = add(fmt.Sprint("u", next%500), "hide", fmt.Sprint("p", next))
						next++
					}
					if _, err := g.Record(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "activities/s")
			})
		}
	}
}

// BenchmarkRebuild rebuilds a page of 5,000 activities from a SQLite ledger.
func BenchmarkRebuild(b *testing.B) {
	g := newRig(b, &favfilter.Memory{}, 1)
	fillPages(b, g, 5000, 50)
	for b.Loop() {
		if _, err := g.rebuilder.rebuild(b.Context(), 0, 0, "benchmark", 100); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRedisMemory reports what an activity costs in Redis. It includes both strings of a page,
// the Redis keys and the allocator, after rebuilds have grown the page to its size.
func BenchmarkRedisMemory(b *testing.B) {
	for _, perPage := range []int{1000, 3000, 10_000} {
		b.Run(fmt.Sprint(perPage, " a page"), func(b *testing.B) {
			const pages = 16
			for b.Loop() {
				server := redistest.Start(b)
				g := newRig(b, redisStore(b, server), pages)
				fillPages(b, g, pages*perPage, pages*20)
				b.ReportMetric(float64(memoryUsage(b, server))/float64(pages*perPage), "B/activity")
			}
		})
	}
}

// memoryUsage is the sum of MEMORY USAGE of all keys, in bytes.
func memoryUsage(b *testing.B, server *redistest.Server) int64 {
	b.Helper()
	keys, err := server.Client().Keys(b.Context(), "*").Result()
	must(b, err)
	total := int64(0)
	for _, k := range keys {
		n, err := server.Client().MemoryUsage(b.Context(), k).Result()
		must(b, err)
		total += n
	}
	return total
}

// fillPages records n hides of that many users.
func fillPages(b *testing.B, g *rig, n, users int) {
	b.Helper()
	var batch []act
	for i := range n {
		batch = append(batch, add(fmt.Sprint("u", i%users), "hide", fmt.Sprint("p", i)))
		if len(batch) == 2000 || i == n-1 {
			if _, err := g.Record(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}
