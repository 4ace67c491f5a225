package favfilter

import (
	"encoding/binary"
	"math/bits"
)

// The Bloom bits of a page are grouped into regions of consecutive bits: bit b is in region b /
// size. The last region may be shorter. The collision bitmap has one bit for each region. An insert
// that finds one of its bits already set also sets the collision bit of that region. Provided that
// each key is inserted once before it is deleted, and that no collision bit is ever cleared:
//
//   - A bit in a region whose collision bit is set may belong to several keys. A delete must not
//     clear it.
//   - A set bit in a region whose collision bit is clear belongs to at most one live key. The
//     delete of that key may clear it.
//
// One cleared bit is enough to delete a key. Smaller regions leave more keys deletable and cost
// more memory.

// bitmap holds bits in the order that Redis uses: bit 0 is the most significant bit of byte 0, as
// for SETBIT, GETBIT and BITFIELD. It shares memory with a string of a page.
type bitmap []byte

func (b bitmap) get(i uint32) bool { return b[i>>3]&(0x80>>(i&7)) != 0 }

func (b bitmap) set(i uint32) { b[i>>3] |= 0x80 >> (i & 7) }

func (b bitmap) clear(i uint32) { b[i>>3] &^= 0x80 >> (i & 7) }

// count returns the number of set bits. Like BITCOUNT, it includes the padding in the last byte.
func (b bitmap) count() int {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b)) // in any byte order
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return n
}

// regionsOf returns the number of regions of size bits in n bits, including a shorter last region.
func regionsOf(n, size uint32) uint32 {
	return uint32((uint64(n) + uint64(size) - 1) / uint64(size))
}
