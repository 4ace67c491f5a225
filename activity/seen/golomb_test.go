package seen

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Numbers of any width and distribution are decoded as they were encoded, with any parameter.
func TestRice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		width := rapid.Uint8Range(1, maxFingerprint).Draw(r, "width")
		most := uint64(1)<<width - 1
		numbers := rapid.SliceOfNDistinct(rapid.Uint64Range(0, most), 0, int(min(most, 300)), rapid.ID).Draw(r, "numbers")
		slices.Sort(numbers)
		k := riceParameter(width, len(numbers))
		k = rapid.SampledFrom([]uint8{k, max(k, 6) - 6, width}).Draw(r, "k")
		if width-k > 12 { // the code would take 2^(width-k) bits
			k = width - 12
		}
		data := appendRice([]byte("before"), numbers, k)[len("before"):]
		got := make([]uint64, len(numbers))
		if !decodeRice(got, data, width, k) || !slices.Equal(got, numbers) {
			r.Fatalf("%d bits, k %d: %v is decoded as %v", width, k, numbers, got)
		}
		if len(data) > 0 && decodeRice(got, data[:len(data)-1], width, k) {
			r.Fatalf("%d bits, k %d: %v is decoded without its last byte", width, k, numbers)
		}
	})
}

// Codes longer and shorter than the 57 bits read at once are decoded, at every bit position in a
// byte.
func TestRiceLongCodes(t *testing.T) {
	for k := uint8(44); k <= 54; k++ {
		for zeros := uint64(55 - k); zeros <= uint64(59-k); zeros++ {
			for before := range uint64(8) { // numbers before the long code, of k+1 bits each
				var numbers []uint64
				for n := range before {
					numbers = append(numbers, n)
				}
				numbers = append(numbers, before+zeros<<k+(1<<k-1))
				if numbers[before] >= 1<<maxFingerprint {
					continue
				}
				got := make([]uint64, len(numbers))
				if !decodeRice(got, appendRice(nil, numbers, k), maxFingerprint, k) || !slices.Equal(got, numbers) {
					t.Errorf("parameter %d, %d zeros: %x is decoded as %x", k, zeros, numbers, got)
				}
			}
		}
	}
}

// The parameter is a part of the format.
func TestRiceParameterGolden(t *testing.T) {
	for _, c := range []struct {
		width uint8
		count int
		want  uint8
	}{{1, 1, 1}, {1, 2, 0}, {10, 0, 9}, {10, 1, 9}, {10, 2, 8}, {10, 3, 8}, {10, 1024, 0}, {24, 100, 17}, {24, 650, 14}, {27, 10_000, 13}, {56, 1, 55}, {56, 3, 54}} {
		if got := riceParameter(c.width, c.count); got != c.want {
			t.Errorf("%d numbers of %d bits: %d, want %d", c.count, c.width, got, c.want)
		}
	}
}

// With the chosen parameter, evenly distributed numbers take at most 0.1 bits more than the minimum
// of any code.
func TestRiceParameter(t *testing.T) {
	for _, count := range []int{10, 90, 100, 128, 150, 200, 1000} {
		numbers := make([]uint64, 0, count)
		state := uint64(1)
		for len(numbers) < count {
			state = state*6364136223846793005 + 1442695040888963407
			numbers = append(numbers, state>>(64-24))
		}
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		best := riceParameter(24, count)
		size := len(appendRice(nil, numbers, best))
		for _, k := range []uint8{best - 2, best - 1, best + 1, best + 2} {
			if other := len(appendRice(nil, numbers, k)); float64(other) < 0.99*float64(size) {
				t.Errorf("%d numbers: %d bytes with parameter %d, %d with %d", count, size, best, other, k)
			}
		}
	}
}
