package feed_test

import (
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// What a feed check allocates does not grow with its candidates, but for the one list of those kept. Times are not
// compared here, which say as much of the machine; this says whether a key, a hash or a candidate costs memory again.
func TestFeedAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates too")
	}
	r := openOn(t, &favfilter.Memory{})
	record(t, r, "1 hide a", "1 block b", "1 like c", "1 seen d")
	const most = 40 // measured: 19, and some where memory that is used again was collected
	for _, n := range []int{50, 500, 900} {
		requests := candidates(n)
		i := 0
		got := testing.AllocsPerRun(200, func() {
			i++
			if _, err := feed.Filter(t.Context(), r, requests[i%len(requests)]); err != nil {
				t.Fatal(err)
			}
		})
		if got > most {
			t.Errorf("%d candidates: %.0f allocations, more than %d", n, got, most)
		}
		t.Logf("%d candidates: %.0f allocations", n, got)
	}
}
