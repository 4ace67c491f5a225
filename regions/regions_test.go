package regions_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/regions"
)

func TestSize(t *testing.T) {
	const top = math.MaxUint32
	for _, c := range []struct {
		bits  uint32
		size  regions.Size
		last  uint32 // region of the last bit
		count uint32
		bytes int
	}{
		{1, 1, 0, 1, 1},
		{1, 10, 0, 1, 1},
		{9, 10, 0, 1, 1},
		{10, 10, 0, 1, 1},
		{11, 10, 1, 2, 1},
		{80, 10, 7, 8, 1},
		{81, 10, 8, 9, 2},
		{65_000, 8, 8_124, 8_125, 1016},
		{65_001, 8, 8_125, 8_126, 1016},
		{top, 1, top - 1, top, 1 << 29},
		{top, 2, 1<<31 - 1, 1 << 31, 1 << 28},
		{top, 10, 429_496_729, 429_496_730, 53_687_092},
		{top, top, 0, 1, 1},
		{top - 1, top, 0, 1, 1},
	} {
		if got := c.size.Of(c.bits - 1); got != c.last {
			t.Errorf("Size(%d).Of(%d) = %d, want %d", c.size, c.bits-1, got, c.last)
		}
		if got := c.size.Count(c.bits); got != c.count {
			t.Errorf("Size(%d).Count(%d) = %d, want %d", c.size, c.bits, got, c.count)
		}
		if got := c.size.Bytes(c.bits); got != c.bytes {
			t.Errorf("Size(%d).Bytes(%d) = %d, want %d", c.size, c.bits, got, c.bytes)
		}
	}
	if count, bytes := regions.Size(10).Count(0), regions.Size(10).Bytes(0); count != 0 || bytes != 0 {
		t.Errorf("%d regions of no bits, in %d bytes", count, bytes)
	}
}

// TestSizeAgainstWalk walks over the bits, and meets the regions in order, size bits each.
func TestSizeAgainstWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint32Range(0, 500).Draw(t, "bits")
		size := rapid.Uint32Range(1, 40).Draw(t, "size")
		s := regions.Size(size)
		count, filled := uint32(0), size
		for bit := range bits {
			if filled == size {
				count, filled = count+1, 0
			}
			filled++
			if got := s.Of(bit); got != count-1 {
				t.Fatalf("Size(%d).Of(%d) = %d, want %d", size, bit, got, count-1)
			}
		}
		if got := s.Count(bits); got != count {
			t.Fatalf("Size(%d).Count(%d) = %d, want %d", size, bits, got, count)
		}
		if got := s.Bytes(bits); got < int(count+7)/8 || got > int(count+7)/8 {
			t.Fatalf("Size(%d).Bytes(%d) = %d of %d regions", size, bits, got, count)
		}
	})
}

// model is what a Pair has to be, in maps: the set bits, and the regions whose collision bit is
// set. Beside it are the live keys, of which a Pair knows nothing.
type model struct {
	size     uint32
	set      map[uint32]bool
	collided map[uint32]bool
	live     [][]uint32
}

func (m *model) insert(key []uint32) (set int) {
	for _, bit := range key {
		if m.set[bit] {
			m.collided[bit/m.size] = true
		} else {
			m.set[bit] = true
			set++
		}
	}
	m.live = append(m.live, key)
	return set
}

// clearable returns the bits of the key in regions where no insert met a set bit.
func (m *model) clearable(key []uint32) []uint32 {
	return slices.DeleteFunc(slices.Clone(key), func(bit uint32) bool { return m.collided[bit/m.size] })
}

// check compares a Pair with the model, and checks that every live key is reported.
func (m *model) check(t *rapid.T, p *regions.Pair, bits uint32) {
	t.Helper()
	for bit := range bits {
		if p.Bits.Get(bit) != m.set[bit] {
			t.Fatalf("bit %d is set: %v, want %v", bit, p.Bits.Get(bit), m.set[bit])
		}
	}
	for region := range p.Size.Count(bits) {
		if p.Collisions.Get(region) != m.collided[region] {
			t.Fatalf("collision bit %d is set: %v, want %v", region, p.Collisions.Get(region), m.collided[region])
		}
	}
	if p.Bits.Count() != len(m.set) || p.Collisions.Count() != len(m.collided) {
		t.Fatalf("%d bits and %d collision bits set, want %d and %d", p.Bits.Count(), p.Collisions.Count(), len(m.set), len(m.collided))
	}
	for _, key := range m.live {
		if !contains(p, key) {
			t.Fatalf("the live key %d was lost", key)
		}
	}
}

func contains(p *regions.Pair, key []uint32) bool {
	return !slices.ContainsFunc(key, func(bit uint32) bool { return !p.Bits.Get(bit) })
}

func newPair(bits uint32, size regions.Size) *regions.Pair {
	return &regions.Pair{
		Bits: make(regions.Bitmap, (bits+7)/8), Collisions: make(regions.Bitmap, size.Bytes(bits)), Size: size,
	}
}

// TestPairAgainstMaps inserts and deletes keys. The Pair is what the model is, no delete takes a
// bit from a live key, and a deleted key is no longer reported.
func TestPairAgainstMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint32Range(16, 300).Draw(t, "bits")
		size := rapid.Uint32Range(1, 20).Draw(t, "size")
		p := newPair(bits, regions.Size(size))
		m := &model{size: size, set: map[uint32]bool{}, collided: map[uint32]bool{}}
		keys := rapid.SliceOfNDistinct(rapid.Uint32Range(0, bits-1), 1, 6, rapid.ID[uint32])
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				if got, want := p.Insert(key), m.insert(key); got != want {
					t.Fatalf("Insert(%d) set %d bits, want %d", key, got, want)
				}
			},
			"delete": func(t *rapid.T) {
				if len(m.live) == 0 {
					return
				}
				i := rapid.IntRange(0, len(m.live)-1).Draw(t, "victim")
				key := m.live[i]
				prefix := []uint32{7, 7}
				got, want := p.Clearable(prefix, key), m.clearable(key)
				if !slices.Equal(got, slices.Concat(prefix, want)) {
					t.Fatalf("Clearable(%d, %d) = %d, want %d after them", prefix, key, got, want)
				}
				if len(want) == 0 {
					return // stuck: the key stays
				}
				m.live = slices.Delete(m.live, i, i+1)
				for _, bit := range want {
					delete(m.set, bit)
				}
				if n := p.Clear(want); n != len(want) {
					t.Fatalf("Clear(%d) cleared %d bits of a live key", want, n)
				}
				if n := p.Clear(want); n != 0 {
					t.Fatalf("Clear(%d) cleared %d bits for the second time", want, n)
				}
				if contains(p, key) {
					t.Fatalf("the deleted key %d is reported", key)
				}
			},
			"": func(t *rapid.T) { m.check(t, p, bits) },
		})
	})
}

// A delete that cleared a bit in a region with a collision bit would lose other keys.
func TestClearable(t *testing.T) {
	p := newPair(80, 10)
	p.Insert([]uint32{12, 40})
	p.Insert([]uint32{12, 60}) // meets bit 12: the collision bit of bits 10 to 19
	for name, c := range map[string]struct{ dst, positions, want []uint32 }{
		"none":           {nil, nil, nil},
		"borders":        {nil, []uint32{9, 10, 19, 20}, []uint32{9, 20}},
		"order":          {nil, []uint32{35, 12, 3}, []uint32{35, 3}},
		"all collided":   {nil, []uint32{11, 15}, nil},
		"after others":   {[]uint32{15}, []uint32{15, 25}, []uint32{15, 25}},
		"the first key":  {nil, []uint32{12, 40}, []uint32{40}},
		"the second key": {nil, []uint32{12, 60}, []uint32{60}},
	} {
		if got := p.Clearable(c.dst, c.positions); !slices.Equal(got, c.want) {
			t.Errorf("%s: Clearable(%v, %v) = %v, want %v", name, c.dst, c.positions, got, c.want)
		}
	}
}

// Without regions, nothing can be deleted, and no collision bitmap is needed.
func TestPairWithoutRegions(t *testing.T) {
	p := &regions.Pair{Bits: make(regions.Bitmap, 2)}
	if set := p.Insert([]uint32{3, 14}); set != 2 {
		t.Errorf("%d bits set, want 2", set)
	}
	if set := p.Insert([]uint32{3, 15}); set != 1 || p.Bits.Count() != 3 {
		t.Errorf("%d bits set, %d in all, want 1 and 3", set, p.Bits.Count())
	}
	if got := p.Clearable(nil, []uint32{3, 14}); len(got) > 0 {
		t.Errorf("clearable: %d", got)
	}
}
