package pages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
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

// refusals counts the batches that a store refuses because they would take a page past the rate.
type refusals struct {
	favfilter.Store

	n atomic.Int64
}

func (s *refusals) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	results := s.Store.Apply(ctx, batches)
	for _, res := range results {
		if res.State == favfilter.Overfull {
			s.n.Add(1)
		}
	}
	return results
}

// A page always has room for one more key. So a write of one is in the page at once, also if the
// page cannot be rebuilt then.
func TestRoomForAKey(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 1)
		watched := &refusals{Store: store}
		g.open(t, g.ledger, watched)
		for i := range 400 {
			g.record(t, true, add("1", "hide", fmt.Sprint("p", i)))
		}
		if n := watched.n.Load(); n > 0 {
			t.Errorf("%d of 400 writes of a key found no room in the page", n)
		}
	})
}

// While the ledger cannot be read, a page takes changes for which it has no room within its rate,
// so that it lacks none. It takes them up to a higher rate.
func TestFullPageWithoutLedger(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 1)
		watched := &refusals{Store: store}
		g.open(t, g.ledger, watched)
		g.record(t, true, add("1", "hide", "first"))
		var down atomic.Bool
		g.useAround(func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
			if down.Load() && c.Operation == "keys" {
				return errors.New("the ledger is down")
			}
			return next(ctx)
		})
		down.Store(true)
		shape := g.header(t, 0).Shape
		taken, limit := 0, shape.Limit(beyondRate*g.storage.keyRate)
		for i := 0; ; i++ {
			var acts []act
			for n := range 5 {
				acts = append(acts, add("1", "hide", fmt.Sprint("p", i, "-", n)))
			}
			before := watched.n.Load()
			_, err := g.Record(t.Context(), acts)
			h := g.header(t, 0)
			rows, s, readErr := g.ledger.Keys(t.Context(), 0)
			must(t, readErr)
			if h.Shape != shape || h.Set > limit {
				t.Fatalf("%d bits set of %d, at most %d", h.Set, h.Shape.Bits, limit)
			}
			if err != nil || h.Sequence != s.Sequence { // acknowledged late: the page will not be used
				break
			}
			if int(h.Count) != len(rows) {
				t.Fatalf("the page has %d keys, the ledger %d", h.Count, len(rows))
			}
			if watched.n.Load() > before {
				taken++
			}
		}
		if taken == 0 {
			t.Error("no write was taken for which the page had no room")
		}
	})
}
