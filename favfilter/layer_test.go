package favfilter_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
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
		page.Grow(c.shape)
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
	want := []favfilter.Shape{goldenHeader().Shape, {Bits: 32, Hashes: 3, Region: 5, Uniform: true}, {Bits: 48, Hashes: 4, Region: 5, Uniform: true}}
	if got := page.Layers(); !slices.Equal(got, want) {
		t.Errorf("layers %v, want %v", got, want)
	}
}

func TestDecodeLayersRefusesDamage(t *testing.T) {
	raw, collisions := goldenLayers(t).Encode()
	const second, third = 72, 72 + 16 + 4    // where the headers of the further layers stand
	for at := second; at < second+12; at++ { // its shape, its checksum and its number of set bits
		for bit := range 8 {
			changed := slices.Clone(raw)
			changed[at] ^= 1 << bit
			wantRefused(t, fmt.Sprintf("bit %d of byte %d", bit, at-second), changed, nil)
		}
	}
	for _, c := range []struct {
		name  string
		at    int
		value string
	}{
		{"second layer: no bits", second, "\x00\x00\x00\x00\x03"},
		{"second layer: half a byte", second, "\x00\x00\x00\x24\x03"},
		{"second layer: too many bits", second, "\x20\x00\x00\x08\x03"},
		{"second layer: no hashes", second, "\x00\x00\x00\x20\x00"},
		{"second layer: too many hashes", second, "\x00\x00\x00\x20\x21"},
		{"third layer: bits past the most in all", third, "\x1f\xff\xff\xf8\x04"},
	} {
		changed := slices.Clone(raw)
		copy(changed[c.at:], c.value)
		sum := crc32.Checksum([]byte(c.value), crc32.MakeTable(crc32.Castagnoli))
		changed[c.at+5], changed[c.at+6], changed[c.at+7] = byte(sum>>16), byte(sum>>8), byte(sum)
		wantRefused(t, c.name, changed, collisions)
	}
	for at, value := range map[int]byte{second + 11: 0xff, second + 15: 7, third + 11: 0, 64: 0xff, second + 16: 0xff, third + 16: 0xff} {
		changed := slices.Clone(raw)
		changed[at] = value // more bits set or keys than the page has, fewer bits set, or a bit of each layer
		wantRefused(t, fmt.Sprint("byte ", at), changed, collisions)
	}
	for _, layers := range []byte{1, 2, 4, 16, 17} {
		changed := slices.Clone(raw)
		changed[9] = layers
		fixChecksum(changed)
		wantRefused(t, fmt.Sprint(layers, " layers"), changed, collisions)
	}
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
		p.Grow(favfilter.Shape{Bits: 64, Hashes: 3, Region: 5})
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

// The rate of a page combines the rates of all its layers.
func TestPageFalsePositiveRate(t *testing.T) {
	page := emptyPage(t, favfilter.Shape{Bits: 64, Hashes: 1})
	if got := page.FalsePositiveRate(); got != 0 {
		t.Errorf("rate %g of an empty page", got)
	}
	rng := rand.New(rand.NewPCG(41, 0))
	fill(rng, page, 16)
	for range 2 {
		page.Grow(favfilter.Shape{Bits: 64, Hashes: 1})
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
	key := keyHash(3)
	page.Insert(key)
	page.Grow(favfilter.Shape{Bits: 8, Hashes: 1, Region: 1})
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
