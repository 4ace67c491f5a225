package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A page takes the whole block that the server's allocator gives it: one more byte would take a
// larger block.
func TestPagesFillTheirBlocks(t *testing.T) {
	client := redistest.Start(t).Client()
	info, err := client.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(info, "mem_allocator:jemalloc") {
		t.Skip("this server does not use jemalloc, for which pages are sized")
	}
	s := openStore(t, client, "memory")
	for i, capacity := range []int{0, 300, 2000, 4329, 34_897, 34_898, 100_000} {
		id := favfilter.PageID{Number: uint32(i)}
		page := newPage(t, id.Number, shapeFor(t, capacity))
		put(t, s, id, page)
		raw, _ := page.Encode()
		key := fmt.Sprintf("fav:{memory/%d}:bits", i)
		usage := func() int64 {
			t.Helper()
			n, err := client.MemoryUsage(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		full := usage()
		// What the key itself takes: its name, its entry.
		if around := full - int64(len(raw)); around < 0 || around > 150 {
			t.Errorf("%d bytes of a page take %d in all", len(raw), full)
		}
		must(t, client.Set(t.Context(), key, append(raw, 0), 0))
		if more := usage(); more < full+int64(len(raw))/9 {
			t.Errorf("a page of %d bytes takes %d, one of a byte more %d: its block was not full", len(raw), full, more)
		}
	}
}
