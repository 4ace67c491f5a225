package regions_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/regions"
)

// The bit order is part of the stored format. These bytes are what SETBIT leaves.
func TestBitmapHasRedisBitOrder(t *testing.T) {
	tests := []struct {
		set  []uint32
		want []byte
	}{
		{nil, []byte{0x00, 0x00, 0x00}},
		{[]uint32{0}, []byte{0x80, 0x00, 0x00}},
		{[]uint32{7}, []byte{0x01, 0x00, 0x00}},
		{[]uint32{8}, []byte{0x00, 0x80, 0x00}},
		{[]uint32{1, 9, 18}, []byte{0x40, 0x40, 0x20}},
		{[]uint32{23, 23}, []byte{0x00, 0x00, 0x01}},
	}
	for _, tt := range tests {
		b := make(regions.Bitmap, 3)
		for _, i := range tt.set {
			b.Set(i)
		}
		if !bytes.Equal(b, tt.want) {
			t.Errorf("set %v: got %x, want %x", tt.set, []byte(b), tt.want)
		}
	}
}

func TestBitmapAgainstBools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Lengths around the eight-byte step of Count.
		size := rapid.IntRange(1, 40).Draw(t, "bytes")
		b, model := make(regions.Bitmap, size), make([]bool, 8*size)
		bit := rapid.Uint32Range(0, uint32(8*size-1))
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			i := bit.Draw(t, "bit")
			if rapid.Bool().Draw(t, "set") {
				b.Set(i)
				model[i] = true
			} else {
				b.Clear(i)
				model[i] = false
			}
		}
		count := 0
		for i, want := range model {
			if got := b.Get(uint32(i)); got != want {
				t.Fatalf("Get(%d) = %v, want %v", i, got, want)
			}
			if want {
				count++
			}
		}
		if got := b.Count(); got != count {
			t.Fatalf("Count() = %d, want %d", got, count)
		}
	})
}

// Every byte value at every offset within a word, and at the tail.
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

func TestOfAndCount(t *testing.T) {
	const top = math.MaxUint32
	tests := []struct {
		bits, size uint32
		regions    uint32
		last       uint32 // region of the last bit
	}{
		{1, 1, 1, 0},
		{1, 10, 1, 0},
		{9, 10, 1, 0},
		{10, 10, 1, 0},
		{11, 10, 2, 1},
		{20, 10, 2, 1},
		{65_000, 8, 8_125, 8_124},
		{65_001, 8, 8_126, 8_125},
		{top, 1, top, top - 1},
		{top, 2, 1 << 31, 1<<31 - 1},
		{top, 10, 429_496_730, 429_496_729},
		{top, top, 1, 0},
		{top - 1, top, 1, 0},
	}
	for _, tt := range tests {
		if got := regions.Count(tt.bits, tt.size); got != tt.regions {
			t.Errorf("Count(%d, %d) = %d, want %d", tt.bits, tt.size, got, tt.regions)
		}
		if got := regions.Of(tt.bits-1, tt.size); got != tt.last {
			t.Errorf("Of(%d, %d) = %d, want %d", tt.bits-1, tt.size, got, tt.last)
		}
	}
	if got := regions.Count(0, 10); got != 0 {
		t.Errorf("Count(0, 10) = %d, want 0", got)
	}
}

// A walk over the bits meets the regions in order, size bits each.
func TestOfAndCountAgainstWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint32Range(0, 500).Draw(t, "bits")
		size := rapid.Uint32Range(1, 40).Draw(t, "size")
		count, filled := uint32(0), size
		for bit := range bits {
			if filled == size {
				count, filled = count+1, 0
			}
			filled++
			if got := regions.Of(bit, size); got != count-1 {
				t.Fatalf("Of(%d, %d) = %d, want %d", bit, size, got, count-1)
			}
		}
		if got := regions.Count(bits, size); got != count {
			t.Fatalf("Count(%d, %d) = %d, want %d", bits, size, got, count)
		}
	})
}

func TestClearable(t *testing.T) {
	collisions := make(regions.Bitmap, 1)
	collisions.Set(1) // with size 10: bits 10 to 19
	tests := []struct {
		name           string
		dst, positions []uint32
		want           []uint32
	}{
		{"none", nil, nil, nil},
		{"borders", nil, []uint32{9, 10, 19, 20}, []uint32{9, 20}},
		{"order and repeats stay", nil, []uint32{35, 12, 3, 35}, []uint32{35, 3, 35}},
		{"all collided", nil, []uint32{11, 15}, nil},
		{"appends", []uint32{15}, []uint32{15, 25}, []uint32{15, 25}},
	}
	for _, tt := range tests {
		if got := collisions.Clearable(tt.dst, tt.positions, 10); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Clearable(%v, %v) = %v, want %v", tt.name, tt.dst, tt.positions, got, tt.want)
		}
	}
}

func TestClearableAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint32Range(1, 20).Draw(t, "size")
		collided := rapid.MapOf(rapid.Uint32Range(0, 63), rapid.Just(true)).Draw(t, "collided")
		positions := rapid.SliceOf(rapid.Uint32Range(0, 64*size-1)).Draw(t, "positions")
		collisions := make(regions.Bitmap, 8)
		for r := range collided {
			collisions.Set(r)
		}
		var want []uint32
		for _, p := range positions {
			if !collided[p/size] {
				want = append(want, p)
			}
		}
		if got := collisions.Clearable(nil, positions, size); !slices.Equal(got, want) {
			t.Fatalf("Clearable(nil, %v, %d) = %v, want %v", positions, size, got, want)
		}
		if got := collisions.Clearable(positions[:0], positions, size); !slices.Equal(got, want) {
			t.Fatalf("in place: got %v, want %v", got, want)
		}
	})
}

// A delete that clears only clearable bits takes no bit from another live key, whatever was
// inserted and deleted before. This is the rule that the package documents.
func TestDeletesLeaveOtherKeysAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint32Range(16, 300).Draw(t, "bits")
		size := rapid.Uint32Range(1, 20).Draw(t, "size")
		p := newPage(bits, size)
		position := rapid.Uint32Range(0, bits-1)
		keys := rapid.SliceOfNDistinct(position, 1, 6, rapid.ID[uint32])
		var live [][]uint32
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) == 0 || rapid.IntRange(0, 2).Draw(t, "op") > 0 {
				key := keys.Draw(t, "key")
				p.insert(key)
				live = append(live, key)
				continue
			}
			i := rapid.IntRange(0, len(live)-1).Draw(t, "victim")
			key := live[i]
			live = slices.Delete(live, i, i+1)
			for _, bit := range p.collisions[0].Clearable(nil, key, size) {
				p.bits.Clear(bit)
			}
			for _, other := range live {
				if !p.contains(other) {
					t.Fatalf("deleting %v lost the live key %v", key, other)
				}
			}
		}
	})
}

func TestMisusePanics(t *testing.T) {
	tests := map[string]func(){
		"Of with size 0":                 func() { _ = regions.Of(1, 0) },
		"Count with size 0":              func() { _ = regions.Count(1, 0) },
		"Get past the end":               func() { make(regions.Bitmap, 1).Get(8) },
		"Set past the end":               func() { make(regions.Bitmap, 1).Set(8) },
		"Clear past the end":             func() { make(regions.Bitmap, 1).Clear(8) },
		"Clearable in a region past end": func() { make(regions.Bitmap, 1).Clearable(nil, []uint32{80}, 10) },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func BenchmarkBitmapCount(b *testing.B) {
	for _, size := range []int{64, 8_186, 65_530} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, uint64(size)))
			m := make(regions.Bitmap, size)
			for i := range m {
				m[i] = byte(rng.Uint32())
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				m.Count()
			}
		})
	}
}
