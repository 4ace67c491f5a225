package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A page takes the whole block that the server's allocator gives it. With one more byte it would
// take a larger block.
func TestPagesFillTheirBlocks(t *testing.T) {
	client := withJemalloc(t)
	s := openStore(t, client, "memory")
	for i, capacity := range []int{0, 300, 2000, 4329, 34_897, 34_898, 100_000} {
		id := favfilter.PageID{Number: uint32(i)}
		page := newPage(t, id.Number, shapeFor(t, capacity))
		put(t, s, id, page)
		raw, _ := page.Encode()
		key := fmt.Sprintf("fav:{memory/%d}:bits", i)
		full := memoryUsage(t, client, key)
		// The name and the entry of the key also take memory.
		if around := full - int64(len(raw)); around < 0 || around > 150 {
			t.Errorf("%d bytes of a page take %d in all", len(raw), full)
		}
		must(t, client.Set(t.Context(), key, append(raw, 0), 0).Err())
		if more := memoryUsage(t, client, key); more < full+int64(len(raw))/9 {
			t.Errorf("a page of %d bytes takes %d, one with a byte more %d: its block was not full", len(raw), full, more)
		}
	}
}

// withJemalloc starts a server and skips the test if the server does not use jemalloc.
func withJemalloc(t *testing.T) *redis.Client {
	t.Helper()
	client := redistest.Start(t).Client()
	info, err := client.Info(t.Context(), "memory").Result()
	must(t, err)
	if !strings.Contains(info, "mem_allocator:jemalloc") {
		t.Skip("this server does not use jemalloc, for which pages are sized")
	}
	return client
}

// memoryUsage returns the memory of a key, its name and entry included.
func memoryUsage(t *testing.T, client *redis.Client, key string) int64 {
	t.Helper()
	n, err := client.MemoryUsage(t.Context(), key).Result()
	must(t, err)
	return n
}

// A user's window is one string of few bytes, at a service's default rate. Keys are spread evenly
// over 30 days and written day by day. The 30 days begin on each day of a part.
func TestWindowsTakeFewBytes(t *testing.T) {
	client := withJemalloc(t)
	windows, err := seen.Open(openStore(t, client, "feed"), seen.Config{
		Name: "seen", Length: 30 * day, FalsePositiveRate: activity.BuiltinKinds().Rates(0.001).Window,
	})
	must(t, err)
	for _, c := range []struct{ keys, most int }{
		{50, 400}, // bytes
		{650, 650 * 26 / 10},
		{5000, 5000 * 24 / 10},
	} {
		for phase := range 5 {
			owner := favfilter.HashKey(0, fmt.Sprint(c.keys, phase)).H1
			see(t, windows, owner, c.keys, partStart().AddDate(0, 0, phase))
			keys, err := client.Keys(t.Context(), "*"+windows.ID(owner).Part+":*").Result()
			if err != nil || len(keys) != 1 {
				t.Fatalf("strings %q, %v, want one", keys, err)
			}
			length, usage := client.StrLen(t.Context(), keys[0]).Val(), memoryUsage(t, client, keys[0])
			t.Logf("%d keys from day %d of a part on: string of %d bytes, memory %d bytes, %.2f a key",
				c.keys, phase, length, usage, float64(usage)/float64(c.keys))
			if usage > int64(c.most) || c.keys == 650 && length > 2<<10 {
				t.Errorf("%d keys from day %d of a part on: string of %d bytes, memory %d bytes, want at most %d", c.keys, phase, length, usage, c.most)
			}
		}
	}
}

const day = 24 * time.Hour

// partStart returns when a part of five days begins.
func partStart() time.Time { return time.UnixMilli(4000 * (5 * day).Milliseconds()).UTC() }

// see makes an owner see posts evenly over 30 days.
func see(t *testing.T, windows *seen.Windows, owner uint64, posts int, from time.Time) {
	t.Helper()
	for n := range 30 {
		var b seen.Batch
		for post := n * posts / 30; post < (n+1)*posts/30; post++ {
			b.Add(windows, owner, favfilter.HashKey(0, fmt.Sprint(owner, " ", post)), time.Time{}, post)
		}
		_, err := b.Write(t.Context(), from.Add(time.Duration(n)*day+12*time.Hour))
		must(t, err)
	}
}
