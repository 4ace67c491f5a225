package favfilter

import "github.com/feedfilter/feedfilter/regions"

// Traced describes the state of a key in a page.
type Traced struct {
	// Layer is the layer of Positions: the oldest that reports the key, otherwise the newest.
	Layer     int
	Reported  bool // all bits of the key are set
	Positions []TracedBit
	Clearable int // bits that no other key can share, and that a removal would clear
	// Removable reports whether Clearable is enough for a guarded [Batch] to remove the key.
	// Without a guard, one bit is enough.
	Removable bool
}

// TracedBit is one of the bits that a key sets.
type TracedBit struct {
	Bit      uint32 // position within the layer
	Set      bool
	Region   uint32 // region of the bit; 0 if the page has no collision bitmap
	Collided bool   // the collision bit of the region is set
}

// Trace returns the state of the key in the page, bit by bit, as [Page.Contains] and [Page.Remove]
// see it. If the collision bits of the page are not loaded, no bit is known to be clearable.
func (p *Page) Trace(h Hash) Traced {
	t := Traced{Layer: len(p.layers) - 1}
	for i := range p.layers {
		if p.layers[i].contains(h) {
			t.Layer, t.Reported = i, true
			break
		}
	}
	l := &p.layers[t.Layer]
	region := uint32(l.shape.Region)
	for _, bit := range l.shape.Positions(nil, h) {
		b := TracedBit{Bit: bit, Set: l.bits.Get(bit)}
		if region > 0 {
			b.Region = regions.Of(bit, region)
		}
		if l.collisions != nil {
			b.Collided = l.collisions.Get(b.Region)
			if t.Reported && !b.Collided {
				t.Clearable++
			}
		}
		t.Positions = append(t.Positions, b)
	}
	t.Removable = t.Clearable >= leastCleared || t.Clearable > 0 && t.Clearable == len(t.Positions)
	return t
}

// Draw condenses the page's Bloom bits, and its collision bits, to the given number of cells each,
// for drawing. If there are fewer bits, it returns one cell for each bit. The layers follow one
// another. A cell is the share of its bits that are set, 0 to 255. It is 0 only if no bit is set,
// and 255 only if all bits are set. collisions is empty if the page has no collision bits, or if
// they are not loaded.
func (p *Page) Draw(cells int) (bits, collisions []byte) {
	bitRuns, collisionRuns := make([]bitRange, 0, len(p.layers)), make([]bitRange, 0, len(p.layers))
	for i := range p.layers {
		l := &p.layers[i]
		bitRuns = append(bitRuns, bitRange{l.bits, l.shape.Bits})
		if l.collisions != nil {
			collisionRuns = append(collisionRuns, bitRange{l.collisions, regions.Count(l.shape.Bits, uint32(l.shape.Region))})
		}
	}
	return draw(bitRuns, cells), draw(collisionRuns, cells)
}

// bitRange is the first bits of a bitmap.
type bitRange struct {
	of   regions.Bitmap
	bits uint32
}

// draw condenses runs, one after the other, to at most the given number of cells.
func draw(runs []bitRange, cells int) []byte {
	total := uint64(0)
	for _, r := range runs {
		total += uint64(r.bits)
	}
	n := uint64(min(max(cells, 0), int(total)))
	drawn := make([]byte, n)
	for i := range n {
		first, end := i*total/n, (i+1)*total/n
		drawn[i] = share(countRuns(runs, first, end), end-first)
	}
	return drawn
}

// countRuns counts the set bits of runs from first up to, but not including, end.
func countRuns(runs []bitRange, first, end uint64) (set uint64) {
	begin := uint64(0)
	for _, r := range runs {
		a, b := max(first, begin), min(end, begin+uint64(r.bits))
		if a < b {
			set += count(r.of, uint32(a-begin), uint32(b-begin)) // less than r.bits
		}
		begin += uint64(r.bits)
	}
	return set
}

// count counts the set bits of b from first up to, but not including, end. It counts whole bytes
// where it can.
func count(b regions.Bitmap, first, end uint32) (n uint64) {
	for ; first < end && first%8 != 0; first++ {
		n += one(b.Get(first))
	}
	if whole := (end - first) / 8; whole > 0 {
		n += uint64(b[first/8 : first/8+whole].Count())
		first += 8 * whole
	}
	for ; first < end; first++ {
		n += one(b.Get(first))
	}
	return n
}

func one(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// share returns the share of set in all, as 0 to 255.
func share(set, all uint64) byte {
	switch set {
	case 0:
		return 0
	case all:
		return 255
	}
	return byte(min(254, max(1, (set*255+all/2)/all)))
}
