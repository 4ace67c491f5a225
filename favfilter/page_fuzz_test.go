package favfilter_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// FuzzDecode decodes arbitrary stored bytes. Decoding must not panic. Bytes accepted as a page
// encode to the same bytes, and the page can be changed.
func FuzzDecode(f *testing.F) {
	raw, collisions := goldenPage(f).Encode()
	f.Add(raw, collisions, uint64(1), uint64(2))
	f.Add(raw, []byte(nil), uint64(1)<<63, uint64(3)<<61)
	f.Add(raw[:40], collisions, uint64(0), uint64(0))
	layered, layeredCollisions := goldenLayers(f).Encode()
	f.Add(layered, layeredCollisions, uint64(1), uint64(2))
	f.Add(layered, []byte(nil), uint64(1)<<63, uint64(3)<<61)
	f.Add(layered[:80], layeredCollisions[:9], uint64(0), uint64(0))
	f.Add(raw, collisions[:3], uint64(0), uint64(0))
	for _, c := range []struct {
		at    int
		value byte
	}{{8, 32}, {10, 0xFF}, {11, 0}, {12, 0}, {27, 0}, {31, 0}, {9, 2}} {
		for page, collisions := range map[string][]byte{string(raw): collisions, string(layered): layeredCollisions} {
			changed := []byte(page)
			changed[c.at] = c.value
			f.Add(changed, collisions, uint64(7), uint64(9)<<55)
		}
	}
	f.Fuzz(func(t *testing.T, raw, collisions []byte, h1, h2 uint64) {
		key := favfilter.Hash{H1: h1, H2: h2}
		useDecoded(t, raw, collisions, key)
		if len(raw) >= favfilter.HeaderBytes { // let the fuzzer past the checksum
			raw = slices.Clone(raw)
			fixChecksum(raw)
			useDecoded(t, raw, collisions, key)
		}
	})
}

func useDecoded(t *testing.T, raw, collisions []byte, key favfilter.Hash) {
	t.Helper()
	l := decode(slices.Clone(raw), slices.Clone(collisions))
	page := l.Page
	if page == nil {
		if !errors.Is(l.Damage, favfilter.ErrDamaged) {
			t.Fatalf("error %v, want a damaged page", l.Damage)
		}
		return
	}
	gotRaw, gotCollisions := page.Encode()
	h := page.Header()
	if h.Shape.Region == 0 {
		collisions = nil
	}
	if !bytes.Equal(gotRaw, raw) || !bytes.Equal(gotCollisions, collisions) {
		t.Fatalf("encoded %x %x, was %x %x", gotRaw, gotCollisions, raw, collisions)
	}
	contained := page.Contains(key)
	batch := favfilter.Batch{ID: favfilter.PageID{Number: h.Number}, Identity: h.Identity, Add: []favfilter.Hash{key}, Remove: []favfilter.Hash{key}}
	if res := page.Clone().Apply(batch); collisions == nil && h.Shape.Region > 0 {
		if res.State != favfilter.Torn {
			t.Fatalf("state %v of a page without its collision bits, want torn", res.State)
		}
		return
	}
	batch.Sequence = h.Sequence + 1
	page.Clone().Apply(batch)
	switch o := page.Clone().Remove(key); o {
	case favfilter.Removed, favfilter.Stuck:
		if !contained {
			t.Fatalf("an absent key is %v", o)
		}
	default:
		if contained {
			t.Fatalf("a contained key is %v", o)
		}
	}
	if len(page.Layers()) < favfilter.MaxLayers {
		page.Grow(favfilter.Shape{Bits: 24, Hashes: 2, Region: h.Shape.Region})
		raw, collisions := page.Encode()
		decodePage(t, raw, collisions)
	}
	page.Insert(key)
	if !page.Contains(key) {
		t.Fatal("not contained after its insertion")
	}
}
