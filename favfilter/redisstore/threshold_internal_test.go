package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// oneWay is a store that applies batches of any size only by script, or only by compare-and-swap.
type oneWay struct {
	*Store

	swaps bool
}

func (s oneWay) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	results, all := make([]favfilter.Result, len(batches)), make([]int, len(batches))
	for i := range all {
		all[i] = i
	}
	if s.swaps {
		s.swap(ctx, batches, results, all)
	} else {
		s.applyByScript(ctx, batches, results, all)
	}
	return results
}

// BenchmarkScriptOrSwap provides the data for maxScriptKeys. It applies the same batches by script
// and by compare-and-swap, to two different pages, in turn with a PING. Run it with -benchtime 1x;
// a size takes some seconds.
func BenchmarkScriptOrSwap(b *testing.B) {
	for page, keys := range []int{1, 2, 4, 8, 12, 16, 24, 32, 64, 100} {
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			client := redistest.Start(b).Client()
			store, err := New(client, "bench")
			if err != nil {
				b.Fatal(err)
			}
			server := bench.Server{Client: client}
			calls := []bench.Call{
				server.Ping(),
				bench.Write("by script", oneWay{store, false}, uint32(page), keys),
				bench.Write("by swap", oneWay{store, true}, uint32(page)+1, keys),
			}
			for b.Loop() {
				scriptOrSwap(b, server, calls)
			}
		})
	}
}

func scriptOrSwap(b *testing.B, server bench.Server, calls []bench.Call) {
	b.Helper()
	const each = time.Second
	samples, err := bench.Interleave(b.Context(), each*time.Duration(len(calls)), calls...)
	if err != nil {
		b.Fatal(err)
	}
	usages, err := bench.Use(b.Context(), each, []bench.Meter{server.CPU}, calls...)
	if err != nil {
		b.Fatal(err)
	}
	ping := float64(samples[0].Median())
	b.ReportMetric(0, "ns/op") // the time of all together has no meaning
	b.ReportMetric(ping/1e3, "us/PING")
	for i, way := range []string{"script", "swap"} {
		b.ReportMetric(float64(samples[i+1].Median())/ping, "x-PING/"+way)
		b.ReportMetric(usages[i+1].PerCall(0)-usages[0].PerCall(0), "us-Redis/"+way)
	}
}
