package sizing

import (
	"math/bits"
	"strconv"
)

// These constants are the bytes that Redis takes for a key besides its name and value. They are the
// entry of the dictionary (40 in a cluster, which links the keys of a slot), the object, and
// buckets of 8 bytes. A dictionary has one to two buckets per entry.
const (
	entryBytes    = 48
	objectBytes   = 16
	bucketBytes   = 16
	expiryBytes   = 32 + bucketBytes // of a key's time to live
	embeddedBytes = 44               // the longest value that shares the object's block
)

// sizeClass returns the size of the block that jemalloc takes for n bytes: multiples of 16 up to
// 128, then four classes for each doubling.
func sizeClass(n int) int {
	switch {
	case n <= 8:
		return 8
	case n <= 128:
		return (n + 15) / 16 * 16
	}
	step := 1 << (bits.Len(uint(n-1)) - 3)
	return (n + step - 1) / step * step
}

// textBytes returns the memory of a Redis string of n bytes: a header, the bytes, a zero.
func textBytes(n int) int {
	header := 1
	switch {
	case n >= 1<<16:
		header = 9
	case n >= 1<<8:
		header = 5
	case n >= 1<<5:
		header = 3
	}
	return sizeClass(header + n + 1)
}

// keyBytes returns the memory of a key of n bytes without its value.
func keyBytes(n int) int { return entryBytes + bucketBytes + textBytes(n) }

// stringBytes returns the memory of a key and a string of these lengths.
func stringBytes(key, value int) int {
	if value <= embeddedBytes {
		return keyBytes(key) + sizeClass(objectBytes+3+value+1)
	}
	return keyBytes(key) + objectBytes + textBytes(value)
}

// Lengths in the Redis protocol: bulk is that of a string of n bytes, array that of the opening of
// n of them.
func bulk(n int) int  { return array(n) + n + 2 }
func array(n int) int { return 1 + len(strconv.Itoa(n)) + 2 }
