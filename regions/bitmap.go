package regions

import (
	"encoding/binary"
	"math/bits"
)

// Bitmap holds bits in the order that Redis uses: bit 0 is the most significant bit of byte 0, as
// for SETBIT, GETBIT and BITFIELD. It can share memory with a string that a server sent, or will
// get. A Bitmap of n bytes has the bits 0 to 8n-1 and does not grow.
//
// Any number of goroutines may read a Bitmap at once. A change needs exclusive access.
type Bitmap []byte

// Get reports whether bit i is set.
func (b Bitmap) Get(i uint32) bool { return b[i>>3]&(0x80>>(i&7)) != 0 }

// All reports whether three bits are set. It tests all of them without a branch: whether a bit of a
// Bloom filter is set cannot be predicted, and a mispredicted branch costs more than two tests.
func (b Bitmap) All(i, j, k uint32) bool {
	return b[i>>3]<<(i&7)&(b[j>>3]<<(j&7))&(b[k>>3]<<(k&7))&0x80 != 0
}

// Set sets bit i.
func (b Bitmap) Set(i uint32) { b[i>>3] |= 0x80 >> (i & 7) }

// Clear clears bit i.
func (b Bitmap) Clear(i uint32) { b[i>>3] &^= 0x80 >> (i & 7) }

// Count returns the number of set bits. Like BITCOUNT, it includes the padding in the last byte.
func (b Bitmap) Count() int {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b)) // in any byte order
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return n
}

// Offset returns the offset that SETBIT, GETBIT and BITFIELD use for bit i of a Bitmap that begins
// after a number of bytes of a string.
func Offset(bytes int, i uint32) uint64 { return 8*uint64(bytes) + uint64(i) }
