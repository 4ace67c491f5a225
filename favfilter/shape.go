package favfilter

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/feedfilter/feedfilter/regions"
)

const (
	// MaxPages is the largest number of pages of one filter.
	MaxPages = 1 << 24
	// MaxBits is the largest number of Bloom bits of one page, all layers together. They take
	// 64 MiB, an eighth of the longest string that Redis allows.
	MaxBits = 1 << 29
	// MaxLayers is the largest number of layers of one page.
	MaxLayers = 16
	// MaxHashes is the largest number of bits that a key without weight sets.
	MaxHashes = 32
	// MaxExtra is the largest weight of a key.
	MaxExtra = 16
	// MaxPositions is the largest number of bits that one key sets.
	MaxPositions = MaxHashes + MaxExtra
	// DefaultRegion is the region size in bits that [ShapeFor] chooses.
	DefaultRegion = 4

	minRate = 1e-11
	maxRate = 0.5
)

// Shape is the geometry of a page, or of one layer of it.
type Shape struct {
	Bits   uint32 // Bloom bits: a multiple of 8, 8 to MaxBits
	Hashes uint8  // bits that a key without weight sets, k: 1 to MaxHashes
	Region uint16 // bits that share one collision bit; 0: no collision bits, no removals

	// Uniform shapes ignore the weights of keys: every key sets k bits. It is the same for all
	// layers of a page. Pages of format version 3 are uniform, and a process that reads no later
	// version needs them.
	Uniform bool
}

// ShapeFor returns the shape of the smallest page that holds capacity keys without weight at the
// given false-positive rate (1e-11 to 0.5) and supports deletes. A key with a weight counts as
// several: see [Shape.Weigh]. If a parameter is out of range, ShapeFor returns an error that names
// it.
//
// k is five sixths of the best value for a Bloom filter without deletes. This costs about 1 % more
// bits at the same rate (12 % if k is 1), and leaves fewer of them shared. ShapeFor then extends
// the page to the end of its size class in the memory allocator, which is free. With regions of
// [DefaultRegion] bits, the collision bitmap also ends at the end of its size class. Both were
// chosen together, by simulation: docs/BENCHMARKS.md states what they cost.
func ShapeFor(capacity int, rate float64) (Shape, error) {
	return firstShape(capacity, rate, 1)
}

// firstShape returns the shape of the first layer of a page, which may have a share of the rate.
func firstShape(capacity int, rate, share float64) (shape Shape, err error) {
	if err = checkRate(rate); err == nil {
		shape, err = shapeAfter(HeaderBytes, MaxBits, capacity, share*rate, DefaultRegion)
	}
	if err != nil {
		return Shape{}, fmt.Errorf("shape a page: %w", err)
	}
	return shape, nil
}

// shapeAfter returns the shape of a layer with at most mostBits bits that follows before bytes of
// a string.
func shapeAfter(
	before int, mostBits uint32, capacity int, rate float64, region uint16,
) (Shape, error) {
	if capacity < 0 {
		return Shape{}, fmt.Errorf("capacity %d is negative", capacity)
	}
	k := hashesFor(rate, region)
	need := bytesFor(capacity, rate, k)
	if most := mostBits / 8; need > float64(most) {
		return Shape{}, fmt.Errorf(
			"%d keys at rate %g need %.0f bytes, more than %d", capacity, rate, need, most,
		)
	}
	length := max(minPageBytes, fitAllocator(before+int(need)))
	return Shape{Bits: min(mostBits, uint32(length-before)*8), Hashes: k, Region: region}, nil
}

// hashesFor returns the best number of bits for a key to set: log2(1/rate) for a filter without
// deletes, five sixths of it for a filter with deletes.
func hashesFor(rate float64, region uint16) uint8 {
	best := math.Log2(1 / rate)
	if region > 0 {
		best = 5 * best / 6
	}
	return uint8(min(MaxHashes, max(1, math.Round(best))))
}

// bytesFor returns the number of bytes of the Bloom bits for capacity keys that set k bits each.
func bytesFor(capacity int, rate float64, k uint8) float64 {
	perKey := -float64(k) / math.Log1p(-math.Pow(rate, 1/float64(k)))
	return math.Ceil(perKey * float64(capacity) / 8)
}

// minPageBytes is the length of the smallest page. For its two keys, Redis uses about the same
// amount of memory.
const minPageBytes = 314

// Limit returns the largest number of set bits in a page of this shape at the given false-positive
// rate. An absent key is reported with probability (set/bits)^k, whatever the history of the page.
// So the share of set bits, and not the number of keys, determines when a page is full.
func (s Shape) Limit(rate float64) uint32 {
	return uint32(float64(s.Bits) * math.Pow(rate, 1/float64(s.Hashes)))
}

// Weigh returns how many keys without weight set as many bits as the given keys.
func (s Shape) Weigh(keys ...Hash) float64 {
	bits := 0
	for i := range keys {
		bits += int(s.most(keys[i].Extra))
	}
	return float64(bits) / float64(s.Hashes)
}

// Capacity returns the number of keys without weight that a page of this shape is expected to hold
// at the given false-positive rate.
func (s Shape) Capacity(rate float64) int {
	fill := math.Pow(rate, 1/float64(s.Hashes))
	return int(-float64(s.Bits) * math.Log1p(-fill) / float64(s.Hashes))
}

// rate returns the probability that an absent key without weight is reported if the given number of
// bits is set.
func (s Shape) rate(set uint32) float64 {
	rate := 1.0
	fill := float64(set) / float64(s.Bits)
	for range s.Hashes {
		rate *= fill
	}
	return rate
}

// Bytes returns the lengths of the two strings of a page of this shape, with one layer. collisions
// is 0 if the page has no collision bitmap.
func (s Shape) Bytes() (raw, collisions int) {
	if s.Region > 0 {
		collisions = buildBytes + s.collisionBytes()
	}
	return HeaderBytes + int(s.Bits/8), collisions
}

// collisionBytes returns the length of the collision bitmap of a layer. Region must not be 0.
func (s Shape) collisionBytes() int {
	return regions.Size(s.Region).Bytes(s.Bits)
}

func (s Shape) validate() error {
	switch {
	case s.Bits == 0 || s.Bits%8 != 0 || s.Bits > MaxBits:
		return fmt.Errorf("%d bits: not a multiple of 8 in 8 to %d", s.Bits, MaxBits)
	case s.Hashes == 0 || s.Hashes > MaxHashes:
		return fmt.Errorf("%d hashes: not in 1 to %d", s.Hashes, MaxHashes)
	}
	return nil
}

func checkRate(rate float64) error {
	if !(rate >= minRate && rate <= maxRate) { // also refuses NaN
		return fmt.Errorf("false-positive rate %g is not in %g to %g", rate, minRate, maxRate)
	}
	return nil
}

func checkPages(pages uint32) error {
	if pages == 0 || pages&(pages-1) != 0 || pages > MaxPages {
		return fmt.Errorf("%d pages: not a power of two in 1 to %d", pages, MaxPages)
	}
	return nil
}

// fitAllocator returns the length of the longest Redis string, of 256 bytes or more, that takes no
// more memory than a string of length bytes. Redis puts a header of 5 bytes (9 from 64 KiB on) and
// a final zero around a string. The allocator, jemalloc, has four size classes per doubling.
// Measured on Redis 7.0: 8,186 bytes cost 2.0 bytes a key, and 8,192 cost 2.5.
func fitAllocator(length int) int {
	const short, long, longFrom = 6, 10, 65536
	length = max(length, 256)
	overhead := short
	if length >= longFrom {
		overhead = long
	}
	size := uint(length + overhead)
	step := uint(1) << (bits.Len(size-1) - 3)
	class := int((size + step - 1) / step * step)
	if class-short >= longFrom {
		return class - long
	}
	return class - short
}
