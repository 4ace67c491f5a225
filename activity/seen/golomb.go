package seen

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Sorted numbers are stored as Golomb-Rice codes of the gaps between them (Golomb, 1966; Rice,
// 1979). A gap g takes g>>k zeros, a one, and the low k bits of g. Bits are numbered from the
// lowest bit of the first byte on. Evenly distributed numbers take about 0.1 bits more than with
// the best possible code.

// riceParameter returns the best k for count numbers of width bits: the integer part of log2 of
// 0.962 times the mean gap. See Kiely, "Selecting the Golomb Parameter in Rice Coding", 2004.
func riceParameter(width uint8, count int) uint8 {
	mean := uint64(1) << width / uint64(max(count, 1))
	mean -= mean / 26
	return uint8(max(1, bits.Len64(mean)) - 1)
}

// appendRice appends the codes of numbers, which are sorted and distinct, and pads them to a whole
// byte.
func appendRice(dst []byte, numbers []uint64, k uint8) []byte {
	var word uint64                     // bits that are not appended yet
	used := uint(0)                     // number of them, below 32
	put := func(value uint64, n uint) { // at most 32 bits
		word |= value << used
		if used += n; used >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(word))
			word >>= 32
			used -= 32
		}
	}
	next := uint64(0)
	for _, number := range numbers {
		gap := number - next
		next = number + 1
		zeros := uint(gap >> k)
		for ; zeros >= 32; zeros -= 32 {
			put(0, 32)
		}
		put(1<<zeros, zeros+1)
		rest, n := gap&(1<<k-1), uint(k)
		if n > 32 {
			put(rest&math.MaxUint32, 32)
			rest, n = rest>>32, n-32
		}
		put(rest, n)
	}
	for ; used > 0; used -= min(used, 8) {
		dst = append(dst, byte(word))
		word >>= 8
	}
	return dst
}

// decodeRice decodes len(numbers) numbers and reports whether data has that many, each of at most
// width bits. k must be at most 56.
func decodeRice(numbers []uint64, data []byte, width, k uint8) bool {
	in := bitReader{data: data}
	low, most := uint64(1)<<k-1, uint64(1)<<width-1
	next := uint64(0)
	for i := range numbers {
		zeros := uint(bits.TrailingZeros64(in.word))
		if zeros+1+uint(k) > in.valid {
			in.fill()
			zeros = uint(bits.TrailingZeros64(in.word))
		}
		var high, rest uint64
		if used := zeros + 1 + uint(k); used <= in.valid { // nearly always
			high, rest = uint64(zeros), in.word>>((zeros+1)&63)&low
			in.word >>= used & 63
			in.valid -= used
		} else if high, rest = in.long(k); high > most>>k {
			return false
		}
		number := next + high<<k + rest
		if number > most {
			return false
		}
		numbers[i] = number
		next = number + 1
	}
	return true
}

// bitReader reads bits, starting with the lowest bit of the first byte.
type bitReader struct {
	data  []byte
	at    int    // of the next byte to read
	word  uint64 // the next bits; bits beyond valid may be set as well
	valid uint
}

// fill reads until at least 56 bits are valid, or data ends. (Giesen, "Reading bits in far too many
// ways", 2018, variant 4.)
func (in *bitReader) fill() {
	if in.at+8 <= len(in.data) {
		in.word |= binary.LittleEndian.Uint64(in.data[in.at:]) << (in.valid & 63)
		in.at += int((63 - in.valid) >> 3)
		in.valid |= 56
		return
	}
	for ; in.valid <= 56 && in.at < len(in.data); in.at++ {
		in.word |= uint64(in.data[in.at]) << in.valid
		in.valid += 8
	}
}

// long reads a code that does not fit in the word. If data ends first, high is too large for any
// number.
func (in *bitReader) long(k uint8) (high, rest uint64) {
	zeros := uint(bits.TrailingZeros64(in.word))
	for zeros >= in.valid {
		high += uint64(in.valid)
		in.word, in.valid = 0, 0
		in.fill()
		if in.valid == 0 {
			return 1 << 63, 0
		}
		zeros = uint(bits.TrailingZeros64(in.word))
	}
	high += uint64(zeros)
	in.word >>= zeros + 1
	in.valid -= zeros + 1
	in.fill()
	if in.valid < uint(k) {
		return 1 << 63, 0
	}
	rest = in.word & (1<<k - 1)
	in.word >>= k
	in.valid -= uint(k)
	return high, rest
}
