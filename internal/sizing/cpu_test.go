package sizing

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkRedisCPU reports the CPU time of the whole Redis process for a feed check, with 16
// callers. The constants of the model come from it. A page is read with the window of a user of 650
// keys.
func BenchmarkRedisCPU(b *testing.B) {
	client := redistest.Start(b).Client()
	for _, page := range []int{2042, 8186, 32_762, 131_062} {
		b.Run(fmt.Sprint("page/", page), func(b *testing.B) {
			keys := []string{"page", "window"}
			must(b, client.Set(b.Context(), keys[0], strings.Repeat("x", page), 0).Err())
			must(b, client.Set(b.Context(), keys[1], strings.Repeat("x", 1373), 0).Err())
			reportCPU(b, client, func(ctx context.Context) error { return client.MGet(ctx, keys...).Err() })
		})
	}
}

func reportCPU(b *testing.B, client *redis.Client, call func(context.Context) error) {
	b.Helper()
	before := processCPU(b, client)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric((processCPU(b, client)-before)/float64(b.N)*1e6, "us-CPU/feed")
}

// processCPU returns the CPU time of the server in seconds.
func processCPU(b *testing.B, client *redis.Client) float64 {
	b.Helper()
	info, err := client.Info(b.Context(), "cpu").Result()
	must(b, err)
	total := 0.0
	for line := range strings.Lines(info) {
		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
				seconds, err := strconv.ParseFloat(text, 64)
				must(b, err)
				total += seconds
			}
		}
	}
	return total
}

func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
