package seen_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	seed = 7
	part = time.Hour
)

// start begins all keys of the tests.
func start() favfilter.Start { return favfilter.HashStart(seed, "seen:U1_P") }

func key(id string) favfilter.Hash { return start().With(favfilter.HashKey(seed, id)) }

// kinds are the windows of each kind.
type kinds map[string]*seen.Windows

func config() map[string]seen.Config {
	c := seen.Config{Length: 3 * part, Parts: 3, FalsePositiveRate: 1e-9, Seed: seed, Pages: 16}
	read := c
	c.Name, read.Name, read.Length = "seen", "read", 6*part
	return map[string]seen.Config{"seen": c, "read": read}
}

func open(t testing.TB, store favfilter.Store, configs map[string]seen.Config) kinds {
	t.Helper()
	ks := make(kinds)
	for name, c := range configs {
		ks[name] = openWindow(t, store, c)
	}
	return ks
}

// read returns the user's window.
func read(t testing.TB, ks kinds, store favfilter.Store, kind string, user uint64, now time.Time) *seen.Window {
	t.Helper()
	id := ks[kind].ID(user)
	loaded, err := store.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	return ks[kind].Decode(t.Context(), id, loaded[0], now)
}

func record(t testing.TB, ks kinds, kind string, user uint64, now time.Time, ids ...string) (fresh []int) {
	t.Helper()
	var b seen.Batch
	for i, id := range ids {
		b.Add(ks[kind], user, key(id), time.Time{}, i)
	}
	fresh, err := b.Write(t.Context(), now)
	must(t, err)
	slices.Sort(fresh)
	return fresh
}

// TestRecordTellsWhatIsNew checks that a caller that records learns which keys were new in each
// window.
func TestRecordTellsWhatIsNew(t *testing.T) {
	store := &favfilter.Memory{}
	ks, now := open(t, store, config()), time.Now()
	if fresh := record(t, ks, "seen", 1, now, "a", "b", "a"); !slices.Equal(fresh, []int{0, 1}) {
		t.Errorf("new are %v", fresh)
	}
	if fresh := record(t, ks, "seen", 1, now, "b", "c"); !slices.Equal(fresh, []int{1}) {
		t.Errorf("new are %v", fresh)
	}
	var b seen.Batch
	for i := range 100 { // of more users than are written at once
		b.Add(ks["seen"], uint64(i)<<57, key("p"), time.Time{}, i)
		b.Add(ks["read"], uint64(i)<<57, key("p"), now.Add(-2*part), 100+i)
	}
	fresh, err := b.Write(t.Context(), now)
	must(t, err)
	slices.Sort(fresh)
	if len(fresh) != 200 || fresh[199] != 199 {
		t.Errorf("%d are new: %v", len(fresh), fresh)
	}
}

// Runs tell when a key was recorded at the earliest, and when it goes, also of keys with a time of
// their own.
func TestRuns(t *testing.T) {
	store := &favfilter.Memory{}
	now := time.Unix(500_000*3600, 0).Add(10 * time.Minute)
	store.Now = func() time.Time { return now }
	ks := open(t, store, config())
	record(t, ks, "seen", 1<<63, now, "a")
	now = now.Add(part)
	var b seen.Batch
	b.Add(ks["seen"], 1<<63, key("b"), time.Time{}, 0)
	b.Add(ks["seen"], 1<<63, key("c"), now.Add(-2*part), 1)
	b.Add(ks["seen"], 1<<63, key("d"), now.Add(-5*part), 2)
	fresh, err := b.Write(t.Context(), now)
	must(t, err)
	slices.Sort(fresh)
	if !slices.Equal(fresh, []int{0, 1}) {
		t.Errorf("new are %v: one was recorded longer ago than the window", fresh)
	}
	w := read(t, ks, store, "seen", 1<<63, now)
	start := time.Unix(500_000*3600, 0).UTC()
	for id, from := range map[string]time.Time{"a": start, "b": start.Add(part), "c": start.Add(-part)} {
		runs := w.RunsOf(key(id))
		if len(runs) != 1 || !runs[0].From.Equal(from) || !runs[0].Forgotten.Equal(from.Add(4*part)) {
			t.Errorf("%s is in %+v, want from %v", id, runs, from)
		}
	}
	if w.ID().Number != 8 || w.Keys() != 3 || len(w.RunsOf(key("d"))) > 0 || w.Bytes() < 40 {
		t.Errorf("%v has %d keys in %d bytes", w.ID(), w.Keys(), w.Bytes())
	}
}

// Keys that are evicted are counted, and so are damaged windows, which count as empty. Each is
// logged once, whether a read or a write meets it.
func TestStats(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		configs := config()
		var log strings.Builder
		for name, c := range configs {
			c.Most, c.Log = 10, slog.New(slog.NewTextHandler(&log, nil))
			configs[name] = c
		}
		ks, now := open(t, store, configs), time.Now()
		record(t, ks, "seen", 1, now, numbered(0, 14)...)
		record(t, ks, "read", 1, now, numbered(0, 9)...)
		damaged := uint64(0)
		want := func() {
			t.Helper()
			if got := ks["seen"].Stats(); got != (seen.Stats{Evicted: 4}) {
				t.Errorf("%+v of the other kind", got)
			}
			if got := ks["read"].Stats(); got != (seen.Stats{Damaged: damaged}) {
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
			damage(t, store, ks["read"].ID(1), change)
			w := read(t, ks, store, "read", 1, now)
			if w.Keys() > 0 || w.Contains(key("s1")) || !errors.Is(w.Damage(), favfilter.ErrDamaged) {
				t.Error("a damaged window is used")
			}
			damaged++
			want()
			must(t, w.Add(t.Context(), []favfilter.Hash{key("next")})) // of what was read, and counted
			want()
			damage(t, store, ks["read"].ID(1), change)
			record(t, ks, "read", 1, now, "more") // reads it again
			damaged++
			want()
			if w := read(t, ks, store, "read", 1, now); w.Keys() != 1 || !w.Contains(key("more")) {
				t.Errorf("%d keys after the last damage, want the one that was recorded then", w.Keys())
			}
		}
		damage(t, store, ks["read"].ID(1), func(raw []byte) []byte { raw[3] = 9; return fixSum(raw) }) // as after an upgrade
		if w := read(t, ks, store, "read", 1, now); w.Keys() > 0 || !errors.Is(w.Damage(), favfilter.ErrFormat) {
			t.Errorf("another format version: %d keys, %v", w.Keys(), w.Damage())
		}
		want()
	})
}

// damage changes what is stored under id.
func damage(t *testing.T, store favfilter.Store, id favfilter.PageID, change func([]byte) []byte) {
	t.Helper()
	l, err := store.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	r := favfilter.Replacement{ID: id, Value: change(slices.Clone(l[0].Value)), Seen: l[0].Version}
	if done, err := store.Replace(t.Context(), r); !done || err != nil {
		t.Fatal(done, err)
	}
}

// A window that is configured with a new length keeps what it has. A shorter length applies at
// once, a longer one from the next write on.
func TestLengthChanges(t *testing.T) {
	store := &favfilter.Memory{}
	now := time.Unix(500_000*3600, 0)
	store.Now = func() time.Time { return now }
	configs := config()
	change := func(length time.Duration, parts int) kinds {
		c := configs["seen"]
		c.Length, c.Parts = length, parts
		return open(t, store, map[string]seen.Config{"seen": c})
	}
	before := open(t, store, configs)
	for _, user := range []uint64{1, 2} {
		record(t, before, "seen", user, now, "a")
	}
	longer := change(8*part, 2)
	now = now.Add(2 * part)
	if w := read(t, longer, store, "seen", 1, now); !w.Contains(key("a")) {
		t.Error("a longer window has lost a key")
	}
	record(t, longer, "seen", 2, now, "b")
	shorter := change(6*part, 3)
	now = now.Add(4 * part)
	if w := read(t, shorter, store, "seen", 2, now); !w.Contains(key("a")) || !w.Contains(key("b")) {
		t.Error("a key is forgotten within the window")
	}
	if w := read(t, shorter, store, "seen", 1, now); w.Keys() != 0 {
		t.Error("a window that was not written to is kept for longer")
	}
	now = now.Add(2 * part)
	if w := read(t, shorter, store, "seen", 2, now); w.Contains(key("a")) || !w.Contains(key("b")) {
		t.Error("a shorter window keeps a key for longer, or lost another")
	}
}

// A lower most forgets older keys once as many newer ones are recorded.
func TestMostChanges(t *testing.T) {
	store, now := &favfilter.Memory{}, time.Now()
	configs, ids := config(), numbered(0, 30)
	record(t, open(t, store, configs), "seen", 1, now, ids[:20]...)
	c := configs["seen"]
	c.Most = 10
	ks := open(t, store, map[string]seen.Config{"seen": c})
	record(t, ks, "seen", 1, now, ids[20:29]...)
	if w := read(t, ks, store, "seen", 1, now); w.Keys() != 29 {
		t.Errorf("%d keys after 9 newer ones, want 29", w.Keys())
	}
	record(t, ks, "seen", 1, now, ids[29])
	if w := read(t, ks, store, "seen", 1, now); w.Keys() != 10 || !w.Contains(key("s20")) {
		t.Errorf("%d keys after 10 newer ones, want those 10", w.Keys())
	}
}

// Of a history with more than the most, the newest keys stay, whatever the order in which it comes.
func TestHistoryBeyondMost(t *testing.T) {
	store := &favfilter.Memory{}
	now := time.Unix(500_000*3600, 0)
	store.Now = func() time.Time { return now }
	c := config()["seen"]
	c.Most = 10
	ks := open(t, store, map[string]seen.Config{"seen": c})
	for user, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		for _, age := range order { // in parts
			var b seen.Batch
			for i := range 5 {
				b.Add(ks["seen"], uint64(user), key(fmt.Sprint(age, "/", i)), now.Add(-time.Duration(age)*part), i)
			}
			_, err := b.Write(t.Context(), now)
			must(t, err)
		}
		w := read(t, ks, store, "seen", uint64(user), now)
		for age := range 3 {
			for i := range 5 {
				if id := fmt.Sprint(age, "/", i); w.Contains(key(id)) != (age < 2) {
					t.Errorf("in the order %v, %s is there: %t", order, id, age >= 2)
				}
			}
		}
	}
	if stats := ks["seen"].Stats(); stats.Evicted != 15 {
		t.Errorf("%+v, want 5 evicted of each of 3 users", stats)
	}
}

// A store that fails is reported.
func TestBatchStoreFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ks, now := open(t, &favfilter.Memory{}, config()), time.Now()
	var b seen.Batch
	b.Add(ks["read"], 1, key("a"), time.Time{}, 0)
	if _, err := b.Write(ctx, now); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), ":read.1") {
		t.Errorf("a write with an ended context: %v", err)
	}
}
