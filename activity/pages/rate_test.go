package pages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// rateWatch is a store that looks at the pages after each change.
type rateWatch struct {
	favfilter.Store

	t    *testing.T
	rate float64
}

func (s rateWatch) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	results := s.Store.Apply(ctx, batches)
	for _, b := range batches {
		loaded, _, err := s.Load(ctx, []favfilter.PageID{b.ID})
		switch {
		case err != nil:
			s.t.Error(err)
		case loaded[0].Page == nil:
		default:
			if h := loaded[0].Page.Header(); h.Set > h.Shape.Limit(s.rate) {
				s.t.Errorf("%d added and %d removed: %d of %d bits are set, the rate %g allows %d",
					len(b.Add), len(b.Remove), h.Set, h.Shape.Bits, s.rate, h.Shape.Limit(s.rate))
			}
		}
	}
	return results
}

// A page keeps to the false-positive rate at every moment, also between a change that fills it and
// the rebuild that follows: feeds of other users read it then.
func TestRateAtEveryMoment(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 2)
		g.open(t, g.ledger, rateWatch{store, t, g.storage.keyRate})
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 60 {
			var acts []act
			for n := range 1 + rng.IntN([]int{1, 8, 300}[i%3]) {
				user := fmt.Sprint(rng.IntN(20))
				acts = append(acts, add(user, "block", fmt.Sprint(i, "-", n)))
			}
			_, err := g.Record(t.Context(), acts)
			must(t, err)
		}
	})
}
