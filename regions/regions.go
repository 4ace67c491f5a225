// Package regions holds the arithmetic of the FAV collision bitmap, which lets
// keys be deleted from a Bloom filter kept as a plain bitmap.
//
// The bits of a page are grouped into regions of size consecutive bits: bit b
// lies in region b / size, and the last region may be short. A second bitmap,
// with one bit for each region, records collisions. An insert that finds one of
// its bits already set marks the region of that bit. As long as a key is
// inserted once before it is deleted, and marks are kept, it follows that
//
//   - a bit in a marked region may be shared by several keys, and must not be
//     cleared by a delete;
//   - a set bit in an unmarked region belongs to at most one live key, and may
//     be cleared when that key is deleted.
//
// One cleared bit is enough to delete a key. Small regions leave more keys
// deletable and cost more memory, 1/size bits for each bit of the page.
// [Deletable] and [Collided] quantify the trade.
//
// The package does no I/O and keeps no state. Sizes are in bits; bits and regions
// are numbered from 0. A size of 0 is a programming error: Of, Count and Clearable
// (when it has positions to look at) panic with an integer division by zero.
// Untrusted sizes, read from a stored page for instance, are for the caller to
// check.
package regions

import (
	"encoding/binary"
	"math/bits"
)

// Bitmap is a string of bits in the order of Redis: bit 0 is the most
// significant bit of byte 0, as for SETBIT, GETBIT and BITFIELD u1 #i. It can
// thus share memory with a value read from, or to be written to, a server.
//
// A Bitmap of n bytes holds bits 0 to 8n-1. It does not grow: Get, Set and Clear
// of a bit past its end panic with an index out of range, as a slice does. Any
// number of goroutines may read a Bitmap at once; a write needs exclusive access.
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

// Count returns the number of set bits, padding in the last byte included, as
// BITCOUNT does.
func (b Bitmap) Count() int {
	n := 0
	for len(b) >= 8 {
		// The order of the bytes does not matter to a count.
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return n
}

// Clearable appends to dst those of positions whose region, of size bits, is
// unmarked in the collision bitmap b, and returns the extended slice. The
// positions are bits of the page, not regions; they keep their order, and
// repeated ones are kept. If nothing is appended, the key with these positions
// cannot be deleted by clearing bits.
//
// dst may be positions[:0], to filter in place. The result says nothing of
// whether a position is set. Clearable panics if a position lies in a region
// past the end of b.
func (b Bitmap) Clearable(dst, positions []uint32, size uint32) []uint32 {
	for _, p := range positions {
		if !b.Get(Of(p, size)) {
			dst = append(dst, p)
		}
	}
	return dst
}

// Of returns the region that holds bit, for regions of size bits.
func Of(bit, size uint32) uint32 {
	return bit / size
}

// Count returns the number of regions of size bits that cover a page of the
// given number of bits, a short last region included. It is exact for every
// number of bits; 0 bits need no region.
func Count(bits, size uint32) uint32 {
	n := bits / size
	if bits%size != 0 { // (bits + size - 1) / size would overflow
		n++
	}
	return n
}
