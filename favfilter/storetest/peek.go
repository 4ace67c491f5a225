package storetest

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

func peek(t testing.TB, s favfilter.Store, ids ...favfilter.PageID) []favfilter.Status {
	t.Helper()
	statuses, err := s.Peek(t.Context(), ids)
	if err != nil || len(statuses) != len(ids) {
		t.Fatalf("peek at %d pages: %d statuses, %v", len(ids), len(statuses), err)
	}
	for i, s := range statuses {
		if s.Err != nil {
			t.Errorf("peek at %v: %v", ids[i], s.Err)
		}
	}
	return statuses
}

// peeked checks that Peek reports the pages as stored and changed since, in the order of ids, with
// and without regions. The same page may be asked for twice.
func peeked(t *testing.T, b Backend) {
	ids := []favfilter.PageID{{Number: 40}, {Number: 41}, {Number: 40, Part: "seen"}, {Number: 42}, {Number: 40}}
	plain := header(40, 100)
	plain.Shape.Region = 0
	create(t, b.Store, ids[0], header(40, 100))
	create(t, b.Store, ids[2], plain)
	create(t, b.Store, ids[3], header(42, 3000))
	want := make([]favfilter.Status, len(ids))
	want[1].Missing = true
	for i, n := range map[int]int{0: 2, 2: 1, 3: 500} {
		apply(t, b.Store, favfilter.Batch{ID: ids[i], Add: hashes(i*1000, n)})
		want[i] = standing(t, b, ids[i])
	}
	want[4] = want[0]
	if got := peek(t, b.Store, ids...); !slices.Equal(got, want) {
		t.Errorf("peeked at\n     %+v\nwant %+v", got, want)
	}
	if got := peek(t, b.Store); len(got) != 0 {
		t.Errorf("peeked at nothing: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Store.Peek(ctx, ids); !errors.Is(err, context.Canceled) {
		t.Errorf("peek with a cancelled context: %v", err)
	}
}

// loadAndCompare checks that Load loads pages, and returns the versions of held pages as they
// change, both in the order asked for. The same page may be asked for twice.
func loadAndCompare(t *testing.T, b Backend) {
	held := []favfilter.PageID{{Number: 40}, {Number: 41}, {Number: 40, Part: "seen"}, {Number: 42}, {Number: 40}}
	ids := []favfilter.PageID{{Number: 42}, {Number: 40, Part: "seen"}, {Number: 41}}
	create(t, b.Store, held[0], header(40, 100))
	create(t, b.Store, held[2], header(40, 100))
	create(t, b.Store, held[3], header(42, 3000))
	last := make([]favfilter.Version, len(held))
	for round := range 3 {
		loaded, got, err := b.Store.Load(t.Context(), ids, held...)
		if err != nil || len(got) != len(held) || got[1] != "" || got[0] != got[4] || len(loaded) != len(ids) {
			t.Fatalf("%d pages, versions %x, %v", len(loaded), got, err)
		}
		for i, id := range ids {
			if want := load(t, b.Store, id).Version; loaded[i].Version != want {
				t.Errorf("loaded version %x of %v, want %x", loaded[i].Version, id, want)
			}
		}
		for i, id := range held {
			if l := load(t, b.Store, id); got[i] != l.Version {
				t.Errorf("version %x of %v, want %x", got[i], id, l.Version)
			}
			if changed := got[i] != last[i]; changed != (i != 1 && (round == 0 || i != 3)) {
				t.Errorf("round %d: the version of %v changed: %v", round, id, changed)
			}
		}
		last = got
		for _, i := range []int{0, 2} {
			apply(t, b.Store, favfilter.Batch{ID: held[i], Add: hashes(round*10, 1+i)}) // versions differ
		}
	}
	if loaded, got, err := b.Store.Load(t.Context(), nil, held...); len(loaded) > 0 || len(got) != len(held) || err != nil {
		t.Errorf("loaded nothing: %v, versions %x, %v", loaded, got, err)
	}
	if loaded, got, err := b.Store.Load(t.Context(), nil); len(loaded) > 0 || len(got) > 0 || err != nil {
		t.Errorf("loaded and compared nothing: %v, versions %x, %v", loaded, got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, got, err := b.Store.Load(ctx, ids, held...); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("with a cancelled context: versions %x, %v", got, err)
	}
	if _, got, _ := b.Store.Load(ctx, nil, held...); got != nil {
		t.Errorf("with a cancelled context and nothing to load: versions %x", got)
	}
}

// standing determines the state of a stored page from its strings.
func standing(t testing.TB, b Backend, id favfilter.PageID) favfilter.Status {
	t.Helper()
	raw, collisions := b.Strings(t, id)
	page := favfilter.Decode(id, raw, collisions).Page
	s := favfilter.Status{Header: page.Header(), Size: favfilter.Size{Bytes: uint32(len(raw) + len(collisions))}}
	for _, shape := range page.Layers() {
		s.Size.Bits += shape.Bits
		if shape.Region > 0 {
			s.Size.Regions += (shape.Bits + uint32(shape.Region) - 1) / uint32(shape.Region)
		}
	}
	if len(collisions) > 0 {
		for _, c := range collisions[8:] {
			s.Collided += uint32(bits.OnesCount8(c))
		}
	}
	return s
}

// replayedReplacement checks that a caller that repeats a replacement, because it did not receive
// the answer, is told that its page is stored. A caller with a different page is not, even if the
// headers are equal.
func replayedReplacement(t *testing.T, b Backend) {
	id := favfilter.PageID{Number: 43}
	create(t, b.Store, id, header(43, 100))
	seen := load(t, b.Store, id).Version
	page, twin := twins(t, header(43, 100))
	r := favfilter.Replacement{ID: id, Page: page, Seen: seen}
	for range 3 {
		replace(t, b.Store, r, true)
	}
	window := favfilter.PageID{Number: 43, Part: "window"} // without a collision bitmap
	shape := favfilter.Shape{Bits: 1024, Hashes: 5}
	create(t, b.Store, window, favfilter.Header{Identity: testIdentity(), Shape: shape, Number: 43, Build: 1})
	withoutRegions := favfilter.Replacement{ID: window, Seen: load(t, b.Store, window).Version}
	withoutRegions.Page = newPage(t, favfilter.Header{Identity: testIdentity(), Shape: shape, Number: 43, Build: 2})
	for range 2 {
		replace(t, b.Store, withoutRegions, true)
	}
	for _, newer := range []bool{false, true} { // another page with the same header
		replace(t, b.Store, favfilter.Replacement{ID: id, Page: twin, Seen: seen, Newer: newer}, false)
	}
	if !load(t, b.Store, id).Page.Contains(keyHash(0)) {
		t.Error("the page that was put there first is gone")
	}
	apply(t, b.Store, favfilter.Batch{ID: id, Sequence: page.Header().Sequence + 1, Add: hashes(1000, 1)})
	replace(t, b.Store, r, false) // over a later change
	if b.Overwrite == nil {
		return
	}
	// A page without its regions string is not the page.
	create(t, b.Store, favfilter.PageID{Number: 44}, header(44, 100))
	b.Overwrite(t, favfilter.PageID{Number: 44}, "regions", nil)
	half := favfilter.Replacement{ID: favfilter.PageID{Number: 44}, Page: newPage(t, header(44, 100)), Seen: "other"}
	replace(t, b.Store, half, false)
}

// twins returns two pages with equal headers and one key each. The first page holds key 0.
func twins(t testing.TB, h favfilter.Header) (a, b *favfilter.Page) {
	t.Helper()
	h.Sequence++
	a = newPage(t, h)
	a.Insert(keyHash(0))
	for i := 1; i < 100; i++ {
		b = newPage(t, h)
		b.Insert(keyHash(i))
		if b.Header() == a.Header() {
			return a, b
		}
	}
	t.Fatal("no key sets as many bits as key 0")
	return nil, nil
}
