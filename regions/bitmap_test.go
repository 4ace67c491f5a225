package regions_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/regions"
)

// The order of bits is part of the stored format: these bytes are what SETBIT leaves.
func TestBitmapHasTheOrderOfRedis(t *testing.T) {
	for _, c := range []struct {
		set  []uint32
		want []byte
	}{
		{nil, []byte{0x00, 0x00, 0x00}},
		{[]uint32{0}, []byte{0x80, 0x00, 0x00}},
		{[]uint32{7}, []byte{0x01, 0x00, 0x00}},
		{[]uint32{8}, []byte{0x00, 0x80, 0x00}},
		{[]uint32{1, 9, 18}, []byte{0x40, 0x40, 0x20}},
		{[]uint32{23, 23}, []byte{0x00, 0x00, 0x01}},
	} {
		b := make(regions.Bitmap, 3)
		for _, i := range c.set {
			b.Set(i)
		}
		if !bytes.Equal(b, c.want) {
			t.Errorf("set %v: %x, want %x", c.set, []byte(b), c.want)
		}
	}
}

// TestBitmapAgainstMap changes a bitmap and a map alike. The lengths are around the steps of eight
// bytes in which Count works.
func TestBitmapAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(t, "bytes")
		b, set := make(regions.Bitmap, size), map[uint32]bool{}
		bit := rapid.Uint32Range(0, uint32(8*size-1))
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			i := bit.Draw(t, "bit")
			if rapid.Bool().Draw(t, "set") {
				b.Set(i)
				set[i] = true
			} else {
				b.Clear(i)
				delete(set, i)
			}
		}
		for i := range uint32(8 * size) {
			if b.Get(i) != set[i] {
				t.Fatalf("Get(%d) = %v, want %v", i, b.Get(i), set[i])
			}
		}
		if got := b.Count(); got != len(set) {
			t.Fatalf("Count() = %d, want %d", got, len(set))
		}
		i, j, k := bit.Draw(t, "i"), bit.Draw(t, "j"), bit.Draw(t, "k")
		if got, want := b.All(i, j, k), set[i] && set[j] && set[k]; got != want {
			t.Fatalf("All(%d, %d, %d) = %v, want %v", i, j, k, got, want)
		}
	})
}

// TestBitmapAll tests each combination of three bits at all places of a byte, which random bitmaps
// seldom have.
func TestBitmapAll(t *testing.T) {
	for at := range uint32(8) {
		bits := [3]uint32{at, 8 + (at+3)%8, 16 + (at+6)%8}
		for set := range 8 {
			b := regions.Bitmap{0, 0, 0}
			for i, bit := range bits {
				if set>>i&1 == 1 {
					b.Set(bit)
				}
			}
			if got := b.All(bits[0], bits[1], bits[2]); got != (set == 7) {
				t.Errorf("All(%d) = %v of %x", bits, got, []byte(b))
			}
		}
	}
}

// TestBitmapCountOfEveryByte counts every byte at every place, in a word and after the last one.
func TestBitmapCountOfEveryByte(t *testing.T) {
	if got := regions.Bitmap(nil).Count(); got != 0 {
		t.Errorf("Count of nil = %d, want 0", got)
	}
	for at := range 19 {
		b := make(regions.Bitmap, 19)
		for v := range 256 {
			b[at] = byte(v)
			want := 0
			for x := v; x > 0; x /= 2 {
				want += x % 2
			}
			if got := b.Count(); got != want {
				t.Fatalf("byte %#x at %d: Count() = %d, want %d", v, at, got, want)
			}
		}
	}
}

// A bit past the end is not taken for another one.
func TestBitmapPanicsPastItsEnd(t *testing.T) {
	for name, f := range map[string]func(b regions.Bitmap){
		"Get":   func(b regions.Bitmap) { b.Get(8) },
		"All":   func(b regions.Bitmap) { b.All(1, 2, 8) },
		"Set":   func(b regions.Bitmap) { b.Set(8) },
		"Clear": func(b regions.Bitmap) { b.Clear(8) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(make(regions.Bitmap, 1))
		})
	}
}

// Offset numbers the bits of a string from its first byte, also those past 32 bits.
func TestOffset(t *testing.T) {
	for _, c := range []struct {
		bytes int
		bit   uint32
		want  uint64
	}{{0, 0, 0}, {0, 9, 9}, {8, 0, 64}, {64, 13, 525}, {64, 1<<32 - 1, 1<<32 + 511}} {
		if got := regions.Offset(c.bytes, c.bit); got != c.want {
			t.Errorf("Offset(%d, %d) = %d, want %d", c.bytes, c.bit, got, c.want)
		}
	}
	whole := make(regions.Bitmap, 10)
	part := whole[3:]
	part.Set(13)
	if !whole.Get(uint32(regions.Offset(3, 13))) || whole.Count() != 1 {
		t.Errorf("bit 13 of %x is not at offset %d of %x", []byte(part), regions.Offset(3, 13), []byte(whole))
	}
}
