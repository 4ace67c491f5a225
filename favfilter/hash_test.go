package favfilter_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Most values are published ones of MurmurHash3_x64_128 with seed 0; the value of "" differs.
// Another implementation computed the rest. If a value changes, every stored page becomes useless.
func TestHashKeyGolden(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		key  string
		want favfilter.Hash
	}{
		{0, "", favfilter.Hash{H1: 0x9e3779b97f4a7c15, H2: 0xff51afd7ed558ccd}}, // published: {0, 0}
		{8, "\x00\x00\x00\x00\x00\x00\x00\x00", favfilter.Hash{H1: 0x9e3779b97f4a7c15, H2: 0xff51afd7ed558ccd}},
		{0, "hello", favfilter.Hash{H1: 0xcbd8a7b341bd9b02, H2: 0x5b1e906a48ae1d19}},
		{0, "hello, world", favfilter.Hash{H1: 0x342fac623a5ebc8e, H2: 0x4cdcbc079642414d}},
		{0, "19 Jan 2038 at 3:14:07 AM", favfilter.Hash{H1: 0xb89e5988b737affc, H2: 0x664fc2950231b2cb}},
		{0, "The quick brown fox jumps over the lazy dog.", favfilter.Hash{H1: 0xcd99481f9ee902c9, H2: 0x695da1a38987b6e7}},
		{0, "U1_P2", favfilter.Hash{H1: 0xdf029c60f838af8e, H2: 0x647c81be3a6dc6cc}},
		{0x0123456789abcdef, "", favfilter.Hash{H1: 0x4b8fc375ee6d1ca7, H2: 0x666f9bfdaaa22b49}},
		{0x0123456789abcdef, "U1_P2", favfilter.Hash{H1: 0x19ef1f88d4b2a337, H2: 0x3a4eba819b8160bf}},
	} {
		if got := favfilter.HashKey(c.seed, c.key); got != c.want {
			t.Errorf("HashKey(%#x, %q) = {%#x, %#x}, want {%#x, %#x}", c.seed, c.key, got.H1, got.H2, c.want.H1, c.want.H2)
		}
	}
}

// The verification value that SMHasher publishes for MurmurHash3_x64_128: the
// hash of the hashes of {}, {0}, {0 1}, ... {0 ... 254} under seeds 256 to 1.
func TestHashKeyPassesSMHasher(t *testing.T) {
	var key, sums []byte
	for i := range 256 {
		h := favfilter.HashKey(uint64(256-i), string(key))
		sums = binary.LittleEndian.AppendUint64(sums, h.H1)
		sums = binary.LittleEndian.AppendUint64(sums, h.H2)
		key = append(key, byte(i))
	}
	if got := uint32(favfilter.HashKey(0, string(sums)).H1); got != 0x6384BA69 {
		t.Errorf("verification value %#x, published 0x6384ba69", got)
	}
}

func TestHashKeyAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		key := rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "key")
		want := referenceHash(seed, key)
		if want == (favfilter.Hash{}) {
			want = favfilter.Hash{H1: 0x9e3779b97f4a7c15, H2: 0xff51afd7ed558ccd}
		}
		if got := favfilter.HashKey(seed, string(key)); got != want {
			t.Fatalf("HashKey = %x, reference %x", got, want)
		}
		if got := favfilter.HashStartBytes(seed, key); got != favfilter.HashStart(seed, string(key)) {
			t.Fatalf("HashStartBytes = %x, HashStart %x", got, favfilter.HashStart(seed, string(key)))
		}
	})
}

// referenceHash is MurmurHash3_x64_128, written from its description, with a seed of 64 bits.
func referenceHash(seed uint64, key []byte) favfilter.Hash {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	mix1 := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	mix2 := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	h1, h2 := seed, seed
	tail := key
	for ; len(tail) >= 16; tail = tail[16:] {
		h1 ^= mix1(binary.LittleEndian.Uint64(tail))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mix2(binary.LittleEndian.Uint64(tail[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	// Zeros mix to zero, so a padded tail gives the same result as a partial one.
	var last [16]byte
	copy(last[:], tail)
	h2 ^= mix2(binary.LittleEndian.Uint64(last[8:]))
	h1 ^= mix1(binary.LittleEndian.Uint64(last[:]))
	h1 ^= uint64(len(key))
	h2 ^= uint64(len(key))
	h1 += h2
	h2 += h1
	h1, h2 = finalMix(h1), finalMix(h2)
	h1 += h2
	h2 += h1
	return favfilter.Hash{H1: h1, H2: h2}
}

func finalMix(k uint64) uint64 {
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

func TestPageNumber(t *testing.T) {
	for _, c := range []struct {
		hash  uint64
		pages uint32
		want  uint32
	}{
		{0, 1, 0},
		{1<<64 - 1, 1, 0},
		{1<<63 - 1, 2, 0},
		{1 << 63, 2, 1},
		{0xABCD_EF01_2345_6789, 16, 0xA},
		{0xABCD_EF01_2345_6789, 1 << 14, 0xABCD >> 2},
		{0xABCD_EF01_2345_6789, favfilter.MaxPages, 0xABCDEF},
		{1<<64 - 1, favfilter.MaxPages, favfilter.MaxPages - 1},
	} {
		if got := favfilter.PageNumber(c.hash, c.pages); got != c.want {
			t.Errorf("PageNumber(%#x, %d) = %#x, want %#x", c.hash, c.pages, got, c.want)
		}
	}
}

// Doubling the number of pages splits each page into two neighbours and moves nothing else.
func TestPageNumberSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hash := rapid.Uint64().Draw(t, "hash")
		pages := uint32(1) << rapid.IntRange(0, 23).Draw(t, "log2 of pages")
		before, after := favfilter.PageNumber(hash, pages), favfilter.PageNumber(hash, 2*pages)
		if after/2 != before || after >= 2*pages {
			t.Fatalf("page %d of %d becomes page %d of %d", before, pages, after, 2*pages)
		}
	})
}

func TestPositionsGolden(t *testing.T) {
	hello := favfilter.Hash{H1: 0xcbd8a7b341bd9b02, H2: 0x5b1e906a48ae1d19}
	for _, c := range []struct {
		name  string
		shape favfilter.Shape
		hash  favfilter.Hash
		want  []uint32
	}{
		{"a page of a byte", favfilter.Shape{Bits: 8, Hashes: 3}, hello, []uint32{6, 1, 5}},
		{"a page of 2,000 keys", favfilter.Shape{Bits: 32208, Hashes: 7, Region: 8}, hello,
			[]uint32{25646, 4902, 22929, 11367, 13038, 1532, 10268}},
		{"the largest page", favfilter.Shape{Bits: favfilter.MaxBits, Hashes: 4}, hello,
			[]uint32{427496694, 81716995, 382201256, 189480941}},
		{"no stride", favfilter.Shape{Bits: 64, Hashes: 5}, favfilter.Hash{H1: 1 << 63}, []uint32{32}},
		{"half a page at a time", favfilter.Shape{Bits: 64, Hashes: 5}, favfilter.Hash{H2: 1 << 63}, []uint32{0, 32}},
		{"a weight", favfilter.Shape{Bits: 32208, Hashes: 2, Region: 8}, weighted(hello, 5),
			[]uint32{25646, 4902, 22929, 11367, 13038, 1532, 10268}},
		{"a uniform page", favfilter.Shape{Bits: 32208, Hashes: 2, Region: 8, Uniform: true}, weighted(hello, 5),
			[]uint32{25646, 4902}},
		{"the last bit", favfilter.Shape{Bits: 64, Hashes: 1}, favfilter.Hash{H1: 1<<64 - 1}, []uint32{63}},
	} {
		if got := c.shape.Positions(nil, c.hash); !slices.Equal(got, c.want) {
			t.Errorf("%s: positions %d, want %d", c.name, got, c.want)
		}
		// New positions may equal earlier elements.
		if got, want := c.shape.Positions(c.want, c.hash), slices.Repeat(c.want, 2); !slices.Equal(got, want) {
			t.Errorf("%s: appended %d, want %d", c.name, got, want)
		}
	}
}

// Positions returns the bits that Insert sets and Contains needs, numbered like the bits of a Redis
// string.
func TestPositionsAreThePagesBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		h := drawHash(t, "key")
		positions := shape.Positions(nil, h)
		most := int(shape.Hashes)
		if !shape.Uniform {
			most += int(h.Extra)
		}
		if n := len(positions); n == 0 || n > most {
			t.Fatalf("%d positions of %d hashes", n, most)
		}
		page := newPage(t, favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: shape})
		page.Insert(h)
		if int(page.Header().Set) != len(positions) {
			t.Fatalf("%d bits set, positions %d", page.Header().Set, positions)
		}
		raw, _ := page.Encode()
		for i, p := range positions {
			if p >= shape.Bits || slices.Contains(positions[:i], p) {
				t.Fatalf("position %d of %d bits among %d", p, shape.Bits, positions)
			}
			at, mask := favfilter.HeaderBytes+p/8, byte(0x80)>>(p%8)
			if raw[at]&mask == 0 {
				t.Fatalf("bit %d is not set", p)
			}
			without := slices.Clone(raw)
			without[at] &^= mask
			if l := decode(without, nil); !errors.Is(l.Damage, favfilter.ErrDamaged) {
				t.Fatalf("error %v for a page that lost bit %d", l.Damage, p)
			}
			binary.BigEndian.PutUint32(without[24:], page.Header().Set-1)
			if decodePage(t, without, nil).Contains(h) {
				t.Fatalf("contained without bit %d", p)
			}
		}
		if !decodePage(t, raw, nil).Contains(h) {
			t.Fatal("not contained with all its bits")
		}
	})
}

// A key sets at most MaxPositions bits, whatever its weight.
func TestLargestWeight(t *testing.T) {
	shape := favfilter.Shape{Bits: 1 << 20, Hashes: favfilter.MaxHashes, Region: 4}
	h := favfilter.HashKey(1, "key")
	h.Extra = favfilter.MaxExtra
	want := shape.Positions(nil, h)
	h.Extra = math.MaxUint8
	if got := shape.Positions(nil, h); !slices.Equal(got, want) || len(got) > favfilter.MaxPositions {
		t.Errorf("%d positions, want %d", len(got), len(want))
	}
}
