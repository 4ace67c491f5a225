package favfilter_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// goldenHeader returns a header with a different value in every field, of format version 3.
func goldenHeader() favfilter.Header {
	return favfilter.Header{
		Identity: favfilter.Identity{Seed: 0x0102030405060708, Pages: 1 << 14, Incarnation: 0x2122232425262728},
		Shape:    favfilter.Shape{Bits: 64, Hashes: 3, Region: 5, Uniform: true},
		Number:   0x3132,
		Sequence: 0x000102030405060A,
		Build:    0x4142434445464748,
	}
}

func TestHeaderGolden(t *testing.T) {
	h := goldenHeader()
	h.Set, h.Count = 9, 0x51525354
	want := "464156" + "03" + "00000040" + "03" + "01" + "0005" + "0e" + "000000" + "0102030405060708" +
		"00000009" + "51525354" + "000102030405060a" + "4142434445464748" + "2122232425262728" + "00003132" + "763aaa2d"
	got := h.Version()
	if hex.EncodeToString([]byte(got)) != want {
		t.Fatalf("encoded %x\nwant    %s", got, want)
	}
	decoded, err := favfilter.DecodeHeader([]byte(got + "the bits"))
	if err != nil || decoded != h {
		t.Errorf("decoded %+v, %v, want %+v", decoded, err, h)
	}
	h.Shape.Uniform = false
	want = strings.Replace(strings.Replace(want, "46415603", "46415604", 1), "763aaa2d", "559388ee", 1)
	if got := hex.EncodeToString([]byte(h.Version())); got != want {
		t.Errorf("encoded %s\nwant    %s", got, want)
	}
	if decoded, err := favfilter.DecodeHeader([]byte(h.Version())); err != nil || decoded != h {
		t.Errorf("decoded %+v, %v, want %+v", decoded, err, h)
	}
	h.Left = 0x616263
	moved := []byte(h.Version())
	want = strings.Replace(want, "0e000000", "0e616263", 1)
	if got := hex.EncodeToString(moved[:60]); got != want[:120] {
		t.Errorf("encoded %s\nwant    %s", got, want[:120])
	}
	if decoded, err := favfilter.DecodeHeader(moved); err != nil || decoded != h {
		t.Errorf("decoded %+v, %v, want %+v", decoded, err, h)
	}
}

// A flipped bit of a header is detected, except in Set, Count and Sequence. These fields change
// with every write, and any value in their range is possible.
func TestHeaderNoticesAnyFlippedBit(t *testing.T) {
	h := goldenHeader()
	raw := []byte(h.Version())
	for bit := range 8 * favfilter.HeaderBytes {
		if bit/8 >= 24 && bit/8 < 40 {
			continue
		}
		raw[bit/8] ^= 0x80 >> (bit % 8)
		if got, err := favfilter.DecodeHeader(raw); !errors.Is(err, favfilter.ErrDamaged) || got != (favfilter.Header{}) {
			t.Errorf("bit %d flipped: %+v, %v, want a damaged page", bit, got, err)
		}
		raw[bit/8] ^= 0x80 >> (bit % 8)
	}
	if _, err := favfilter.DecodeHeader(raw); err != nil {
		t.Errorf("a header that was repaired: %v", err)
	}
}

// Impossible values are refused even if the checksum is right.
func TestHeaderRefusesFields(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    int
		bytes string
		want  string
	}{
		{"another format", 0, "RDB\x01", `starts with "RDB\x01"`},
		{"an earlier version", 3, "\x02", "another format version: 2, this version reads 3 and 4"},
		{"a later version", 3, "\x05", "another format version: 5, this version reads 3 and 4"},
		{"no bits", 4, "\x00\x00\x00\x00", "0 bits: not a multiple of 8 in 8 to 536870912"},
		{"half a byte", 4, "\x00\x00\x00\x44", "68 bits: not a multiple of 8"},
		{"too many bits", 4, "\x20\x00\x00\x08", "536870920 bits"},
		{"no hashes", 8, "\x00", "0 hashes: not in 1 to 32"},
		{"too many hashes", 8, "\x21", "33 hashes"},
		{"no layer", 9, "\x00", "0 layers"},
		{"too many layers", 9, "\x11", "17 layers"},
		{"too many pages", 12, "\x19", "33554432 pages: not a power of two in 1 to 16777216"},
		{"more pages than can be counted", 12, "\x20", "2^32 pages"},
		{"more bits set than there are", 24, "\x00\x00\x00\x41", "65 bits set of 64"},
		{"sequence too high", 32, "\x00\x20\x00\x00\x00\x00\x00\x00", "sequence 9007199254740992 is not below"},
		{"number past the pages", 56, "\x00\x00\x40\x00", "page 16384 of 16384"},
		{"checksum", 60, "\x00\x00\x00\x00", "header checksum 00000000"},
	} {
		raw := []byte(goldenHeader().Version())
		copy(raw[c.at:], c.bytes)
		if c.at != 60 {
			fixChecksum(raw)
		}
		_, err := favfilter.DecodeHeader(raw)
		if !errors.Is(err, favfilter.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// The largest allowed values are accepted.
func TestHeaderAllowsTheEndsOfRanges(t *testing.T) {
	for _, h := range []favfilter.Header{
		{Identity: favfilter.Identity{Pages: 1}, Shape: favfilter.Shape{Bits: 8, Hashes: 1}},
		{
			Identity: favfilter.Identity{Pages: favfilter.MaxPages, Seed: math.MaxUint64, Incarnation: math.MaxUint64},
			Shape:    favfilter.Shape{Bits: favfilter.MaxBits, Hashes: favfilter.MaxHashes, Region: math.MaxUint16},
			Left:     favfilter.LeftMask,
			Number:   favfilter.MaxPages - 1,
			Set:      favfilter.MaxBits,
			Count:    math.MaxUint32,
			Sequence: favfilter.MaxSequence - 1,
			Build:    math.MaxUint64,
		},
	} {
		if got, err := favfilter.DecodeHeader([]byte(h.Version())); err != nil || got != h {
			t.Errorf("decoded %+v, %v, want %+v", got, err, h)
		}
	}
}

// fixChecksum sets the checksum of a header by the format: CRC-32C of bytes 0-23 and 40-59.
func fixChecksum(raw []byte) {
	table := crc32.MakeTable(crc32.Castagnoli)
	constant := append(append([]byte(nil), raw[:24]...), raw[40:60]...)
	binary.BigEndian.PutUint32(raw[60:], crc32.Checksum(constant, table))
}
