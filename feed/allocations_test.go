//go:build !race

// The race detector allocates, too.

package feed_test

import (
	"math"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// A feed that is not chosen to be compared with the ledger pays nothing for that others are.
func TestSamplerAllocations(t *testing.T) {
	r := openOn(t, &favfilter.Memory{})
	record(t, r, "1 hide a", "1 block b", "1 like c", "1 seen d")
	s, err := feed.NewSampler(r, feed.SamplerConfig{Rate: 1e-12})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	request := candidates(500)[0]
	// The least of some, since memory that is used again may be collected meanwhile.
	least := func(filter func() error) float64 {
		n := math.Inf(1)
		for range 5 {
			n = min(n, testing.AllocsPerRun(100, func() {
				if err := filter(); err != nil {
					t.Fatal(err)
				}
			}))
		}
		return n
	}
	plain := least(func() error {
		_, err := feed.Filter(t.Context(), r, request)
		return err
	})
	through := least(func() error {
		_, chosen, err := s.Filter(t.Context(), request)
		chosen.Compare(t.Context())
		return err
	})
	if through > plain {
		t.Errorf("%.0f allocations instead of %.0f", through, plain)
	}
	t.Logf("%.0f allocations, and %.0f", plain, through)
}

// TestFeedAllocations checks that the memory that a feed check allocates does not grow with its
// candidates, except for the list of kept ones. It finds a key, hash or candidate that takes memory
// of its own. Times would depend on the machine, so the test does not compare them.
func TestFeedAllocations(t *testing.T) {
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
