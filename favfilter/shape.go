package favfilter

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	// MaxPages is the largest number of pages of one filter.
	MaxPages = 1 << 24
	// MaxBits is the most Bloom bits of one page, all layers together: 64 MiB, an eighth of what
	// Redis allows a string.
	MaxBits = 1 << 29
	// MaxLayers is the largest number of layers of one page.
	MaxLayers = 16
	// MaxHashes is the largest number of bits a key sets.
	MaxHashes = 32
	// DefaultRegion is the region size in bits that [ShapeFor] chooses.
	DefaultRegion = 4

	minRate = 1e-11
	maxRate = 0.5
)

// Shape is the geometry of a page, or of one layer of it.
type Shape struct {
	Bits   uint32 // Bloom bits: a multiple of 8, 8 to MaxBits
	Hashes uint8  // bits a key sets, k: 1 to MaxHashes
	Region uint16 // bits that share one collision mark; 0: none, keys cannot be removed
}

// ShapeFor returns the smallest page that holds capacity keys at the given
// false-positive rate (1e-11 to 0.5) with deletions, or an error that names what
// is out of range.
//
// k is five sixths of what is best for a Bloom filter that only grows, which costs
// some 1 % more bits at the same rate (12 % where k is 1) and leaves fewer of them shared. The length is then
// raised to the end of its size class in the allocator, which is free; with regions of
// [DefaultRegion] bits the collision marks end theirs, too. Both were chosen together, by
// simulation: docs/BENCHMARKS.md has the table.
func ShapeFor(capacity int, rate float64) (Shape, error) {
	if err := checkRate(rate); err != nil {
		return Shape{}, fmt.Errorf("shape a page: %w", err)
	}
	shape, err := shapeBehind(HeaderBytes, MaxBits, capacity, rate, DefaultRegion)
	if err != nil {
		return Shape{}, fmt.Errorf("shape a page: %w", err)
	}
	return shape, nil
}

// shapeBehind shapes what follows so many bytes of a string, and may take so many bits.
func shapeBehind(before int, mostBits uint32, capacity int, rate float64, region uint16) (Shape, error) {
	if capacity < 0 {
		return Shape{}, fmt.Errorf("capacity %d is negative", capacity)
	}
	k := hashesFor(rate, region)
	need := bytesFor(capacity, rate, k)
	if most := mostBits / 8; need > float64(most) {
		return Shape{}, fmt.Errorf("%d keys at rate %g need %.0f bytes, more than %d", capacity, rate, need, most)
	}
	length := max(minPageBytes, fitAllocator(before+int(need)))
	return Shape{Bits: min(mostBits, uint32(length-before)*8), Hashes: k, Region: region}, nil
}

// hashesFor is the best number of bits a key sets: log2(1/rate) for a filter that only
// grows, five sixths of it for one that keys are removed from.
func hashesFor(rate float64, region uint16) uint8 {
	best := math.Log2(1 / rate)
	if region > 0 {
		best = 5 * best / 6
	}
	return uint8(min(MaxHashes, max(1, math.Round(best))))
}

// bytesFor is the length of the Bloom bits of capacity keys that set k bits each.
func bytesFor(capacity int, rate float64, k uint8) float64 {
	perKey := -float64(k) / math.Log1p(-math.Pow(rate, 1/float64(k)))
	return math.Ceil(perKey * float64(capacity) / 8)
}

// minPageBytes is the length of the smallest page: what Redis spends on its two keys
// is as much.
const minPageBytes = 314

// Limit returns the most bits that may be set in a page of this shape at the
// given false-positive rate. A key that is absent is reported with probability
// (set/bits)^k, whatever the history of the page, so the share of set bits, and
// not the number of keys, says when a page is full.
func (s Shape) Limit(rate float64) uint32 {
	return uint32(float64(s.Bits) * math.Pow(rate, 1/float64(s.Hashes)))
}

// Capacity returns how many keys a page of this shape is expected to hold at
// the given false-positive rate.
func (s Shape) Capacity(rate float64) int {
	fill := math.Pow(rate, 1/float64(s.Hashes))
	return int(-float64(s.Bits) * math.Log1p(-fill) / float64(s.Hashes))
}

// rate is the probability that a key that is absent is reported where so many bits are set.
func (s Shape) rate(set uint32) float64 {
	rate := 1.0
	fill := float64(set) / float64(s.Bits)
	for range s.Hashes {
		rate *= fill
	}
	return rate
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

// fitAllocator returns the longest Redis string, of 256 bytes or more, that takes
// no more memory than one of length bytes. Redis puts a header of 5 bytes (9
// from 64 KiB on) and a final zero around a string, and jemalloc serves four
// size classes per doubling. Measured on Redis 7.0: 8,186 bytes cost 2.0 bytes
// a key where 8,192 cost 2.5.
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
