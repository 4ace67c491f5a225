//go:build !race

// The race detector allocates, too.

package activity

import (
	"runtime"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// What a probed view of 20,000 ids allocates is bounded.
func TestProbeAllocates(t *testing.T) {
	g := probedRig(t, redisStore(t, redistest.Start(t)))
	users, posts := targets("u", 0, 15_000), targets("b", 0, 5000)
	look := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := g.View(t.Context(), "bot", g.ledgerKinds(), seek(users, posts))
		must(t, err)
		searchFor(v, users, posts).Release()
		runtime.ReadMemStats(&after)
		if v.probed == nil {
			t.Fatal("the page was not probed")
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	first, second := look(), look()
	t.Logf("20,000 ids, 40,000 keys: %d KiB allocated, then %d KiB", first>>10, second>>10)
	const most = 12 << 20
	if second > most {
		t.Errorf("%d bytes, want at most %d", second, most)
	}
}
