package favfilter_test

import (
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// lookedAt returns a page of 64 bits in regions of 8. It holds the key of hash 0, which sets bit 0,
// and a key that sets bits 0 and 8.
func lookedAt(t *testing.T) (page *favfilter.Page, first, second favfilter.Hash) {
	t.Helper()
	page = emptyPage(t, favfilter.Shape{Bits: 64, Hashes: 2, Region: 8})
	first, second = favfilter.Hash{}, favfilter.Hash{H2: 8 << 58}
	page.Insert(first)
	page.Insert(second)
	return page, first, second
}

func TestTrace(t *testing.T) {
	page, first, second := lookedAt(t)
	shared := favfilter.TracedBit{Bit: 0, Set: true, Region: 0, Collided: true}
	own := favfilter.TracedBit{Bit: 8, Set: true, Region: 1}
	check := func(h favfilter.Hash, want favfilter.Traced) {
		t.Helper()
		got := page.Trace(h)
		if got.Layer != want.Layer || got.Reported != want.Reported || got.Clearable != want.Clearable || got.Removable != want.Removable ||
			!slices.Equal(got.Positions, want.Positions) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got.Reported != page.Contains(h) {
			t.Errorf("Reported is %v, Contains disagrees", got.Reported)
		}
	}
	check(first, favfilter.Traced{Reported: true, Positions: []favfilter.TracedBit{shared}})
	check(second, favfilter.Traced{Reported: true, Positions: []favfilter.TracedBit{shared, own}, Clearable: 1})
	check(favfilter.Hash{H1: 63 << 58, H2: 1 << 58}, favfilter.Traced{Positions: []favfilter.TracedBit{{Bit: 63, Region: 7}, shared}})

	// New keys go into a later layer; the first layer keeps its keys.
	if err := page.Grow(favfilter.Shape{Bits: 16, Hashes: 1, Region: 8}); err != nil {
		t.Fatal(err)
	}
	check(second, favfilter.Traced{Reported: true, Positions: []favfilter.TracedBit{shared, own}, Clearable: 1})
	late := favfilter.Hash{H1: 15 << 60}
	check(late, favfilter.Traced{Layer: 1, Positions: []favfilter.TracedBit{{Bit: 15, Region: 1}}})
	page.Insert(late)
	all := []favfilter.TracedBit{{Bit: 15, Set: true, Region: 1}}
	check(late, favfilter.Traced{Layer: 1, Reported: true, Positions: all, Clearable: 1, Removable: true})

	// A page that was loaded without its collision bits reports no bit as clearable.
	raw, _ := page.Encode()
	bare := decodePage(t, raw, nil)
	if got := bare.Trace(second); !got.Reported || got.Clearable != 0 {
		t.Errorf("without collision bits: %+v", got)
	}
	if st := bare.Status(); st.Size != page.Status().Size || st.Collided != 0 {
		t.Errorf("status without collision bits: %+v", st)
	}
}

// A removal, guarded or not, clears the bits that Trace reports as clearable.
func TestTraceClearable(t *testing.T) {
	page := emptyPage(t, shapeFor(t, 300, 0.01))
	key := func(i int) favfilter.Hash { return favfilter.HashKey(7, string(rune('0'+i))) }
	for i := range 300 {
		page.Insert(key(i))
	}
	stuck := 0
	for i := range 300 {
		before, traced := page.Header().Set, page.Trace(key(i))
		guarded := favfilter.Batch{Identity: page.Header().Identity, Sequence: page.Header().Sequence + 1, Remove: []favfilter.Hash{key(i)}}
		if res := page.Clone().Apply(guarded); (res.State == favfilter.Applied) != traced.Removable {
			t.Fatalf("a guarded removal is %v, and removable was %v", res.State, traced.Removable)
		}
		out := page.Remove(key(i))
		if cleared := int(before - page.Header().Set); cleared != traced.Clearable || (out == favfilter.Stuck) != (cleared == 0) {
			t.Fatalf("%d bits were cleared, %v, and %d were clearable", cleared, out, traced.Clearable)
		}
		if out == favfilter.Stuck {
			stuck++
		}
	}
	if stuck == 0 || stuck == 300 {
		t.Errorf("%d of 300 stuck", stuck)
	}
}

func TestDraw(t *testing.T) {
	page, _, _ := lookedAt(t)
	check := func(cells int, bits, collisions []byte) {
		t.Helper()
		gotBits, gotCollisions := page.Draw(cells)
		if !slices.Equal(gotBits, bits) || !slices.Equal(gotCollisions, collisions) {
			t.Errorf("%d cells: %v and %v, want %v and %v", cells, gotBits, gotCollisions, bits, collisions)
		}
	}
	check(0, nil, nil)
	check(1, []byte{8}, []byte{32})               // 2 of 64, 1 of 8
	check(2, []byte{16, 0}, []byte{64, 0})        // 2 of 32, 1 of 4
	check(3, []byte{24, 0, 0}, []byte{128, 0, 0}) // of 21, and of 2 regions
	all := make([]byte, 64)
	all[0], all[8] = 255, 255
	check(64, all, []byte{255, 0, 0, 0, 0, 0, 0, 0})
	check(1000, all, []byte{255, 0, 0, 0, 0, 0, 0, 0})
	if err := page.Grow(favfilter.Shape{Bits: 16, Hashes: 1, Region: 8}); err != nil {
		t.Fatal(err)
	}
	page.Insert(favfilter.Hash{H1: 15 << 60})
	check(5, []byte{32, 0, 0, 0, 16}, []byte{128, 0, 0, 0, 0}) // of 16 bits, and of 2 regions
	check(1, []byte{10}, []byte{26})                           // 3 of 80, 1 of 10
}

// A cell with few set bits is not 0, and a cell with nearly all bits set is not 255.
func TestDrawEnds(t *testing.T) {
	page := emptyPage(t, favfilter.Shape{Bits: 4096, Hashes: 1})
	page.Insert(favfilter.Hash{H1: 77 << 52})
	if bits, collisions := page.Draw(1); !slices.Equal(bits, []byte{1}) || len(collisions) > 0 {
		t.Errorf("one bit of 4096: %v, %v", bits, collisions)
	}
	for i := range uint64(4095) {
		page.Insert(favfilter.Hash{H1: i << 52})
	}
	if bits, _ := page.Draw(1); !slices.Equal(bits, []byte{254}) {
		t.Errorf("all but one bit: %v", bits)
	}
	page.Insert(favfilter.Hash{H1: 4095 << 52})
	if bits, _ := page.Draw(3); !slices.Equal(bits, []byte{255, 255, 255}) {
		t.Errorf("all bits: %v", bits)
	}
}
