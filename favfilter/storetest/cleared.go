package storetest

import (
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// clearedBits removes keys from a crowded page, one at a time and many at a time. It checks that
// the store removes the same keys as Page.Apply, and reports the same fewest cleared bits.
func clearedBits(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 9}
	page := newPage(t, header(9, 100))
	keys := hashes(0, 160)
	for _, h := range keys {
		page.Insert(h)
	}
	put(t, b.Store, id, page)
	weak, jammed, uneven, fewest := 0, 0, 0, map[uint8]int{}
	for round := 0; len(keys) > 0; round++ {
		n := 1 // by script
		switch round % 6 {
		case 1, 2, 3:
			n = min(len(keys), 2)
		case 5:
			n = min(len(keys), 10) // by swap
		}
		batch := favfilter.Batch{
			ID: id, Identity: testIdentity(), Sequence: page.Header().Sequence + 1, Remove: keys[:n],
		}
		keys = keys[n:]
		one := page.Clone()
		alone := n == 1 && one.Remove(batch.Remove[0]) == favfilter.Removed
		first, last := batch, batch
		first.Remove, last.Remove = batch.Remove[:1], batch.Remove[n-1:]
		apart := page.Clone().Apply(first).Cleared != page.Clone().Apply(last).Cleared
		want := page.Apply(batch)
		res := apply(t, b.Store, batch)
		if res.State != want.State || res.Cleared != want.Cleared || res.Header != want.Header {
			t.Fatalf("%v with %d bits cleared, want %v with %d", res.State, res.Cleared, want.State, want.Cleared)
		}
		switch {
		case want.State == favfilter.Jammed && alone:
			weak++ // one or two bits could be cleared
		case want.State == favfilter.Jammed:
			jammed++
		default:
			fewest[res.Cleared]++
			if n == 2 && apart {
				uneven++
			}
		}
	}
	if uneven == 0 {
		t.Error("no two keys removed at once cleared different numbers of bits")
	}
	if weak == 0 || jammed == 0 || fewest[0]+fewest[1]+fewest[2] > 0 || len(fewest) < 2 {
		t.Errorf("%d jams of a key with few bits of its own, %d others, bits cleared %v", weak, jammed, fewest)
	}
	adds := apply(t, b.Store, favfilter.Batch{
		ID: id, Identity: testIdentity(), Sequence: page.Header().Sequence + 1, Add: hashes(9000, 2),
	})
	if adds.State != favfilter.Applied || adds.Cleared != 0 {
		t.Errorf("%v with %d bits cleared by a batch that removes nothing", adds.State, adds.Cleared)
	}
}
