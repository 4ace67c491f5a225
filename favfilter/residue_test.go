package favfilter_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Keys are removed from pages that keep growing, while as many new keys are added. The removed keys
// are reported less often than the rate, until a rebuild removes them completely. If a removal had
// to clear only one bit, 0.07 % would be reported.
func TestRemovedKeysStayRemoved(t *testing.T) {
	const pages, keys, removals, after, rate = 1000, 1000, 100, 100, 0.00025
	rng := rand.New(rand.NewPCG(3, 4))
	removed, reported := 0, 0
	for range pages {
		p := emptyPage(t, shapeFor(t, keys*5/4, rate))
		live := make([]favfilter.Hash, keys)
		for i := range live {
			live[i] = randomHash(rng)
			p.Insert(live[i])
		}
		var gone []favfilter.Hash
		for _, h := range live[:removals] {
			if guarded(p, []favfilter.Hash{h}, nil) == favfilter.Applied {
				gone = append(gone, h)
			}
		}
		for range after {
			guarded(p, nil, []favfilter.Hash{randomHash(rng)})
		}
		removed += len(gone)
		for _, h := range gone {
			if p.Contains(h) {
				reported++
			}
		}
	}
	mean := rate / 3 * float64(removed) // if two bits were enough, it would be twice that
	t.Logf("%d of %d reported: %.4f %%, the rate is %.4f %%", reported, removed, 100*float64(reported)/float64(removed), 100*rate)
	if float64(reported) > mean+4*math.Sqrt(mean) {
		t.Errorf("%d of %d removed keys are reported, some %.0f expected at most", reported, removed, mean)
	}
	if removed < pages*removals*8/10 {
		t.Errorf("%d of %d removals jammed", pages*removals-removed, pages*removals)
	}
}

func guarded(p *favfilter.Page, remove, add []favfilter.Hash) favfilter.State {
	h := p.Header()
	return p.Apply(favfilter.Batch{
		ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Sequence: h.Sequence + 1, Remove: remove, Add: add,
	}).State
}
