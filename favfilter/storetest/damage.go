package storetest

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// damage is a stored string that makes a page unusable.
type damage struct {
	name, which string
	value       []byte
	unseen      bool // by Peek, which reads the header and the lengths alone
}

// flipped returns a copy of a string with one bit of the byte flipped.
func flipped(s []byte, at int) []byte {
	s = slices.Clone(s)
	s[at] ^= 1
	return s
}

// damagedPage checks that every call reports each damage of a page, and of no other page.
func damagedPage(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 13}
	create(t, b.Store, id, header(13, 100))
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 5)}), favfilter.Applied)
	bits, regions := b.Strings(t, id)
	cases := []damage{
		{"bits cut short", "bits", bits[:len(bits)-1], false},
		{"long bits", "bits", append(slices.Clone(bits), 0), false},
		{"other magic", "bits", flipped(bits, 0), false},
		{"other build, checksum wrong", "bits", flipped(bits, 47), false},
		{"no regions string", "regions", nil, false},
		{"regions string cut short", "regions", regions[:len(regions)-1], false},
		{"long regions string", "regions", append(slices.Clone(regions), 0), false},
	}
	for _, n := range []int{1, 24, 40, 56, 63, 64, 70} {
		cases = append(cases, damage{"start of the bits", "bits", bits[:n], false})
	}
	for _, n := range []int{1, 7, 8, 9} {
		cases = append(cases, damage{"start of the regions string", "regions", regions[:n], false})
	}
	for _, at := range []int{0, 3, 7} {
		cases = append(cases, damage{"regions string of another build", "regions", flipped(regions, at), false})
	}
	for _, version := range []byte{1, 2, 5} {
		cases = append(cases, damage{otherFormat, "bits", AsFormat(bits, version), false})
	}
	wantDamage(t, b, id, cases)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(5, 1)}), favfilter.Applied)
}

// otherFormat is the name of damage by another format version.
const otherFormat = "another format version"

// damagedLayers does the same for a page that has grown.
func damagedLayers(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 48}
	page, _ := grownPage(t, 48)
	put(t, b.Store, id, page)
	bits, regions := b.Strings(t, id)
	first := favfilter.HeaderBytes + int(page.Header().Shape.Bits/8)
	wantDamage(t, b, id, []damage{
		{"one layer left", "bits", bits[:first], false},
		{"cut in a layer's header", "bits", bits[:first+3], false},
		{"cut in the bits", "bits", bits[:len(bits)-1], true},
		{"too long", "bits", append(slices.Clone(bits), 0), true},
		{"a bit flipped", "bits", flipped(bits, len(bits)-1), true},
		{"a layer's size", "bits", flipped(bits, first+3), true},
		{"a layer's checksum", "bits", flipped(bits, first+5), true},
		{"a layer's count of bits", "bits", flipped(bits, first+11), true},
		{"the number of layers", "bits", flipped(bits, 9), false},
		{"no regions string", "regions", nil, false},
		{"regions string of one layer", "regions", regions[:8+(page.Header().Shape.Bits/8+7)/8], false},
		{"regions string cut", "regions", regions[:len(regions)-1], true},
		{"regions string of another build", "regions", flipped(regions, 3), false},
	})
	batch := favfilter.Batch{ID: id, Sequence: page.Header().Sequence + 1, Add: hashes(100_000, 1)}
	wantState(t, apply(t, b.Store, batch), favfilter.Applied)
}

// wantDamage damages a page in each way, and repairs it again.
func wantDamage(t *testing.T, b Backend, id favfilter.PageID, cases []damage) {
	t.Helper()
	sound := favfilter.PageID{Number: id.Number + 1}
	create(t, b.Store, sound, header(sound.Number, 100))
	bits, regions := b.Strings(t, id)
	before := peek(t, b.Store, id, sound)
	for _, c := range cases {
		b.Overwrite(t, id, c.which, c.value)
		t.Logf("%s: %d bytes", c.name, len(c.value))
		wantTorn(t, b, id)
		as := favfilter.ErrDamaged
		if c.name == otherFormat {
			as = favfilter.ErrFormat
		}
		got := peek(t, b.Store, id, sound)
		if !c.unseen && (got[0].Header != (favfilter.Header{}) || got[0].Missing || !errors.Is(got[0].Damage, as)) || got[1] != before[1] {
			t.Errorf("peeked at %+v", got)
		}
		whole, err := b.Store.LoadWhole(t.Context(), []favfilter.PageID{id, sound})
		if err != nil || whole[0].Page != nil || !errors.Is(whole[0].Damage, as) || whole[0].Version != versionIn(t, b, id) || whole[1].Page == nil {
			t.Errorf("loaded whole: %+v, %v", whole, err)
		}
		l := load(t, b.Store, id)
		if inBits := c.which == "bits"; (l.Page == nil) != inBits || errors.Is(l.Damage, as) != inBits || l.Version != whole[0].Version {
			t.Errorf("loaded %+v", l) // reading needs the bits alone
		}
		b.Overwrite(t, id, "bits", bits)
		b.Overwrite(t, id, "regions", regions)
	}
	if got := peek(t, b.Store, id, sound); !slices.Equal(got, before) {
		t.Errorf("repaired: peeked at %+v, want %+v", got, before)
	}
}

// wantTorn checks that no batch changes the page, whichever way it is applied, not even one that
// was applied before. It does not depend on what the store remembers.
func wantTorn(t *testing.T, b Backend, id favfilter.PageID) {
	t.Helper()
	unchanged := remember(t, b, id)
	for _, n := range []int{1, 100} {
		for sequence := range uint64(3) {
			batch := favfilter.Batch{ID: id, Sequence: sequence, Add: hashes(5, n)}
			res := apply(t, b.Store, batch)
			wantState(t, res, favfilter.Torn)
			if res.Header != (favfilter.Header{}) || res.Version != versionIn(t, b, id) {
				t.Errorf("torn, with header %+v and version %x", res.Header, res.Version)
			}
		}
	}
	if b.Other != nil {
		wantState(t, apply(t, b.Other, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(5, 1)}), favfilter.Torn)
	}
	unchanged("a torn page")
}

// versionIn returns the version of the stored bits string.
func versionIn(t testing.TB, b Backend, id favfilter.PageID) favfilter.Version {
	t.Helper()
	bits, _ := b.Strings(t, id)
	return favfilter.Version(bits[:min(len(bits), favfilter.HeaderBytes)])
}

// halfLost checks a page of which one string is lost. It gives way to a new page.
func halfLost(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 13}
	create(t, b.Store, id, header(13, 100))
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 5)}), favfilter.Applied)
	b.Overwrite(t, id, "regions", nil)
	for _, n := range []int{1, 100} {
		batch := favfilter.Batch{ID: id, Identity: favfilter.Identity{Pages: 64}, Sequence: 2, Add: hashes(5, n)}
		wantState(t, apply(t, b.Store, batch), favfilter.Foreign)
	}
	if l := load(t, b.Store, id); !contains(l.Page, hashes(0, 5)...) {
		t.Error("reading needs the bits alone")
	}
	b.Overwrite(t, id, "bits", nil)
	_, regions := newPage(t, header(13, 100)).Encode()
	b.Overwrite(t, id, "regions", regions) // of the old page
	for _, n := range []int{1, 100} {
		wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 3, Add: hashes(1, n)}), favfilter.Missing)
	}
	if l := load(t, b.Store, id); l.Page != nil || l.Damage != nil || !peek(t, b.Store, id)[0].Missing {
		t.Errorf("a page without bits is loaded as %+v", l)
	}
	create(t, b.Store, id, header(13, 300))
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 1)}), favfilter.Applied)
}

// damageGivesWay checks that a damaged page is replaced by one that was made for what the caller
// saw, and by one that replaces older pages.
func damageGivesWay(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 13}
	create(t, b.Store, id, header(13, 100))
	bits, regions := b.Strings(t, id)
	h := header(13, 100)
	h.Sequence, h.Build = 1, 77
	for i, c := range []damage{
		{which: "bits", value: bits[:63]}, {which: "bits", value: bits[:63]},
		{which: "bits", value: AsFormat(bits, 2)}, {which: "regions"},
	} {
		b.Overwrite(t, id, "bits", bits)
		b.Overwrite(t, id, "regions", regions)
		b.Overwrite(t, id, c.which, c.value)
		r := favfilter.Replacement{ID: id, Page: newPage(t, h), Newer: i == 0}
		if !r.Newer {
			r.Seen = load(t, b.Store, id).Version
		}
		replace(t, b.Store, r, true)
		wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(0, 1)}), favfilter.Applied)
	}
}

// AsFormat returns a copy of the bits string of a page with another format version in its header.
// The string is sound otherwise.
func AsFormat(bits []byte, version byte) []byte {
	b := slices.Clone(bits)
	b[3] = version
	constant := slices.Concat(b[:24], b[40:60])
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(constant, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// wrongCount checks that the number of keys does not wrap around. It is inexact if keys were
// removed that only looked present.
func wrongCount(t *testing.T, b Backend) {
	page := newPage(t, header(13, 100))
	keys := hashes(0, 40)
	for _, h := range keys {
		page.Insert(h)
	}
	bits, collisions := page.Encode()
	bits = slices.Clone(bits)
	copy(bits[28:32], "\x00\x00\x00\x01") // one key of 40
	id := favfilter.PageID{Number: 13}
	put(t, b.Store, id, favfilter.Decode(id, bits, collisions).Page)
	for _, from := range []int{0, 4} {
		n := 4 + 4*from // by script, and by compare-and-swap
		res := apply(t, b.Store, favfilter.Batch{ID: id, Remove: keys[from : from+n]})
		wantState(t, res, favfilter.Applied)
		if res.Header.Count != 0 || !slices.Contains(res.Outcomes, favfilter.Removed) {
			t.Errorf("%d keys counted after removals: %v", res.Header.Count, res.Outcomes)
		}
	}
}
