package favfilter

import (
	"math/bits"

	"github.com/twmb/murmur3"

	"github.com/feedfilter/feedfilter/regions"
)

// Hash is the 128-bit MurmurHash3 (x64 variant) of a key. All positions of the
// key in a page of any shape derive from it, so a key is hashed once.
type Hash struct{ H1, H2 uint64 }

// HashKey hashes key under seed. Both halves of the hash's state start from
// seed; seed 0 is the reference MurmurHash3_x64_128. The values are pinned by
// golden vectors: a change would orphan every stored page.
//
// MurmurHash3 is not a cryptographic hash. A random seed keeps strangers from
// choosing ids that collide with a key of their choice as long as the seed
// stays unknown to them.
func HashKey(seed uint64, key string) Hash {
	h1, h2 := murmur3.SeedStringSum128(seed, seed, key)
	return Hash{h1, h2}
}

// HashKeyBytes is [HashKey] for a key in a reused buffer.
func HashKeyBytes(seed uint64, key []byte) Hash {
	h1, h2 := murmur3.SeedSum128(seed, seed, key)
	return Hash{h1, h2}
}

// PageNumber returns the page that hash belongs to in a filter of that many pages:
// its top bits. pages must be a power of two, 1 to [MaxPages]. Doubling pages
// splits every page in two neighbours.
func PageNumber(hash uint64, pages uint32) uint32 {
	return uint32(hash >> 32 >> (32 - log2(pages)))
}

// strideTurn is by how many bits the stride of double hashing is turned after each
// step.
const strideTurn = 7

// next goes from one position of a key to the next: double hashing (Kirsch and
// Mitzenmacher, "Less hashing, same performance", 2006), H1 + i*H2, but for the
// stride H2, which is turned at each step. With a constant stride a page of m bits
// knows few distinct pairs of start and stride: measured, that adds 690/m to a
// false-positive rate of 0.025 %, 35 % of it at 2,000 bits. Turned, the rate is what
// the number of set bits says, at every size.
func (h Hash) next() Hash {
	return Hash{h.H1 + h.H2, bits.RotateLeft64(h.H2, strideTurn)}
}

// position reduces the first half of a hash to a position in m bits, by
// multiply-shift (Lemire 2019), which is cheaper than modulo.
func position(x uint64, m uint32) uint32 {
	hi, _ := bits.Mul64(x, uint64(m))
	return uint32(hi)
}

// Positions appends the distinct bit positions of h in a page of this shape to
// dst: at most s.Hashes, each below s.Bits. Equal positions are used once: a key
// that met its own bit again would mark the region as shared with another key,
// and could not be deleted.
func (s Shape) Positions(dst []uint32, h Hash) []uint32 {
	start := len(dst)
next:
	for range s.Hashes {
		p := position(h.H1, s.Bits)
		h = h.next()
		for _, q := range dst[start:] {
			if p == q {
				continue next
			}
		}
		dst = append(dst, p)
	}
	return dst
}

// contains reports whether all bits of h are set. The first three are looked at together: whether each of them is
// set is anybody's guess, also the processor's, and a wrong one costs more than two looks.
func (s Shape) contains(bits regions.Bitmap, h Hash) bool {
	m, left := s.Bits, s.Hashes
	if left >= 3 {
		a := position(h.H1, m)
		h = h.next()
		b := position(h.H1, m)
		h = h.next()
		c := position(h.H1, m)
		h = h.next()
		if bits[a>>3]<<(a&7)&(bits[b>>3]<<(b&7))&(bits[c>>3]<<(c&7))&0x80 == 0 {
			return false
		}
		left -= 3
	}
	for range left {
		if !bits.Get(position(h.H1, m)) {
			return false
		}
		h = h.next()
	}
	return true
}

func log2(powerOfTwo uint32) uint { return uint(bits.TrailingZeros32(powerOfTwo)) }
