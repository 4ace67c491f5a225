package favfilter_test

import (
	"math"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// servedHeadroom is the headroom that package activity uses.
const servedHeadroom = 1.05

// served returns the geometries of the service's pages: at its default rate, and at 0.1 %.
func served() []geometry {
	return []geometry{
		{0.00025, 10, favfilter.DefaultRegion, servedHeadroom, 3},
		{0.001, 8, favfilter.DefaultRegion, servedHeadroom, 3},
	}
}

// The simulated shapes are those that the code produces.
func TestSimulatedShapes(t *testing.T) {
	for _, g := range served() {
		for keys := 0; keys < 200_000; keys += 1 + keys/50 {
			if want := shapeFor(t, int(float64(keys)*g.headroom)+1, g.rate); g.shape(keys) != want {
				t.Fatalf("rate %g, %d keys: simulated with %v, made with %v", g.rate, keys, g.shape(keys), want)
			}
		}
	}
}

// The simulation rebuilds a page exactly where the page refuses a removal.
func TestSimulatedRemovals(t *testing.T) {
	for _, g := range served() {
		l := newLife(g, 1)
		for range g.fullest(1000) {
			l.add()
		}
		for range 500 {
			jammed := l.jammed
			state := guarded(l.page.Clone(), []favfilter.Hash{l.live[0]}, nil)
			l.take(0)
			if refused := l.jammed > jammed; refused != (state == favfilter.Jammed) {
				t.Fatalf("the page answers %v, the simulation waits: %v", state, refused)
			}
		}
		if l.jammed == 0 || l.jammed == l.removals {
			t.Errorf("%d of %d removals waited: not both were tried", l.jammed, l.removals)
		}
	}
}

// The chosen parameters hold in the hardest case, on pages as full as allowed. No key is lost,
// removed keys are reported no more often than the rate, and few rebuilds are needed.
func TestFullestPagesUnderChurn(t *testing.T) {
	const turnovers = 4
	waits := map[float64]float64{0.00025: 200, 0.001: 300} // maximum per 1,000; simulated: 160 and 250
	for _, g := range served() {
		for _, keys := range []int{150, 1000} {
			l := newLife(g, uint64(keys))
			n := g.fullest(keys)
			for range n {
				l.add()
			}
			l.tally = tally{}
			for range turnovers * n {
				l.remove()
				l.add()
			}
			t.Logf("rate %g, %d keys, %d bits: %.0f of 1,000 removals wait, %.0f find the page full; %d of %d reported late",
				g.rate, n, l.page.Header().Shape.Bits, perThousand(l.jammed, l.removals), perThousand(l.full, l.removals), l.late, l.looked)
			for _, h := range l.live {
				if !l.page.Contains(h) {
					t.Fatalf("rate %g, %d keys: a key is lost", g.rate, n)
				}
			}
			mean := g.rate * float64(l.looked)
			if reported := float64(l.late); reported > mean+4*math.Sqrt(mean)+2 {
				t.Errorf("rate %g, %d keys: %d of %d removed keys are reported", g.rate, n, l.late, l.looked)
			}
			if got := perThousand(l.jammed, l.removals); got > waits[g.rate] {
				t.Errorf("rate %g, %d keys: %.0f of 1,000 removals wait", g.rate, n, got)
			}
			if got := perThousand(l.full, l.removals); got > 10 {
				t.Errorf("rate %g, %d keys: %.0f of 1,000 changes find the page full again", g.rate, n, got)
			}
			if l.worst > g.rate {
				t.Errorf("rate %g, %d keys: %g at worst", g.rate, n, l.worst)
			}
		}
	}
}

// Growing pages take no more memory, as computed without a server, than BENCHMARKS.md states.
func TestBytesAnActivity(t *testing.T) {
	for i, stated := range []float64{3.2, 2.65} {
		g, bytes := served()[i], 0.0
		sizes := simulatedSizes()
		for _, keys := range sizes {
			l := newLife(g, 1)
			for range keys {
				l.add()
			}
			bytes += float64(bytesOf(l.page)) / float64(keys) / float64(len(sizes))
		}
		t.Logf("rate %g: %.2f bytes an activity", g.rate, bytes)
		if bytes > stated {
			t.Errorf("rate %g: %.2f bytes an activity, stated %g", g.rate, bytes, stated)
		}
	}
}
