package seen_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

const part = time.Hour

// inParts returns the configuration of windows of so many parts of an hour.
func inParts(name string, parts int) seen.Config {
	return seen.Config{Name: name, Length: time.Duration(parts) * part, Parts: parts, FalsePositiveRate: 1e-9, Pages: 16}
}

func keysOf(ids ...string) []favfilter.Hash {
	keys := make([]favfilter.Hash, len(ids))
	for i, id := range ids {
		keys[i] = favfilter.HashKey(0, id)
	}
	return keys
}

// has reports whether the window has the key of an id.
func has(w *seen.Window, id string) bool { return w.Contains(favfilter.HashKey(0, id)) }

// TestRecordTellsWhatIsNew checks that a caller that records learns which keys were new in each
// window.
func TestRecordTellsWhatIsNew(t *testing.T) {
	x := newRig(t, inParts("seen", 3))
	read := openWindow(t, x.store, inParts("read", 6))
	if fresh, _ := x.write(keysOf("a", "b", "a")); !slices.Equal(fresh, []bool{true, true, false}) {
		t.Errorf("new are %v", fresh)
	}
	if fresh, _ := x.write(keysOf("b", "c")); !slices.Equal(fresh, []bool{false, true}) {
		t.Errorf("new are %v", fresh)
	}
	var b seen.Batch
	for i := range 100 { // of more users than are written at once
		b.Add(x.windows, uint64(i)<<57, favfilter.HashKey(0, "p"), time.Time{}, i)
		b.Add(read, uint64(i)<<57, favfilter.HashKey(0, "p"), x.now.Add(-2*part), 100+i)
	}
	fresh, err := b.Write(t.Context(), x.now)
	must(t, err)
	slices.Sort(fresh)
	if len(fresh) != 200 || fresh[199] != 199 {
		t.Errorf("%d are new: %v", len(fresh), fresh)
	}
}

// Keys that are evicted are counted, and so are damaged windows, which count as empty. Each is
// logged once, whether a read or a write meets it.
func TestStats(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		var log strings.Builder
		now := time.Now()
		open := func(name string, ids ...string) *seen.Windows {
			c := inParts(name, 3)
			c.Most, c.Log = 10, slog.New(slog.NewTextHandler(&log, nil))
			w := openWindow(t, store, c)
			_, err := writeTo(w, now, keysOf(ids...))
			must(t, err)
			return w
		}
		other, w := open("seen", numbered(0, 14)...), open("read", numbered(0, 9)...)
		id := w.ID(user)
		read := func() *seen.Window { return w.Decode(t.Context(), id, stored(t, store, id), now) }
		damaged := uint64(0)
		want := func() {
			t.Helper()
			if got := other.Losses(); got != (seen.Losses{Evicted: 4}) {
				t.Errorf("%+v of the other kind", got)
			}
			if got := w.Losses(); got != (seen.Losses{Damaged: damaged}) {
				t.Errorf("%+v, want %d damaged", got, damaged)
			}
			if lines := strings.Count(log.String(), `msg="a window is damaged and counts as empty" kind=read error=`); lines != int(damaged) {
				t.Errorf("%d lines of damage, want %d: %s", lines, damaged, log.String())
			}
		}
		want()
		for _, change := range []func(raw []byte) []byte{
			func(raw []byte) []byte { raw[30] ^= 4; return raw },
			func(raw []byte) []byte { return raw[:25] },
			func(raw []byte) []byte { return raw[:10] },
			func([]byte) []byte { return []byte("something else") },
		} {
			damage(t, store, id, change)
			got := read()
			if got.Keys() > 0 || has(got, "s1") || !errors.Is(got.Damage(), favfilter.ErrDamaged) {
				t.Error("a damaged window is used")
			}
			damaged++
			want()
			must(t, got.Add(t.Context(), keysOf("next"))) // of what was read, and counted
			want()
			damage(t, store, id, change)
			_, err := writeTo(w, now, keysOf("more")) // reads it again
			must(t, err)
			damaged++
			want()
			if got := read(); got.Keys() != 1 || !has(got, "more") {
				t.Errorf("%d keys after the last damage, want the one that was recorded then", got.Keys())
			}
		}
		damage(t, store, id, func(raw []byte) []byte { raw[3] = 9; return fixSum(raw) }) // as after an upgrade
		if got := read(); got.Keys() > 0 || !errors.Is(got.Damage(), favfilter.ErrFormat) {
			t.Errorf("another format version: %d keys, %v", got.Keys(), got.Damage())
		}
		want()
	})
}

// damage changes what is stored under id.
func damage(t *testing.T, store favfilter.Store, id favfilter.PageID, change func([]byte) []byte) {
	t.Helper()
	l := stored(t, store, id)
	r := favfilter.Replacement{ID: id, Value: change(slices.Clone(l.Value)), Seen: l.Version}
	if done, err := store.Replace(t.Context(), r); !done || err != nil {
		t.Fatal(done, err)
	}
}

// A window that is configured with a new length keeps what it has. A shorter length applies at
// once, a longer one from the next write on.
func TestLengthChanges(t *testing.T) {
	for _, written := range []bool{false, true} { // since the window became longer
		x := newRig(t, inParts("seen", 3))
		x.write(keysOf("a"))
		longer := inParts("seen", 8)
		longer.Parts = 2
		x.open(longer)
		x.now = x.now.Add(2 * part)
		if !has(x.read(), "a") {
			t.Error("a longer window has lost a key")
		}
		if written {
			x.write(keysOf("b"))
		}
		shorter := inParts("seen", 6)
		shorter.Parts = 3
		x.open(shorter)
		x.now = x.now.Add(4 * part)
		if !written {
			if x.stored().Value != nil {
				t.Error("a window that was not written to is kept for longer")
			}
			continue
		}
		if w := x.read(); !has(w, "a") || !has(w, "b") {
			t.Error("a key is forgotten within the window")
		}
		x.now = x.now.Add(2 * part)
		if w := x.read(); has(w, "a") || !has(w, "b") {
			t.Error("a shorter window keeps a key for longer, or lost another")
		}
	}
}

// A lower most forgets older keys once as many newer ones are recorded.
func TestMostChanges(t *testing.T) {
	x, ids := newRig(t, inParts("seen", 3)), numbered(0, 30)
	x.write(keysOf(ids[:20]...))
	lower := inParts("seen", 3)
	lower.Most = 10
	x.open(lower)
	x.write(keysOf(ids[20:29]...))
	if w := x.read(); w.Keys() != 29 {
		t.Errorf("%d keys after 9 newer ones, want 29", w.Keys())
	}
	x.write(keysOf(ids[29]))
	if w := x.read(); w.Keys() != 10 || !has(w, "s20") {
		t.Errorf("%d keys after 10 newer ones, want those 10", w.Keys())
	}
}
