package feed_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// feedsPerWrite is how many feeds of 500 posts a viewer reads between two writes: one every five
// seconds, and one write a minute.
const feedsPerWrite = 12

// BenchmarkLargePages checks feeds of viewers with very many activities, who write once a minute.
// It reports the median and the 99th percentile of a feed, and the memory of the process. For Redis
// it reports the processor time of a feed, and the bytes received and sent.
func BenchmarkLargePages(b *testing.B) {
	for _, keys := range []int{400_000, 1_000_000, 5_000_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) { largePage(b, keys) })
	}
}

func largePage(b *testing.B, keys int) {
	b.Helper()
	server := redistest.Start(b)
	r := openWith(b, activity.Config{Ledger: openLedger(b, 1024), Store: redisStore(b, server), ScrubRate: 1})
	bulk := r.NewBulk()
	for from := 0; from < keys; from += 200_000 {
		var batch []activity.Activity
		for i := range min(200_000, keys-from) {
			batch = append(batch, activity.Activity{User: "bot", Kind: "hide", Target: fmt.Sprint("b", from+i)})
		}
		recordBulk(b, r, bulk, batch)
	}
	must(b, bulk.Finish(b.Context()))
	rng, requests, n := rand.New(rand.NewPCG(1, 1)), candidates(500), 0
	once := func() time.Duration {
		n++
		if n%feedsPerWrite == 0 {
			_, err := r.Record(b.Context(), []activity.Activity{{User: "bot", Kind: "hide", Target: fmt.Sprint("late", n)}})
			must(b, err)
		}
		q := requests[rng.IntN(len(requests))]
		q.Viewer = "bot"
		start := time.Now()
		_, err := feed.Filter(b.Context(), r, q)
		must(b, err)
		return time.Since(start)
	}
	for range 3 * feedsPerWrite {
		once()
	}
	var took []time.Duration
	before := usage(b, server)
	for b.Loop() {
		took = append(took, once())
	}
	after := usage(b, server)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	for name, of := range after {
		b.ReportMetric((of-before[name])/float64(len(took)), name+"/feed")
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
}

// usage returns the processor time of the server in microseconds, and the bytes that it sent and
// got.
func usage(b *testing.B, server *redistest.Server) map[string]float64 {
	b.Helper()
	text, err := server.Client().InfoMap(b.Context(), "cpu", "stats").Result()
	must(b, err)
	number := func(section, name string) float64 {
		n, err := strconv.ParseFloat(strings.TrimSpace(text[section][name]), 64)
		must(b, err)
		return n
	}
	return map[string]float64{
		"redis-us":  1e6 * (number("CPU", "used_cpu_user") + number("CPU", "used_cpu_sys")),
		"redis-in":  number("Stats", "total_net_input_bytes"),
		"redis-out": number("Stats", "total_net_output_bytes"),
	}
}
