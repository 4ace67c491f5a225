package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

func halfLost(t *testing.T, b Backend) {
	if b.Overwrite == nil {
		t.Skip("a page of this store cannot be damaged")
	}
	id := favfilter.PageID{Number: 13}
	create(t, b.Store, id, header(13, 100))
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 5)}), favfilter.Applied)
	b.Overwrite(t, id, "regions", nil)
	wantTorn(t, b, id)
	for _, n := range []int{1, 100} {
		batch := favfilter.Batch{ID: id, Identity: favfilter.Identity{Pages: 64}, Sequence: 2, Add: hashes(5, n)}
		wantState(t, apply(t, b.Store, batch), favfilter.Foreign)
	}
	l := load(t, b.Store, id)
	if !contains(l.Page, hashes(0, 5)...) {
		t.Error("reading needs the bits alone")
	}
	h := header(13, 100)
	h.Sequence, h.Build = 1, 77
	done, err := b.Store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: newPage(t, h), Seen: l.Version})
	if err != nil || !done {
		t.Fatalf("a torn page is replaced as seen: %v, %v", done, err)
	}
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(0, 1)}), favfilter.Applied)
	b.Overwrite(t, id, "bits", nil)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 3, Add: hashes(1, 1)}), favfilter.Missing)
	if load(t, b.Store, id).Page != nil {
		t.Error("a page without bits was loaded")
	}
}

// wantTorn checks that no batch changes the page, whichever way it is applied.
func wantTorn(t *testing.T, b Backend, id favfilter.PageID) {
	t.Helper()
	bits, collisions := b.Strings(t, id)
	for _, n := range []int{1, 100} {
		for _, sequence := range []uint64{0, 2} {
			res := apply(t, b.Store, favfilter.Batch{ID: id, Sequence: sequence, Add: hashes(5, n)})
			wantState(t, res, favfilter.Torn)
			if res.Header != (favfilter.Header{}) || string(res.Version) != string(bits[:min(len(bits), favfilter.HeaderBytes)]) {
				t.Errorf("torn, with header %+v and version %x", res.Header, res.Version)
			}
		}
	}
	bits2, collisions2 := b.Strings(t, id)
	if !bytes.Equal(bits, bits2) || !bytes.Equal(collisions, collisions2) {
		t.Error("a torn page was changed")
	}
}

func otherBuild(t *testing.T, b Backend) {
	if b.Overwrite == nil {
		t.Skip("a page of this store cannot be damaged")
	}
	id := favfilter.PageID{Number: 13}
	create(t, b.Store, id, header(13, 100))
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 5)}), favfilter.Applied)
	_, collisions := b.Strings(t, id)
	for _, at := range []int{0, 7} {
		other := slices.Clone(collisions)
		other[at] ^= 1
		b.Overwrite(t, id, "regions", other)
		wantTorn(t, b, id)
	}
	b.Overwrite(t, id, "regions", collisions)
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(5, 1)}), favfilter.Applied)
}

// shortStrings checks that a string cut off within its header is not a page.
func shortStrings(t *testing.T, b Backend) {
	if b.Overwrite == nil {
		t.Skip("a page of this store cannot be damaged")
	}
	id := favfilter.PageID{Number: 13}
	create(t, b.Store, id, header(13, 100))
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 5)}), favfilter.Applied)
	bits, collisions := b.Strings(t, id)
	for _, n := range []int{1, 7} {
		b.Overwrite(t, id, "regions", collisions[:n])
		wantTorn(t, b, id)
	}
	b.Overwrite(t, id, "regions", collisions)
	for _, n := range []int{1, 24, 40, 56, 63} {
		b.Overwrite(t, id, "bits", bits[:n])
		wantTorn(t, b, id)
		l := load(t, b.Store, id)
		if l.Page != nil || !errors.Is(l.Damage, favfilter.ErrDamaged) || string(l.Version) != string(bits[:n]) {
			t.Errorf("%d bytes loaded as %+v", n, l)
		}
	}
	h := header(13, 100)
	h.Sequence, h.Build = 1, 77
	for _, r := range []favfilter.Replacement{{Seen: favfilter.Version(bits[:63])}, {Newer: true}} {
		b.Overwrite(t, id, "bits", bits[:63])
		r.ID, r.Page = id, newPage(t, h)
		if done, err := b.Store.Replace(t.Context(), r); err != nil || !done {
			t.Errorf("a damaged page gives way to %+v: %v, %v", r, done, err)
		}
	}
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(0, 1)}), favfilter.Applied)
}

// otherFormat checks that a page of another format version is neither read nor changed, and that a
// page created by the caller replaces it.
func otherFormat(t *testing.T, b Backend) {
	if b.Overwrite == nil {
		t.Skip("a page of this store cannot be of another format version")
	}
	id := favfilter.PageID{Number: 13}
	create(t, b.Store, id, header(13, 100))
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 5)}), favfilter.Applied)
	bits, _ := b.Strings(t, id)
	for _, version := range []byte{1, 2, 4} {
		old := AsFormat(bits, version)
		b.Overwrite(t, id, "bits", old)
		wantTorn(t, b, id)
		l := load(t, b.Store, id)
		if l.Page != nil || !errors.Is(l.Damage, favfilter.ErrFormat) || string(l.Version) != string(old[:favfilter.HeaderBytes]) {
			t.Errorf("format version %d loaded as %+v", version, l)
		}
		whole, err := b.Store.LoadWhole(t.Context(), []favfilter.PageID{id})
		if err != nil || whole[0].Page != nil || !errors.Is(whole[0].Damage, favfilter.ErrFormat) {
			t.Errorf("format version %d loaded whole as %+v, %v", version, whole, err)
		}
		peeked, err := b.Store.Peek(t.Context(), []favfilter.PageID{id})
		if err != nil || !errors.Is(peeked[0].Damage, favfilter.ErrFormat) {
			t.Errorf("format version %d peeked as %+v, %v", version, peeked, err)
		}
	}
	h := header(13, 100)
	h.Sequence, h.Build = 1, 77
	l := load(t, b.Store, id)
	done, err := b.Store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: newPage(t, h), Seen: l.Version})
	if err != nil || !done {
		t.Fatalf("a page of another format version is replaced as seen: %v, %v", done, err)
	}
	wantState(t, apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 2, Add: hashes(0, 1)}), favfilter.Applied)
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
	page, err := favfilter.DecodePage(bits, collisions)
	if err != nil {
		t.Fatal(err)
	}
	id := favfilter.PageID{Number: 13}
	if done, err := b.Store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: page}); err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	for _, from := range []int{0, 4} {
		n := 4 + 4*from // by script, and by compare-and-swap
		res := apply(t, b.Store, favfilter.Batch{ID: id, Remove: keys[from : from+n]})
		wantState(t, res, favfilter.Applied)
		if res.Header.Count != 0 || !slices.Contains(res.Outcomes, favfilter.Removed) {
			t.Errorf("%d keys counted after removals: %v", res.Header.Count, res.Outcomes)
		}
	}
}
