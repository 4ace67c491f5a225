//go:build !race

// The race detector allocates, too.

package activity

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// What a View of a page that is probed allocates for 20,000 ids is bounded.
func TestProbedViewAllocates(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.record(t, true, add("1", "hide", "p1"))
	g.source = &probing{source: g.source}
	users, posts := make([]string, 15_000), make([]string, 5000)
	for i := range users {
		users[i] = fmt.Sprint("u", i)
	}
	for i := range posts {
		posts[i] = fmt.Sprint("p", i)
	}
	kinds := []Kind{g.kind(t, "block"), g.kind(t, "hide"), g.kind(t, "like")}
	look := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := g.View(t.Context(), "1", kinds, seek(users, posts))
		must(t, err)
		s := v.Search()
		s.addAll(users, posts)
		s.Run(v, len(kinds))
		if !s.Hits(Post)[1] || s.Hits(User)[1] {
			t.Fatal("p1 is missed, or u1 found")
		}
		s.Release()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	first, second := look(), look()
	t.Logf("20,000 ids, 40,000 keys: %d KiB allocated, then %d KiB", first>>10, second>>10)
	const most = 12 << 20
	if second > most {
		t.Errorf("%d bytes, want at most %d", second, most)
	}
}
