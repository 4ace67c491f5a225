// Package regions implements the arithmetic of the FAV collision bitmap. With a collision bitmap,
// keys can be deleted from a Bloom filter stored as a plain bitmap.
//
// The bits of a page are grouped into regions of size consecutive bits: bit b is in region b /
// size. The last region may be shorter. A second bitmap, the collision bitmap, has one collision
// bit for each region. An insert that finds one of its bits already set also sets the collision bit
// of that region. Provided that each key is inserted once before it is deleted, and that no
// collision bit is ever cleared:
//
//   - A bit in a region whose collision bit is set may belong to several keys. A delete must not
//     clear it.
//   - A set bit in a region whose collision bit is clear belongs to at most one live key. The
//     delete of that key may clear it.
//
// One cleared bit is enough to delete a key. Smaller regions leave more keys deletable and cost
// more memory: 1/size collision bits for each bit of the page. [Deletable] and [Collided] quantify
// the trade-off.
//
// The package does no I/O and keeps no state. Sizes are in bits; bits and regions are numbered from
// 0. A size of 0 is a programming error: Of and Count panic with an integer division by zero, and
// so does Clearable if it is given any positions. The caller must check sizes from untrusted
// sources, such as a stored page.
package regions

import (
	"encoding/binary"
	"math/bits"
)

// Bitmap holds bits in the order that Redis uses: bit 0 is the most significant bit of byte 0, as
// for SETBIT, GETBIT and BITFIELD u1 #i. A Bitmap can therefore share memory with a value that is
// read from a server or will be written to one.
//
// A Bitmap of n bytes holds bits 0 to 8n-1 and does not grow. For a bit past the end, Get, Set and
// Clear panic with an index out of range, as a slice does. Any number of goroutines may read a
// Bitmap at once. A write needs exclusive access.
type Bitmap []byte

// Get reports whether bit i is set.
func (b Bitmap) Get(i uint32) bool {
	return b[i>>3]&mask(i) != 0
}

// Set sets bit i.
func (b Bitmap) Set(i uint32) {
	b[i>>3] |= mask(i)
}

// Clear clears bit i.
func (b Bitmap) Clear(i uint32) {
	b[i>>3] &^= mask(i)
}

// mask selects bit i within its byte.
func mask(i uint32) byte {
	return 0x80 >> (i & 7)
}

// Count returns the number of set bits. Like BITCOUNT, it includes the padding in the last byte.
func (b Bitmap) Count() int {
	n := 0
	for len(b) >= 8 {
		// The byte order does not affect the count.
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return n
}

// Clearable appends to dst each of positions whose region has a clear collision bit in b, and
// returns the extended slice. The positions are bits of the page, not regions; size is the number
// of bits in a region. Clearable keeps the order of the positions, and repeated positions. If it
// appends nothing, the key with these positions cannot be deleted by clearing bits.
//
// dst may be positions[:0], to filter in place. Clearable does not check whether a position is set.
// It panics if the region of a position is past the end of b.
func (b Bitmap) Clearable(dst, positions []uint32, size uint32) []uint32 {
	for _, p := range positions {
		if !b.Get(Of(p, size)) {
			dst = append(dst, p)
		}
	}
	return dst
}

// Of returns the number of the region that contains bit, for regions of size bits.
func Of(bit, size uint32) uint32 {
	return bit / size
}

// Count returns the number of regions of size bits in a page of the given number of bits, including
// a shorter last region. It is exact for every number of bits, and 0 for 0 bits.
func Count(bits, size uint32) uint32 {
	n := bits / size
	if bits%size != 0 { // (bits + size - 1) / size would overflow
		n++
	}
	return n
}
