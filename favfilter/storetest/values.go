package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// valueID is the id of a value in these tests.
func valueID() favfilter.PageID { return favfilter.PageID{Number: 5, Part: "seen.1z"} }

// value returns a value that has changed so many times.
func value(changes int) []byte {
	return append(fmt.Appendf(nil, "value after %d changes", changes), bytes.Repeat([]byte{0, 0xff}, 100)...)
}

// putValue stores a value over what has the version seen.
func putValue(t testing.TB, s favfilter.Store, val []byte, seen favfilter.Version) {
	t.Helper()
	replaceValue(t, s, favfilter.Replacement{Value: val, Seen: seen}, true)
}

func replaceValue(t testing.TB, s favfilter.Store, r favfilter.Replacement, want bool) {
	t.Helper()
	r.ID = valueID()
	replace(t, s, r, want)
}

func wantValue(t testing.TB, l favfilter.Loaded, want []byte) {
	t.Helper()
	if l.Page != nil || l.Damage != nil || (l.Value == nil) != (want == nil) || !bytes.Equal(l.Value, want) ||
		string(l.Version) != string(want[:min(favfilter.HeaderBytes, len(want))]) {
		t.Errorf("loaded %+v, want %q", l, want)
	}
}

// valueStored checks that a value is stored, loaded beside pages, swapped, and removed.
func valueStored(t *testing.T, b Backend) {
	id := valueID()
	page := favfilter.PageID{Number: id.Number}
	create(t, b.Store, page, header(page.Number, 100))
	putValue(t, b.Store, value(1), "")
	loaded, _, err := b.Store.Load(t.Context(), []favfilter.PageID{page, id, {Number: id.Number, Part: "seen.0"}})
	if err != nil || loaded[0].Page == nil || loaded[0].Value != nil {
		t.Fatalf("%+v, %v", loaded, err)
	}
	wantValue(t, loaded[1], value(1))
	wantValue(t, loaded[2], nil)
	whole, err := b.Store.LoadWhole(t.Context(), []favfilter.PageID{id})
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, whole[0], value(1))
	if raw, collisions := b.Strings(t, id); !bytes.Equal(raw, value(1)) || collisions != nil {
		t.Errorf("%x and %x are stored", raw, collisions)
	}
	first := loaded[1].Version
	putValue(t, b.Store, value(2), first)
	putValue(t, b.Store, value(2), first) // a replay
	replaceValue(t, b.Store, favfilter.Replacement{Value: value(3), Seen: first}, false)
	replaceValue(t, b.Store, favfilter.Replacement{Value: value(3)}, false)
	replaceValue(t, b.Store, favfilter.Replacement{Seen: first}, false)
	second := load(t, b.Store, id)
	wantValue(t, second, value(2))
	replaceValue(t, b.Store, favfilter.Replacement{Seen: second.Version}, true)
	wantValue(t, load(t, b.Store, id), nil)
	if raw, _ := b.Strings(t, id); raw != nil || load(t, b.Store, page).Page == nil {
		t.Errorf("%x is left, or the page beside it is gone", raw)
	}
}

// valueIsNoPage checks that nothing takes a value for a page.
func valueIsNoPage(t *testing.T, b Backend) {
	id := valueID()
	putValue(t, b.Store, value(1), "")
	for _, keys := range []int{3, 30} { // by a script, and by compare-and-swap
		if res := apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, keys)}); res.State != favfilter.Torn {
			t.Errorf("a batch of %d keys is %v", keys, res.State)
		}
	}
	status, err := b.Store.Peek(t.Context(), []favfilter.PageID{id})
	if err != nil || !errors.Is(status[0].Damage, favfilter.ErrDamaged) {
		t.Errorf("%+v, %v", status, err)
	}
	wantValue(t, load(t, b.Store, id), value(1))
}

// valueOfAnyBytes checks that any bytes are loaded as they are, and can be replaced.
func valueOfAnyBytes(t *testing.T, b Backend) {
	page, _ := newPage(t, header(valueID().Number, 100)).Encode()
	for _, bytes := range [][]byte{page, page[:40], {}, []byte("something else")} {
		b.Overwrite(t, valueID(), "bits", bytes)
		l := load(t, b.Store, valueID())
		wantValue(t, l, bytes)
		putValue(t, b.Store, value(1), l.Version)
		wantValue(t, load(t, b.Store, valueID()), value(1))
	}
}

// valueExpires checks that the store removes a value at the end of its time to live.
func valueExpires(t *testing.T, b Backend) {
	putValue(t, b.Store, value(1), "")
	seen := load(t, b.Store, valueID()).Version
	replaceValue(t, b.Store, favfilter.Replacement{Value: value(2), Seen: seen, Expire: Expire}, true)
	wantValue(t, load(t, b.Store, valueID()), value(2))
	b.Advance(t)
	wantValue(t, load(t, b.Store, valueID()), nil)
	if raw, _ := b.Strings(t, valueID()); raw != nil {
		t.Errorf("%d bytes outlived their time", len(raw))
	}
}
