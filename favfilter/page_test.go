package favfilter_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// goldenPage returns a page with the keys U1_P1 to U1_P4, after U1_P3 was removed.
func goldenPage(t fataler) *favfilter.Page {
	t.Helper()
	h := goldenHeader()
	page := newPage(t, h)
	for _, key := range []string{"U1_P1", "U1_P2", "U1_P3", "U1_P4"} {
		page.Insert(favfilter.HashKey(h.Seed, key))
	}
	if o := page.Remove(favfilter.HashKey(h.Seed, "U1_P3")); o != favfilter.Removed {
		t.Fatalf("U1_P3 is %v, want removed", o)
	}
	return page
}

const (
	goldenBits = "4641560300000040030100050e000000010203040506070800000008000000030001020304" +
		"05060a4142434445464748212223242526272800003132763aaa2d" + "a000001001041021"
	goldenCollisions = "4142434445464748" + "0020"
)

// Every later version reads a page that an earlier version wrote.
func TestPageGolden(t *testing.T) {
	raw, collisions := goldenPage(t).Encode()
	if got := hex.EncodeToString(raw); got != goldenBits {
		t.Errorf("bits string\n     %s\nwant %s", got, goldenBits)
	}
	if got := hex.EncodeToString(collisions); got != goldenCollisions {
		t.Errorf("regions string\n     %s\nwant %s", got, goldenCollisions)
	}
	storedBits, _ := hex.DecodeString(goldenBits)
	storedCollisions, _ := hex.DecodeString(goldenCollisions)
	page := decodePage(t, storedBits, storedCollisions)
	// U1_P2 and U1_P4 share bit 51, in region 10.
	for key, want := range map[string]bool{"U1_P1": true, "U1_P2": true, "U1_P3": false, "U1_P4": true, "U1_P5": false} {
		if got := page.Contains(favfilter.HashKey(page.Header().Seed, key)); got != want {
			t.Errorf("%s is contained: %v, want %v", key, got, want)
		}
	}
	if h := page.Header(); h.Count != 3 || h.Set != 8 || h.Number != 0x3132 {
		t.Errorf("header %+v, want 3 keys on 8 bits", h)
	}
}

const goldenWeighted = "4641560400000100030100050e00000001020304050607080000001600000003000102030405060a4142434445464748" +
	"21222324252627280000" + "31321aef06210001400000008008004000004001400000000020180430800022401280004000"

// A page of format version 4 has keys of different weights.
func TestWeightedPageGolden(t *testing.T) {
	h := goldenHeader()
	h.Shape = favfilter.Shape{Bits: 256, Hashes: 3, Region: 5}
	page := newPage(t, h)
	key := func(target string, extra uint8) favfilter.Hash {
		start := favfilter.HashStart(h.Seed, "block:U1_U")
		start.Extra = extra
		return start.With(favfilter.HashKey(h.Seed, target))
	}
	for extra, target := range []string{0: "2", 4: "3", 9: "4"} {
		if target != "" {
			page.Insert(key(target, uint8(extra)))
		}
	}
	raw, _ := page.Encode()
	if got := hex.EncodeToString(raw); got != goldenWeighted {
		t.Errorf("bits string\n     %s\nwant %s", got, goldenWeighted)
	}
	stored, _ := hex.DecodeString(goldenWeighted)
	page = decodePage(t, stored, nil)
	for _, c := range []struct {
		target string
		extra  uint8
		want   bool
	}{{"2", 0, true}, {"3", 4, true}, {"4", 9, true}, {"4", 3, true}, {"2", 4, false}, {"5", 0, false}} {
		if got := page.Contains(key(c.target, c.extra)); got != c.want {
			t.Errorf("%s of weight %d is contained: %v, want %v", c.target, c.extra, got, c.want)
		}
	}
}

func TestNewPageRefuses(t *testing.T) {
	for want, change := range map[string]func(*favfilter.Header){
		"page 16384 of 16384":                  func(h *favfilter.Header) { h.Number = h.Pages },
		"65 bits: not a multiple of 8":         func(h *favfilter.Header) { h.Shape.Bits = 65 },
		"33 hashes":                            func(h *favfilter.Header) { h.Shape.Hashes = 33 },
		"0 pages: not a power of two":          func(h *favfilter.Header) { h.Pages = 0 },
		"3 pages: not a power of two":          func(h *favfilter.Header) { h.Pages = 3 },
		"sequence 9007199254740992 is not bel": func(h *favfilter.Header) { h.Sequence = favfilter.MaxSequence },
	} {
		h := goldenHeader()
		change(&h)
		page, err := favfilter.NewPage(h)
		if page != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make page") {
			t.Errorf("page %v, error %v, want %q", page, err, want)
		}
	}
}

func TestNewPageIsEmpty(t *testing.T) {
	h := goldenHeader()
	h.Set, h.Count = 5, 6
	page := newPage(t, h)
	raw, collisions := page.Encode()
	if got := page.Header(); got.Set != 0 || got.Count != 0 {
		t.Errorf("a new page has %d bits set and %d keys", got.Set, got.Count)
	}
	if len(raw) != favfilter.HeaderBytes+8 || !allZero(raw[favfilter.HeaderBytes:]) {
		t.Errorf("bits string %x", raw)
	}
	// 13 regions of 5 bits, after the build id.
	if want := []byte("ABCDEFGH\x00\x00"); !bytes.Equal(collisions, want) {
		t.Errorf("regions string %q, want %q", collisions, want)
	}
}

func TestPageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := emptyPage(t, drawShape(t))
		for range rapid.IntRange(0, 20).Draw(t, "keys") {
			page.Insert(drawHash(t, "key"))
		}
		raw, collisions := page.Encode()
		if hasCollisions := page.Header().Shape.Region > 0; (collisions != nil) != hasCollisions {
			t.Fatalf("regions string %x of shape %v", collisions, page.Header().Shape)
		}
		for _, m := range [][]byte{collisions, nil} {
			again := decodePage(t, slices.Clone(raw), slices.Clone(m))
			if again.Header() != page.Header() {
				t.Fatalf("header %+v, want %+v", again.Header(), page.Header())
			}
			gotRaw, gotCollisions := again.Encode()
			if !bytes.Equal(gotRaw, raw) || !bytes.Equal(gotCollisions, m) {
				t.Fatalf("encoded %x %x, want %x %x", gotRaw, gotCollisions, raw, m)
			}
		}
	})
}

func TestDecodeRefusesDamage(t *testing.T) {
	for _, page := range []*favfilter.Page{goldenPage(t), goldenLayers(t)} {
		raw, collisions := page.Encode()
		for n := range raw {
			wantRefused(t, "truncated bits", raw[:n], collisions)
			wantRefused(t, "truncated bits, no regions string", raw[:n], nil)
		}
		for n := range collisions {
			wantRefused(t, "truncated regions string", raw, collisions[:n])
		}
		wantRefused(t, "bits too long", append(slices.Clone(raw), 0), collisions)
		wantRefused(t, "regions string too long", raw, append(slices.Clone(collisions), 0))
		for i := range 8 {
			other := slices.Clone(collisions)
			other[i] ^= 1
			wantRefused(t, "regions string of another build", raw, other)
		}
		decodePage(t, raw, collisions) // the unchanged strings are sound
		decodePage(t, raw, nil)
	}
	wantRefused(t, "nothing", nil, nil)
}

// wantRefused checks that strings are taken for a damaged page.
func wantRefused(t *testing.T, what string, raw, collisions []byte) {
	t.Helper()
	if l := decode(raw, collisions); l.Page != nil || !errors.Is(l.Damage, favfilter.ErrDamaged) {
		t.Errorf("%s: %+v, want a damaged page", what, l)
	}
}

// A page without regions keeps no collision bits, whatever its regions string.
func TestDecodeWithoutRegions(t *testing.T) {
	page := emptyPage(t, favfilter.Shape{Bits: 64, Hashes: 3})
	page.Insert(favfilter.Hash{H1: 1 << 60, H2: 1 << 61})
	raw, _ := page.Encode()
	again := decodePage(t, raw, []byte("left over"))
	if _, collisions := again.Encode(); collisions != nil {
		t.Errorf("regions string %q, want none", collisions)
	}
	if o := again.Remove(favfilter.Hash{H1: 1 << 60, H2: 1 << 61}); o != favfilter.Stuck {
		t.Errorf("a removal without regions is %v, want stuck", o)
	}
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
