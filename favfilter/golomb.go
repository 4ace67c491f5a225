package favfilter

import (
	"encoding/binary"
	"math/bits"
)

// Sorted numbers are stored as Golomb-Rice codes of the gaps between them (Golomb, 1966; Rice,
// 1979). A gap g takes g>>k zeros, a one, and the low k bits of g, from the lowest bit of the first
// byte on. Evenly distributed numbers then take about 0.1 bits more than any code needs at least.

// riceParameter returns the best k for count numbers of the given number of bits (Kiely, "Selecting
// the Golomb Parameter in Rice Coding", 2004: the whole part of log2 of 0.962 times the mean gap).
func riceParameter(width uint8, count int) uint8 {
	mean := uint64(1) << width / uint64(max(count, 1))
	mean -= mean / 26
	return uint8(max(1, bits.Len64(mean)) - 1)
}

// appendRice appends the codes of numbers, which are sorted and distinct, and pads them to a whole
// byte.
func appendRice(dst []byte, numbers []uint64, k uint8) []byte {
	var pending uint64 // bits that do not fill a byte yet
	used := uint8(0)   // number of them, below 8
	put := func(value uint64, n uint8) {
		for pending |= value << used; used+n >= 8; {
			dst = append(dst, byte(pending))
			taken := 8 - used
			value >>= taken
			n -= taken
			pending, used = value, 0
		}
		used += n
	}
	next := uint64(0)
	for _, number := range numbers {
		gap := number - next
		next = number + 1
		for zeros := gap >> k; ; zeros -= 32 {
			if zeros < 32 {
				put(1<<zeros, uint8(zeros)+1)
				break
			}
			put(0, 32)
		}
		put(gap&(1<<k-1), k)
	}
	if used > 0 {
		dst = append(dst, byte(pending))
	}
	return dst
}

// decodeRice decodes len(numbers) numbers and reports whether data has that many, each of at most
// width bits.
func decodeRice(numbers []uint64, data []byte, width, k uint8) bool {
	next, end := uint64(0), uint64(1)<<width
	at := 0 // in bits
	for i := range numbers {
		word := bitsAt(data, at) // at least 57 bits of data
		zeros := bits.TrailingZeros64(word)
		gap := uint64(zeros)
		switch {
		case zeros+1+int(k) <= 57: // nearly always
			at += zeros + 1
			word >>= zeros + 1
		default:
			gap = 0
			for word == 0 || bits.TrailingZeros64(word) > 56 {
				if at >= 8*len(data) {
					return false
				}
				gap += 56
				at += 56
				word = bitsAt(data, at)
			}
			zeros = bits.TrailingZeros64(word)
			gap += uint64(zeros)
			at += zeros + 1
			word = bitsAt(data, at)
		}
		at += int(k)
		if gap >= end>>k+1 {
			return false
		}
		number := next + gap<<k + word&(1<<k-1)
		if number >= end {
			return false
		}
		numbers[i] = number
		next = number + 1
	}
	return at <= 8*len(data)
}

// bitsAt returns at least 57 bits from the given one on, with zeros after the end of data.
func bitsAt(data []byte, at int) uint64 {
	first := at >> 3
	if first+8 <= len(data) {
		return binary.LittleEndian.Uint64(data[first:]) >> (at & 7)
	}
	var word uint64
	for i := min(len(data), first+8) - 1; i >= first; i-- {
		word = word<<8 | uint64(data[i])
	}
	return word >> (at & 7)
}
