package seen_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

const (
	seed = 7
	part = time.Hour
)

// start begins all keys of the tests.
func start() favfilter.Start { return favfilter.HashStart(seed, "seen:U1_P") }

func key(id string) favfilter.Hash { return start().With(favfilter.HashKey(seed, id)) }

func config(store favfilter.Store) seen.Config {
	return seen.Config{
		Store: store, Identity: favfilter.Identity{Seed: seed, Pages: 16},
		Kinds:             []seen.Kind{{Name: "seen", Length: 3 * part, Parts: 3}, {Name: "read", Length: 6 * part, Parts: 3}},
		FalsePositiveRate: 1e-9, Log: slog.New(slog.DiscardHandler),
	}
}

func open(t testing.TB, c seen.Config) *seen.Windows {
	t.Helper()
	ws, err := seen.Open(c)
	must(t, err)
	return ws
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read returns the user's window, read from the store unless it is held.
func read(t testing.TB, ws *seen.Windows, store favfilter.Store, kind string, user uint64, now time.Time) *seen.Window {
	t.Helper()
	w := ws.Window(kind, user, now)
	if w.Held() {
		return w
	}
	loaded, err := store.Load(t.Context(), []favfilter.PageID{w.ID()})
	must(t, err)
	w.Fill(t.Context(), loaded[0])
	return w
}

func record(t testing.TB, ws *seen.Windows, kind string, user uint64, now time.Time, ids ...string) (fresh []int) {
	t.Helper()
	var b seen.Batch
	for i, id := range ids {
		b.Add(kind, user, key(id), time.Time{}, i)
	}
	fresh, err := ws.Record(t.Context(), &b, now)
	must(t, err)
	slices.Sort(fresh)
	return fresh
}

// TestModel records, reads and forgets as a map of times would that forgets what has gone by.
func TestModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		store := &favfilter.Memory{}
		now := time.Unix(1_000_000*3600, 0)
		store.Now = func() time.Time { return now }
		c := config(store)
		if rapid.Bool().Draw(r, "cache") {
			c.Cache = lru.New[favfilter.PageID, any](1<<20, 1<<20)
		}
		ws := open(t, c)
		lengths := map[string]time.Duration{"seen": 3 * part, "read": 6 * part}
		type entry struct {
			kind string
			user uint64
			id   string
		}
		model := make(map[entry]time.Time)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			e := entry{
				rapid.SampledFrom([]string{"seen", "read"}).Draw(r, "kind"),
				rapid.Uint64Range(0, 3).Draw(r, "user") << 60, strconv.Itoa(rapid.IntRange(0, 5).Draw(r, "id")),
			}
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 0:
				must(t, ws.Forget(t.Context(), e.user))
				for of := range model {
					if of.user == e.user {
						delete(model, of)
					}
				}
			case 1, 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 7*60).Draw(r, "minutes")) * time.Minute)
			case 3, 4:
				w := read(t, ws, store, e.kind, e.user, now)
				must(t, w.Add(t.Context(), []favfilter.Hash{key(e.id)}))
				model[e] = now
			default:
				record(t, ws, e.kind, e.user, now, e.id)
				model[e] = now
			}
			for id := range 6 {
				e.id = strconv.Itoa(id)
				at, known := model[e]
				slice := lengths[e.kind] / 3
				kept := known && now.Sub(at) <= lengths[e.kind]
				gone := !known || now.Sub(at.Truncate(slice)) >= lengths[e.kind]+slice
				w := read(t, ws, store, e.kind, e.user, now)
				found := []bool{false}
				w.ContainsAll(start(), []favfilter.Hash{favfilter.HashKey(seed, e.id)}, found)
				switch got := w.Contains(key(e.id)); {
				case got != found[0]:
					r.Fatalf("%v: Contains says %v, ContainsAll %v", e, got, found[0])
				case kept && !got:
					r.Fatalf("%v is missed after %v", e, now.Sub(at))
				case gone && got:
					r.Fatalf("%v is there after %v", e, now.Sub(at))
				}
			}
		}
	})
}

// TestRecordTellsWhatIsNew checks that a caller that records learns which keys were new in each
// window.
func TestRecordTellsWhatIsNew(t *testing.T) {
	store := &favfilter.Memory{}
	ws, now := open(t, config(store)), time.Now()
	if fresh := record(t, ws, "seen", 1, now, "a", "b", "a"); !slices.Equal(fresh, []int{0, 1}) {
		t.Errorf("new are %v", fresh)
	}
	if fresh := record(t, ws, "seen", 1, now, "b", "c"); !slices.Equal(fresh, []int{1}) {
		t.Errorf("new are %v", fresh)
	}
	var b seen.Batch
	for i := range 100 { // of more users than are written at once
		b.Add("seen", uint64(i)<<57, key("p"), time.Time{}, i)
		b.Add("read", uint64(i)<<57, key("p"), now.Add(-2*part), 100+i)
	}
	fresh, err := ws.Record(t.Context(), &b, now)
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
	ws := open(t, config(store))
	record(t, ws, "seen", 1<<63, now, "a")
	now = now.Add(part)
	var b seen.Batch
	b.Add("seen", 1<<63, key("b"), time.Time{}, 0)
	b.Add("seen", 1<<63, key("c"), now.Add(-2*part), 1)
	b.Add("seen", 1<<63, key("d"), now.Add(-5*part), 2)
	fresh, err := ws.Record(t.Context(), &b, now)
	must(t, err)
	slices.Sort(fresh)
	if !slices.Equal(fresh, []int{0, 1}) {
		t.Errorf("new are %v: one was recorded longer ago than the window", fresh)
	}
	w := read(t, ws, store, "seen", 1<<63, now)
	start := time.Unix(500_000*3600, 0).UTC()
	for id, from := range map[string]time.Time{"a": start, "b": start.Add(part), "c": start.Add(-part)} {
		runs := w.RunsOf(key(id))
		if len(runs) != 1 || !runs[0].From.Equal(from) || !runs[0].Forgotten.Equal(from.Add(4*part)) {
			t.Errorf("%s is in %+v, want from %v", id, runs, from)
		}
	}
	if w.ID().Number != 8 || w.Keys() != 3 || len(w.RunsOf(key("d"))) > 0 || w.Stored() < 40 {
		t.Errorf("%v has %d keys in %d bytes", w.ID(), w.Keys(), w.Stored())
	}
}

// Keys that go early are counted, and so are damaged windows, which count as empty. Each is logged
// once, whether a read or a write meets it.
func TestStats(t *testing.T) {
	store := &damaging{Store: &favfilter.Memory{}}
	c := config(store)
	c.Kinds[0].Most = 10
	var log strings.Builder
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	ws, now := open(t, c), time.Now()
	var ids []string
	for i := range 14 {
		ids = append(ids, fmt.Sprint(i))
	}
	record(t, ws, "seen", 1, now, ids...)
	record(t, ws, "read", 1, now, ids...)
	want := func(damaged uint64) {
		t.Helper()
		stats := ws.Stats()
		slices.SortFunc(stats, func(a, b seen.Stats) int { return strings.Compare(a.Kind, b.Kind) })
		if want := []seen.Stats{{Kind: "read", Damaged: damaged}, {Kind: "seen", Evicted: 4}}; !slices.Equal(stats, want) {
			t.Errorf("%+v, want %+v", stats, want)
		}
		if lines := strings.Count(log.String(), `msg="a window is damaged and counts as empty" kind=read error=`); lines != int(damaged) {
			t.Errorf("%d lines of damage, want %d: %s", lines, damaged, log.String())
		}
	}
	want(0)
	store.damage = favfilter.ErrDamaged
	w := read(t, ws, store, "read", 1, now)
	if w.Contains(key("1")) || w.Damage() == nil {
		t.Error("a damaged window is used")
	}
	want(1)
	must(t, w.Add(t.Context(), []favfilter.Hash{key("next")})) // is of what was read, and counted
	want(1)
	record(t, ws, "read", 1, now, "more") // reads it again
	want(2)
	store.damage = favfilter.ErrFormat // as after an upgrade
	read(t, ws, store, "read", 1, now)
	record(t, ws, "read", 1, now, "most")
	want(2)
	store.damage = nil
	if w := read(t, ws, store, "read", 1, now); w.Keys() != 1 || !w.Contains(key("most")) {
		t.Errorf("%d keys after the last damage, want the one that was recorded then", w.Keys())
	}
}

// damaging is a store that damages what it reads.
type damaging struct {
	favfilter.Store
	damage error // nil: none
}

func (d *damaging) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, err := d.Store.Load(ctx, ids)
	for i := range loaded {
		if d.damage != nil && loaded[i].Version != "" {
			loaded[i] = favfilter.Loaded{Version: loaded[i].Version, Damage: d.damage}
		}
	}
	return loaded, err
}

// A window that is configured with a new length keeps what it has. A shorter length applies at
// once, a longer one from the next write on.
func TestLengthChanges(t *testing.T) {
	store := &favfilter.Memory{}
	now := time.Unix(500_000*3600, 0)
	store.Now = func() time.Time { return now }
	c := config(store)
	before := open(t, c)
	for _, user := range []uint64{1, 2} {
		record(t, before, "seen", user, now, "a")
	}
	c.Kinds[0].Length, c.Kinds[0].Parts = 8*part, 2
	longer := open(t, c)
	now = now.Add(2 * part)
	if w := read(t, longer, store, "seen", 1, now); !w.Contains(key("a")) {
		t.Error("a longer window has lost a key")
	}
	record(t, longer, "seen", 2, now, "b")
	c.Kinds[0].Length, c.Kinds[0].Parts = 6*part, 3
	shorter := open(t, c)
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
	c := config(store)
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprint(i))
	}
	record(t, open(t, c), "seen", 1, now, ids[:20]...)
	c.Kinds[0].Most = 10
	ws := open(t, c)
	record(t, ws, "seen", 1, now, ids[20:29]...)
	if w := read(t, ws, store, "seen", 1, now); w.Keys() != 29 {
		t.Errorf("%d keys after 9 newer ones, want 29", w.Keys())
	}
	record(t, ws, "seen", 1, now, ids[29])
	if w := read(t, ws, store, "seen", 1, now); w.Keys() != 10 || !w.Contains(key("20")) {
		t.Errorf("%d keys after 10 newer ones, want those 10", w.Keys())
	}
}

// Of a history with more than the most, the newest keys stay, whatever the order in which it comes.
func TestHistoryBeyondMost(t *testing.T) {
	store := &favfilter.Memory{}
	now := time.Unix(500_000*3600, 0)
	store.Now = func() time.Time { return now }
	c := config(store)
	c.Kinds[0].Most = 10
	ws := open(t, c)
	for user, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		for _, age := range order { // in parts
			var b seen.Batch
			for i := range 5 {
				b.Add("seen", uint64(user), key(fmt.Sprint(age, "/", i)), now.Add(-time.Duration(age)*part), i)
			}
			_, err := ws.Record(t.Context(), &b, now)
			must(t, err)
		}
		w := read(t, ws, store, "seen", uint64(user), now)
		for age := range 3 {
			for i := range 5 {
				if id := fmt.Sprint(age, "/", i); w.Contains(key(id)) != (age < 2) {
					t.Errorf("in the order %v, %s is there: %t", order, id, age >= 2)
				}
			}
		}
	}
	if stats := ws.Stats(); stats[0].Evicted+stats[1].Evicted != 15 {
		t.Errorf("%+v, want 5 evicted of each of 3 users", stats)
	}
}

// Windows stay when the ledger is restored, which gives it another incarnation.
func TestWindowsOutliveARestoredLedger(t *testing.T) {
	store, now := &favfilter.Memory{}, time.Now()
	c := config(store)
	c.Identity.Incarnation = 5
	record(t, open(t, c), "seen", 1, now, "a")
	c.Identity.Incarnation = 6
	if w := read(t, open(t, c), store, "seen", 1, now); !w.Contains(key("a")) {
		t.Error("what was recorded before the ledger was restored is gone")
	}
}

// slow is a store in which something happens right after a read.
type slow struct {
	favfilter.Store
	after func()
}

func (s *slow) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, err := s.Store.Load(ctx, ids)
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
	return loaded, err
}

// What was read before a write of this process, and arrives after it, is not held.
func TestSlowReadIsNotHeld(t *testing.T) {
	store := &slow{Store: &favfilter.Memory{}}
	c := config(store)
	c.Cache = lru.New[favfilter.PageID, any](1<<20, 1<<20)
	ws, now := open(t, c), time.Now()
	store.after = func() { record(t, ws, "seen", 1, now, "b") }
	read(t, ws, store, "seen", 1, now)
	if w := read(t, ws, store, "seen", 1, now); !w.Contains(key("b")) {
		t.Error("a write that was acknowledged is missed")
	}
	if w := ws.Window("seen", 1, now); !w.Held() || !w.Contains(key("b")) {
		t.Error("the window is not held")
	}
}

// What other processes record is overlooked for the time that is allowed at most.
func TestOverlook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &favfilter.Memory{}
		c := config(store)
		c.Cache, c.Overlook = lru.New[favfilter.PageID, any](1<<20, 1<<20), time.Second
		ours, now := open(t, c), time.Now()
		theirs := open(t, config(store))
		read(t, ours, store, "seen", 1, now)
		record(t, theirs, "seen", 1, now, "a")
		time.Sleep(c.Overlook)
		if !ours.Window("seen", 1, now).Held() {
			t.Error("the window is not held for as long as is allowed")
		}
		time.Sleep(time.Nanosecond)
		if w := read(t, ours, store, "seen", 1, now); !w.Contains(key("a")) {
			t.Error("what another process recorded is missed for longer")
		}
	})
}

// Windows that take more than the cache lets one value have are read each time.
func TestLargeWindowIsNotHeld(t *testing.T) {
	store := &favfilter.Memory{}
	c := config(store)
	c.Cache = lru.New[favfilter.PageID, any](1<<20, 4096)
	ws, now := open(t, c), time.Now()
	record(t, ws, "seen", 1, now, "a")
	read(t, ws, store, "seen", 1, now)
	if !ws.Window("seen", 1, now).Held() {
		t.Error("a small window is not held")
	}
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprint(i))
	}
	record(t, ws, "seen", 1, now, many...)
	if w := read(t, ws, store, "seen", 1, now); ws.Window("seen", 1, now).Held() || !w.Contains(key("1999")) {
		t.Error("a large window is held, or lacks something")
	}
}

// A store that fails is reported with the kind.
func TestStoreFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ws, now := open(t, config(&favfilter.Memory{})), time.Now()
	var b seen.Batch
	b.Add("read", 1, key("a"), time.Time{}, 0)
	if _, err := ws.Record(ctx, &b, now); err == nil {
		t.Error("a write with an ended context succeeds")
	}
	bad := config(&favfilter.Memory{})
	bad.Kinds[1].Parts = 65
	if _, err := seen.Open(bad); err == nil || err.Error()[:11] != `kind "read"` {
		t.Errorf("65 parts: %v", err)
	}
}
