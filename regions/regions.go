package regions

// Size is the number of Bloom bits in a region. Bits and regions are numbered from 0, so bit b is
// in region b / Size. The last region may be shorter. Size 0 means that there are no regions: then
// no key can be deleted, and the methods of Size must not be called.
type Size uint32

// Of returns the region of a bit.
func (s Size) Of(bit uint32) uint32 { return bit / uint32(s) }

// Count returns the number of regions of so many bits, including a shorter last region.
func (s Size) Count(bits uint32) uint32 {
	return uint32((uint64(bits) + uint64(s) - 1) / uint64(s))
}

// Bytes returns the length of the collision bitmap of so many bits.
func (s Size) Bytes(bits uint32) int { return (int(s.Count(bits)) + 7) / 8 }

// Pair is a Bloom filter and its collision bitmap. The caller derives the positions of a key, bit
// numbers, from the key's hash. The positions of one key are distinct: a key that met its own bit
// again would set the collision bit, and could not be deleted.
type Pair struct {
	Bits Bitmap
	// Collisions has one bit for each region, or more. Insert and Clearable need it unless Size
	// is 0.
	Collisions Bitmap
	Size       Size
}

// Insert inserts a key that is not in the filter, and returns the number of bits that it set.
// Where a bit was set already, it sets the collision bit of the region.
func (p *Pair) Insert(positions []uint32) (set int) {
	bits := p.Bits
	for _, bit := range positions {
		switch {
		case !bits.Get(bit):
			bits.Set(bit)
			set++
		case p.Size > 0:
			p.Collisions.Set(p.Size.Of(bit))
		}
	}
	return set
}

// Clearable appends to dst those positions of a key that no other key can share: a delete may clear
// them. If there are none, the key is stuck.
func (p *Pair) Clearable(dst, positions []uint32) []uint32 {
	if p.Size == 0 {
		return dst
	}
	for _, bit := range positions {
		if !p.Collisions.Get(p.Size.Of(bit)) {
			dst = append(dst, bit)
		}
	}
	return dst
}

// Clear clears bits that [Pair.Clearable] returned, and returns the number of those that were set.
// It leaves the collision bits as they are: other keys may share the rest of a region.
func (p *Pair) Clear(clearable []uint32) (cleared int) {
	for _, bit := range clearable {
		if p.Bits.Get(bit) {
			p.Bits.Clear(bit)
			cleared++
		}
	}
	return cleared
}
