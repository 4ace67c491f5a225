//go:build !race

// The race detector allocates, too.

package pages

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// A probe for 40,000 keys allocates a bounded number of bytes.
func TestProbeAllocates(t *testing.T) {
	g := probedRig(t, redisStore(t, redistest.Start(t)))
	ids := make([]favfilter.Hash, 20_000)
	for i := range ids {
		ids[i] = favfilter.HashKey(g.identity.Seed, fmt.Sprint("b", i))
	}
	hide, like := KeyStart(g.identity.Seed, "hide", "bot", ledger.Post), KeyStart(g.identity.Seed, "like", "bot", ledger.Post)
	page := g.layout.pageOf(UserHash(g.identity.Seed, "bot"))
	look := func() uint64 {
		var before, after runtime.MemStats
		a := Answer{Header: *g.large.of(page)}
		runtime.ReadMemStats(&before)
		// Not by Read, which reads the page whole if a busy machine takes longer than loadTimeout.
		ok, err := g.probeChunks(t.Context(), hashed{{hide, ids}, {like, ids}}, g.layout.pageID(page), &a)
		runtime.ReadMemStats(&after)
		if err != nil || !ok {
			t.Fatalf("the page is not as known, %v", err)
		}
		if len(a.Found) != 2*len(ids) || slices.Contains(a.Found[:3000], false) {
			t.Fatalf("the page was not probed as asked, or an activity is missed: %d keys", len(a.Found))
		}
		if n := len(slices.DeleteFunc(slices.Clone(a.Found[3000:]), func(found bool) bool { return !found })); n > 100 {
			t.Fatalf("%d of 37,000 other keys found, want a few false positives at most", n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	first, second := look(), look()
	t.Logf("40,000 keys: %d KiB allocated, then %d KiB", first>>10, second>>10)
	const most = 12 << 20
	if second > most {
		t.Errorf("%d bytes, want at most %d", second, most)
	}
}

// hashed is a list of hashed keys.
type hashed []struct {
	start favfilter.Start
	ids   []favfilter.Hash
}

func (h hashed) Sought() (number int, each iter.Seq2[favfilter.Start, []favfilter.Hash]) {
	for _, run := range h {
		number += len(run.ids)
	}
	return number, func(yield func(favfilter.Start, []favfilter.Hash) bool) {
		for _, run := range h {
			if !yield(run.start, run.ids) {
				return
			}
		}
	}
}
