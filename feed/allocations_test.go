//go:build !race

// The race detector allocates, too.

package feed_test

import (
	"testing"

	"github.com/feedfilter/feedfilter/feed"
)

// TestFeedAllocations checks that the memory that a feed check allocates does not grow with its
// candidates, except for the list of kept ones. It finds a key, hash or candidate that takes memory
// of its own. Times would depend on the machine, so the test does not compare them.
func TestFeedAllocations(t *testing.T) {
	r := open(t)
	record(t, r, "1 hide a", "1 block b", "1 like c", "1 seen d")
	const most = 40 // measured: 19, and some where memory that is used again was collected
	for _, n := range []int{50, 500, 900} {
		requests := candidates(n)
		i := 0
		got := testing.AllocsPerRun(200, func() {
			i++
			_, err := feed.Filter(t.Context(), r, requests[i%len(requests)])
			must(t, err)
		})
		if got > most {
			t.Errorf("%d candidates: %.0f allocations, more than %d", n, got, most)
		}
		t.Logf("%d candidates: %.0f allocations", n, got)
	}
}
