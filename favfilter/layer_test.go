package favfilter_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// goldenLayers is the golden page with two more layers. The layer of 32 bits holds U1_P5, U1_P6 and
// U1_P9, the layer of 48 bits U1_P7.
func goldenLayers(t fataler) *favfilter.Page {
	t.Helper()
	page := goldenPage(t)
	for _, c := range []struct {
		shape favfilter.Shape
		keys  []string
	}{
		{favfilter.Shape{Bits: 32, Hashes: 3, Region: 5}, []string{"U1_P5", "U1_P6", "U1_P9"}},
		{favfilter.Shape{Bits: 48, Hashes: 4, Region: 5}, []string{"U1_P7"}},
	} {
		if err := page.Grow(c.shape); err != nil {
			t.Fatalf("grow: %v", err)
		}
		for _, key := range c.keys {
			if o := addAbsent(page, favfilter.HashKey(page.Header().Seed, key)); o != favfilter.Added {
				t.Fatalf("%s is %v, want added", key, o)
			}
		}
	}
	return page
}

const (
	goldenLayersBits = "4641560300000040030300050e00000001020304050607080000001200000007000102030405060a" +
		"414243444546474821222324252627280000313235b7866b" + "a000001001041021" +
		"00000020" + "03a966c3" + "00000006" + "00000003" + "00028914" +
		"00000030" + "04a6f3a9" + "00000004" + "00000001" + "070000000800"
	goldenLayersCollisions = "4142434445464748" + "0020" + "0c" + "0000"
)

// Every later version reads a page of several layers that an earlier version wrote.
func TestLayersGolden(t *testing.T) {
	raw, collisions := goldenLayers(t).Encode()
	if got := hex.EncodeToString(raw); got != goldenLayersBits {
		t.Errorf("bits string\n     %s\nwant %s", got, goldenLayersBits)
	}
	if got := hex.EncodeToString(collisions); got != goldenLayersCollisions {
		t.Errorf("regions string\n     %s\nwant %s", got, goldenLayersCollisions)
	}
	storedBits, _ := hex.DecodeString(goldenLayersBits)
	storedCollisions, _ := hex.DecodeString(goldenLayersCollisions)
	page := decodePage(t, storedBits, storedCollisions)
	for i, want := range []bool{true, true, false, true, true, true, true, false} {
		key := fmt.Sprint("U1_P", i+1)
		if got := page.Contains(favfilter.HashKey(page.Header().Seed, key)); got != want {
			t.Errorf("%s is contained: %v, want %v", key, got, want)
		}
	}
	if h := page.Header(); h.Count != 7 || h.Grown != 2 || h.Shape != goldenHeader().Shape {
		t.Errorf("header %+v, want 7 keys in 3 layers", h)
	}
	want := []favfilter.Shape{goldenHeader().Shape, {Bits: 32, Hashes: 3, Region: 5}, {Bits: 48, Hashes: 4, Region: 5}}
	if got := page.Layers(); !slices.Equal(got, want) {
		t.Errorf("layers %v, want %v", got, want)
	}
}

func TestDecodeLayersRefusesDamage(t *testing.T) {
	raw, collisions := goldenLayers(t).Encode()
	refused := func(what string, raw, collisions []byte) {
		t.Helper()
		page, err := favfilter.DecodePage(raw, collisions)
		if page != nil || !errors.Is(err, favfilter.ErrDamaged) {
			t.Errorf("%s: page %v, error %v, want a damaged page", what, page, err)
		}
	}
	for n := range raw {
		refused(fmt.Sprint("truncated bits, ", n), raw[:n], collisions)
	}
	for n := range collisions {
		refused(fmt.Sprint("truncated regions string, ", n), raw, collisions[:n])
	}
	refused("bits too long", append(slices.Clone(raw), 0), collisions)
	refused("regions string too long", raw, append(slices.Clone(collisions), 0))
	const second, third = 72, 72 + 16 + 4 // where the headers of the further layers stand
	for _, c := range []struct {
		name  string
		at    int
		value string
	}{
		{"second layer: no bits", second, "\x00\x00\x00\x00"},
		{"second layer: half a byte", second, "\x00\x00\x00\x24"},
		{"second layer: too many bits", second, "\x20\x00\x00\x08"},
		{"second layer: more bits", second, "\x00\x00\x00\x28"},
		{"second layer: fewer bits", second, "\x00\x00\x00\x18"},
		{"second layer: no hashes", second + 4, "\x00"},
		{"second layer: too many hashes", second + 4, "\x21"},
		{"second layer: first zero", second + 5, "\x01"},
		{"second layer: second zero", second + 6, "\x01"},
		{"second layer: third zero", second + 7, "\x01"},
		{"second layer: one bit set", second + 8, "\x00\x00\x00\x01"},
		{"second layer: more bits set than the page has", second + 8, "\x00\x00\x00\xff"},
		{"second layer: more keys than the page has", second + 12, "\x00\x00\x00\x07"},
		{"third layer: no bits", third, "\x00\x00\x00\x00"},
		{"third layer: bits past the most in all", third, "\x1f\xff\xff\xf8"},
		{"third layer: no bit set", third + 8, "\x00\x00\x00\x00"},
		{"a bit of the first layer", 64, "\xff"},
		{"a bit of the second", second + 16, "\xff"},
		{"a bit of the third", third + 16, "\xff"},
	} {
		changed := slices.Clone(raw)
		copy(changed[c.at:], c.value)
		if bytes.Equal(changed, raw) {
			t.Errorf("%s: nothing changed", c.name)
		}
		refused(c.name, changed, collisions)
	}
	for _, layers := range []byte{1, 2, 4, 16, 17} {
		changed := slices.Clone(raw)
		changed[9] = layers
		fixChecksum(changed)
		refused(fmt.Sprint(layers, " layers"), changed, collisions)
	}
	decodePage(t, raw, collisions) // the unchanged strings are sound
	decodePage(t, raw, nil)
}

func TestGrowRefuses(t *testing.T) {
	shape := favfilter.Shape{Bits: 64, Hashes: 3, Region: 5}
	most := emptyPage(t, shape)
	for range favfilter.MaxLayers - 1 {
		if err := most.Grow(shape); err != nil {
			t.Fatal(err)
		}
	}
	raw, _ := goldenPage(t).Encode()
	for _, c := range []struct {
		want  string
		page  *favfilter.Page
		shape favfilter.Shape
	}{
		{"16 layers", most, shape},
		{"60 bits: not a multiple of 8", goldenPage(t), favfilter.Shape{Bits: 60, Hashes: 3, Region: 5}},
		{"0 hashes", goldenPage(t), favfilter.Shape{Bits: 64, Region: 5}},
		{"more than its 64 are more than", goldenPage(t), favfilter.Shape{Bits: favfilter.MaxBits, Hashes: 3, Region: 5}},
		{"regions of 8 bits, it has such of 5", goldenPage(t), favfilter.Shape{Bits: 64, Hashes: 3, Region: 8}},
		{"regions of 0 bits", goldenPage(t), favfilter.Shape{Bits: 64, Hashes: 3}},
		{"collision bits are not loaded", decodePage(t, raw, nil), shape},
	} {
		before := encoded(c.page)
		err := c.page.Grow(c.shape)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "grow page") {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if !bytes.Equal(encoded(c.page), before) {
			t.Errorf("%s: the page changed", c.want)
		}
	}
	if got := most.Header().Grown; got != favfilter.MaxLayers-1 {
		t.Errorf("grown by %d layers", got)
	}
	raw, collisions := most.Encode()
	decodePage(t, raw, collisions)
}

// A page that grows shares no memory with the page it was cloned from, or with its encoded strings.
func TestGrowSharesNothing(t *testing.T) {
	page := goldenPage(t)
	before := encoded(page)
	raw, collisions := page.Encode()
	behind := strings.Repeat("behind", 20)
	raw, collisions = append(slices.Clone(raw), behind...), append(slices.Clone(collisions), behind...)
	decoded := decodePage(t, raw[:len(raw)-len(behind)], collisions[:len(collisions)-len(behind)])
	for _, p := range []*favfilter.Page{page.Clone(), decoded} {
		if err := p.Grow(favfilter.Shape{Bits: 64, Hashes: 3, Region: 5}); err != nil {
			t.Fatal(err)
		}
		p.Insert(favfilter.Hash{H1: 1 << 60, H2: 1 << 61})
		p.Clone().Insert(favfilter.Hash{H1: 5 << 60, H2: 3 << 61})
	}
	if !bytes.Equal(encoded(page), before) {
		t.Error("the page changed with its clone")
	}
	if !bytes.HasSuffix(raw, []byte(behind)) || !bytes.HasSuffix(collisions, []byte(behind)) {
		t.Error("growing wrote past the strings that were decoded")
	}
}

// A key added to a clone is in no layer of the page, and vice versa.
func TestClonedLayersShareNothing(t *testing.T) {
	page := goldenLayers(t)
	clone := page.Clone()
	mine, theirs := keyHash(1), keyHash(2)
	clone.Insert(theirs)
	if page.Contains(theirs) || page.Contains(mine) {
		t.Fatal("the page has a key of its clone, or both by chance")
	}
	page.Insert(mine)
	raw, collisions := page.Encode()
	if again := decodePage(t, raw, collisions); !again.Contains(mine) || again.Contains(theirs) || clone.Contains(mine) || !clone.Contains(theirs) {
		t.Error("the page and its clone have each other's keys")
	}
}

// The rate of a page combines the rates of all its layers.
func TestPageFalsePositiveRate(t *testing.T) {
	page := emptyPage(t, favfilter.Shape{Bits: 64, Hashes: 1})
	if got := page.FalsePositiveRate(); got != 0 {
		t.Errorf("rate %g of an empty page", got)
	}
	rng := rand.New(rand.NewPCG(41, 0))
	fill(rng, page, 16)
	for range 2 {
		if err := page.Grow(favfilter.Shape{Bits: 64, Hashes: 1}); err != nil {
			t.Fatal(err)
		}
		fill(rng, page, page.Header().Set+16)
	}
	if got, want := page.FalsePositiveRate(), 1-0.75*0.75*0.75; math.Abs(got-want) > 1e-12 {
		t.Errorf("rate %g of three layers a quarter full, want %g", got, want)
	}
}

// Remove takes a key from its own layer, even if a newer layer reports the key by chance. A guarded
// batch does not guess the layer.
func TestRemoveFromTheOldestLayer(t *testing.T) {
	shape := favfilter.Shape{Bits: 256, Hashes: 4, Region: 1}
	page := emptyPage(t, shape)
	key := keyHash(1)
	page.Insert(key)
	if err := page.Grow(favfilter.Shape{Bits: 8, Hashes: 1, Region: 1}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(42, 0))
	var others []favfilter.Hash
	for page.Header().Set < 4+8 { // all of the newer layer, which now reports any key
		h := randomHash(rng)
		if addAbsent(page, h) == favfilter.Added {
			others = append(others, h)
		}
	}
	h := page.Header()
	batch := favfilter.Batch{Identity: h.Identity, Sequence: h.Sequence + 1, Remove: []favfilter.Hash{key}}
	if res := page.Clone().Apply(batch); res.State != favfilter.Jammed {
		t.Errorf("a guarded removal of a key that two layers report: %v, want jammed", res.State)
	}
	if o := page.Remove(key); o != favfilter.Removed || page.Header().Set != 8 {
		t.Errorf("%v, and %d bits are set, want those of the newer layer", o, page.Header().Set)
	}
	for _, h := range others {
		if !page.Contains(h) {
			t.Error("another key was lost")
		}
	}
}

// A flipped bit in a later layer's shape or number of set bits is detected.
func TestLayerHeaderDamage(t *testing.T) {
	whole, _ := hex.DecodeString(goldenLayersBits)
	second := favfilter.HeaderBytes + 0x40/8 // behind the first layer's bits
	for at := second; at < second+12; at++ {
		for bit := range 8 {
			raw := slices.Clone(whole)
			raw[at] ^= 1 << bit
			if _, err := favfilter.DecodePage(raw, nil); !errors.Is(err, favfilter.ErrDamaged) {
				t.Errorf("bit %d of byte %d: %v", bit, at-second, err)
			}
		}
	}
}
