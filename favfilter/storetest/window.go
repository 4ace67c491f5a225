package storetest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// fingerprints returns a window on the store, and the id of an owner.
func fingerprints(t testing.TB, s favfilter.Store) (*favfilter.Window, favfilter.PageID) {
	t.Helper()
	w, err := favfilter.OpenWindow(s, favfilter.WindowConfig{Name: "seen", Length: time.Hour, Seed: 42, Pages: 64})
	if err != nil {
		t.Fatal(err)
	}
	id := w.ID(5 << 58)
	return w, id
}

func record(t testing.TB, w *favfilter.Window, id favfilter.PageID, loaded *favfilter.Loaded, keys ...favfilter.Hash) {
	t.Helper()
	if _, err := w.Write(t.Context(), id, favfilter.Writing{Keys: keys, Now: time.Now(), Loaded: loaded}); err != nil {
		t.Fatal(err)
	}
}

// windowStored checks that the keys of an owner are stored, loaded beside pages, swapped, and
// removed.
func windowStored(t *testing.T, b Backend) {
	w, id := fingerprints(t, b.Store)
	page := favfilter.PageID{Number: id.Number}
	create(t, b.Store, page, header(page.Number, 100))
	record(t, w, id, nil, hashes(0, 30)...)
	loaded, err := b.Store.Load(t.Context(), []favfilter.PageID{page, id, {Number: id.Number, Part: "seen.0"}})
	if err != nil || loaded[0].Page == nil || loaded[1].Fingerprints == nil || loaded[1].Page != nil || loaded[2] != (favfilter.Loaded{}) {
		t.Fatalf("%+v, %v", loaded, err)
	}
	whole, err := b.Store.LoadWhole(t.Context(), []favfilter.PageID{id})
	if err != nil || whole[0].Version != loaded[1].Version || whole[0].Fingerprints == nil {
		t.Fatalf("%+v, %v", whole, err)
	}
	raw, collisions := b.Strings(t, id)
	if !bytes.Equal(raw, loaded[1].Fingerprints.Encode()) || collisions != nil || string(raw[:min(64, len(raw))]) != string(loaded[1].Version) {
		t.Errorf("%x and %x are stored, loaded was %+v", raw, collisions, loaded[1])
	}
	seen := &loaded[1]
	record(t, w, id, seen, keyHash(100))      // read with its page
	record(t, w, id, &whole[0], keyHash(200)) // read before the last write
	now := load(t, b.Store, id)
	if now.Version == loaded[1].Version {
		t.Error("a change left the version")
	}
	for _, key := range append(hashes(0, 30), keyHash(100), keyHash(200)) {
		if !w.Recent(now, time.Now()).Contains(key) {
			t.Error("a key was lost")
		}
	}
	replay := favfilter.Replacement{ID: id, Fingerprints: now.Fingerprints, Seen: loaded[1].Version}
	if done, err := b.Store.Replace(t.Context(), replay); err != nil || !done {
		t.Errorf("a replay: %v, %v", done, err)
	}
	stale := favfilter.Replacement{ID: id, Fingerprints: loaded[1].Fingerprints, Seen: loaded[1].Version}
	if done, err := b.Store.Replace(t.Context(), stale); err != nil || done {
		t.Errorf("a replacement of an outdated version: %v, %v", done, err)
	}
	if done, err := b.Store.Replace(t.Context(), favfilter.Replacement{ID: id, Seen: loaded[1].Version}); err != nil || done {
		t.Errorf("a removal of an outdated version: %v, %v", done, err)
	}
	if err := w.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if raw, _ := b.Strings(t, id); raw != nil || load(t, b.Store, page).Page == nil {
		t.Errorf("%x is left, or the page beside it is gone", raw)
	}
}

// windowIsNoPage checks that nothing takes the keys of an owner for a page.
func windowIsNoPage(t *testing.T, b Backend) {
	w, id := fingerprints(t, b.Store)
	record(t, w, id, nil, hashes(0, 30)...)
	if res := apply(t, b.Store, favfilter.Batch{ID: id, Sequence: 1, Add: hashes(0, 3)}); res.State != favfilter.Torn {
		t.Errorf("a batch is %v", res.State)
	}
	status, err := b.Store.Peek(t.Context(), []favfilter.PageID{id})
	if err != nil || !errors.Is(status[0].Damage, favfilter.ErrDamaged) {
		t.Errorf("%+v, %v", status, err)
	}
	if !w.Recent(load(t, b.Store, id), time.Now()).Contains(keyHash(1)) {
		t.Error("a key was lost")
	}
}

// windowDamaged checks that damaged keys of an owner are reported as damage, and can be replaced.
func windowDamaged(t *testing.T, b Backend) {
	if b.Overwrite == nil {
		t.Skip("what this store has cannot be damaged")
	}
	w, id := fingerprints(t, b.Store)
	record(t, w, id, nil, hashes(0, 300)...)
	raw, _ := b.Strings(t, id)
	flipped := bytes.Clone(raw)
	flipped[100] ^= 4
	for _, damaged := range [][]byte{flipped, raw[:200], raw[:10], {}, []byte("something else")} {
		b.Overwrite(t, id, "bits", damaged)
		l := load(t, b.Store, id)
		if l.Fingerprints != nil || l.Page != nil || !errors.Is(l.Damage, favfilter.ErrDamaged) || w.Recent(l, time.Now()).Keys() != 0 {
			t.Errorf("%d bytes load as %+v", len(damaged), l)
		}
		record(t, w, id, nil, keyHash(1))
		if !w.Recent(load(t, b.Store, id), time.Now()).Contains(keyHash(1)) {
			t.Errorf("nothing can be recorded after %d damaged bytes", len(damaged))
		}
	}
}

// windowExpires checks that the store removes the keys of an owner.
func windowExpires(t *testing.T, b Backend) {
	w, id := fingerprints(t, b.Store)
	record(t, w, id, nil, hashes(0, 3)...)
	l := load(t, b.Store, id)
	done, err := b.Store.Replace(t.Context(), favfilter.Replacement{ID: id, Fingerprints: l.Fingerprints, Seen: l.Version, Expire: Expire})
	if err != nil || !done {
		t.Fatal(done, err)
	}
	b.Advance(t)
	if raw, _ := b.Strings(t, id); raw != nil || load(t, b.Store, id) != (favfilter.Loaded{}) {
		t.Errorf("%d bytes outlived their time", len(raw))
	}
}
