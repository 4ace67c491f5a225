package favfilter_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkShapesInRedis measures on a server what the simulation computes. Its pages hold 2
// million activities of 20,000 users, some with many. It measures them as they have grown, and
// again after replacing a twentieth of all activities.
// after replacing a twentieth of all activities.
//
//	go test ./favfilter -run '^$' -bench ShapesInRedis -benchtime 1x
func BenchmarkShapesInRedis(b *testing.B) {
	people, err := bench.NewPopulation(20_000, 2_000_000, 1)
	if err != nil {
		b.Fatal(err)
	}
	for _, g := range []geometry{
		{0.001, 7, 8, 1.25, 3}, {0.001, 8, 4, 1.05, 3}, {0.00025, 8, 8, 1.25, 3}, {0.00025, 10, 4, 1.05, 3},
		{0.001, 8, 5, 1.05, 3}, {0.00025, 10, 5, 1.05, 3},
	} {
		b.Run(fmt.Sprintf("rate=%g,k=%d,R=%d,headroom=%g", g.rate, g.hashes, g.region, g.headroom), func(b *testing.B) {
			for b.Loop() {
				measureInRedis(b, people, g)
			}
		})
	}
}

func measureInRedis(b *testing.B, people *bench.Population, g geometry) {
	b.Helper()
	server := redistest.Start(b)
	store, err := redisstore.New(server.Client(), "shapes")
	if err != nil {
		b.Fatal(err)
	}
	identity := favfilter.Identity{Seed: 7, Pages: bench.NumberFor(people.Entries())}
	lives := make([]*life, identity.Pages)
	for i := range lives {
		lives[i] = newLife(g, uint64(i))
		lives[i].where = favfilter.Header{Identity: identity, Number: uint32(i), Build: 1}
		lives[i].anew()
	}
	place(b, store, newLife(g, 0)) // so that the server knows the script
	empty := usedMemory(b, server)
	for e := range people.AllEntries() {
		page := favfilter.PageNumber(favfilter.HashKey(identity.Seed, e.Owner).H1, identity.Pages)
		lives[page].put(favfilter.HashKey(identity.Seed, e.Kind+":"+e.Owner+"_"+e.Target))
	}
	entries := float64(people.Entries())
	place(b, store, lives...)
	b.ReportMetric(float64(usedMemory(b, server)-empty)/entries, "B/activity")
	var sum tally
	for _, l := range lives {
		l.tally = tally{}
		for range len(l.live) / 20 {
			l.remove()
			l.add()
		}
		sum.add(l.tally)
	}
	place(b, store, lives...)
	b.ReportMetric(float64(usedMemory(b, server)-empty)/entries, "B/activity-churned")
	b.ReportMetric(perThousand(sum.jammed, sum.removals), "waits/1000-removals")
	b.ReportMetric(perThousand(sum.full, sum.removals), "full/1000-removals")
	b.ReportMetric(100*sum.rates/sum.changes, "%false-positives")
	b.ReportMetric(100*sum.worst, "%false-positives-worst")
	b.ReportMetric(0, "ns/op")
}

// place stores the pages.
func place(b *testing.B, store favfilter.Store, lives ...*life) {
	b.Helper()
	for _, l := range lives {
		id := favfilter.PageID{Number: l.where.Number}
		loaded, err := store.Load(b.Context(), []favfilter.PageID{id})
		if err != nil {
			b.Fatal(err)
		}
		if placed, err := store.Replace(b.Context(), favfilter.Replacement{ID: id, Page: l.page, Seen: loaded[0].Version}); err != nil || !placed {
			b.Fatalf("page %d: placed %v, %v", id.Number, placed, err)
		}
	}
}

func usedMemory(b *testing.B, server *redistest.Server) int {
	b.Helper()
	info, err := server.Client().Info(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if used, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.Atoi(used)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("the server does not report its memory")
	return 0
}
