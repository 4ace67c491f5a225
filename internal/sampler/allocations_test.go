//go:build !race

// The race detector allocates, too.

package sampler_test

import (
	"math"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// A feed that is not chosen to be compared with the ledger pays nothing for that others are.
func TestSamplerAllocations(t *testing.T) {
	r := newSampled(t, activity.Config{}, nil).Recorder
	record(t, r, "1 hide a", "1 block b", "1 like c", "1 seen d")
	s, err := sampler.New(r, sampler.Config{Rate: 1e-12})
	must(t, err)
	defer s.Close()
	request := feed.Request{Viewer: "1", Posts: numbered(500)}
	// The least of some, since memory that is used again may be collected meanwhile.
	least := func(filter func() error) float64 {
		n := math.Inf(1)
		for range 5 {
			n = min(n, testing.AllocsPerRun(100, func() {
				must(t, filter())
			}))
		}
		return n
	}
	plain := least(func() error {
		_, err := feed.Filter(t.Context(), r, request)
		return err
	})
	through := least(func() error {
		_, chosen, err := ask(t.Context(), s, r, request)
		chosen.Compare(t.Context())
		return err
	})
	if through > plain {
		t.Errorf("%.0f allocations instead of %.0f", through, plain)
	}
	t.Logf("%.0f allocations, and %.0f", plain, through)
}
