package favfilter

import "slices"

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
	t := Traced{Layer: slices.IndexFunc(p.layers, func(l layer) bool { return l.contains(h) })}
	if t.Reported = t.Layer >= 0; !t.Reported {
		t.Layer = len(p.layers) - 1
	}
	l := &p.layers[t.Layer]
	region := uint32(l.shape.Region)
	for _, bit := range l.shape.Positions(nil, h) {
		b := TracedBit{Bit: bit, Set: l.bits.get(bit)}
		if region > 0 {
			b.Region = bit / region
		}
		if l.collisions != nil {
			b.Collided = l.collisions.get(b.Region)
			if t.Reported && !b.Collided {
				t.Clearable++
			}
		}
		t.Positions = append(t.Positions, b)
	}
	t.Removable = removable(t.Clearable, len(t.Positions))
	return t
}

// Draw condenses the page's Bloom bits, and its collision bits, to the given number of cells each,
// for drawing. If there are fewer bits, it returns one cell for each bit. The layers follow one
// another. A cell is the share of its bits that are set, 0 to 255. It is 0 only if no bit is set,
// and 255 only if all bits are set. collisions is empty if the page has no collision bits, or if
// they are not loaded.
func (p *Page) Draw(cells int) (bits, collisions []byte) {
	bitRanges, collisionRanges := make([]bitRange, 0, len(p.layers)), make([]bitRange, 0, len(p.layers))
	for i := range p.layers {
		l := &p.layers[i]
		bitRanges = append(bitRanges, bitRange{l.bits, l.shape.Bits})
		if l.collisions != nil {
			collisionRanges = append(collisionRanges, bitRange{l.collisions, regionsOf(l.shape.Bits, uint32(l.shape.Region))})
		}
	}
	return draw(bitRanges, cells), draw(collisionRanges, cells)
}

// bitRange is the first bits of a bitmap.
type bitRange struct {
	of   bitmap
	bits uint32
}

// draw condenses ranges, one after the other, to at most the given number of cells.
func draw(ranges []bitRange, cells int) []byte {
	total := uint64(0)
	for _, r := range ranges {
		total += uint64(r.bits)
	}
	n := uint64(min(max(cells, 0), int(total)))
	if n == 0 {
		return nil
	}
	drawn := make([]byte, 0, n)
	at, set, first, end := uint64(0), uint64(0), uint64(0), total/n
	for _, r := range ranges {
		for bit := range r.bits {
			if r.of.get(bit) {
				set++
			}
			at++
			if at == end {
				drawn = append(drawn, share(set, end-first))
				set, first, end = 0, end, uint64(len(drawn)+1)*total/n
			}
		}
	}
	return drawn
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
