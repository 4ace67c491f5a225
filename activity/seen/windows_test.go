package seen_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/ratetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// onStores runs the test on the embedded store and on Redis.
func onStores(t *testing.T, run func(t *testing.T, store favfilter.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { run(t, &favfilter.Memory{}) })
	t.Run("redis", func(t *testing.T) {
		store, err := redisstore.New(redistest.Start(t).Client(), "window")
		if err != nil {
			t.Fatal(err)
		}
		run(t, store)
	})
}

func openWindow(t fataler, store favfilter.Store, c seen.Config) *seen.Windows {
	t.Helper()
	w, err := seen.Open(store, c)
	if err != nil {
		t.Fatalf("open window: %v", err)
	}
	return w
}

// Every process finds keys for as long as they are kept. Keys are forgotten at most one part later.
func TestWindow(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		at := newClock()
		config := seen.Config{Length: 6 * time.Hour, Pages: 4, Seed: 3, Now: func() time.Time { return at.now }}
		w := openWindow(t, store, config)
		var keys []string
		for i := range 400 {
			keys = append(keys, fmt.Sprint("P", i))
		}
		want := func(w *seen.Windows, owner string, keys []string, some bool) {
			t.Helper()
			found, err := w.Contains(t.Context(), owner, keys...)
			if err != nil || len(found) != len(keys) || slices.Contains(found, !some) {
				t.Errorf("found %v, %v, want all %v", found, err, some)
			}
		}
		want(w, "U1", keys, false)
		outcomes, err := w.Add(t.Context(), "U1", append(keys, keys[0])...)
		if err != nil || outcomes[400] != favfilter.Present || slices.Contains(outcomes[:400], favfilter.Present) {
			t.Fatalf("%v, %v", outcomes, err)
		}
		want(w, "U1", keys, true)
		want(w, "U2", keys, false)
		at.now = at.now.Add(5 * time.Hour)
		if _, err := w.Add(t.Context(), "U1", keys[:50]...); err != nil {
			t.Fatal(err)
		}
		w = openWindow(t, store, config) // like another process
		want(w, "U1", keys, true)
		at.now = at.now.Add(2 * time.Hour)
		want(w, "U1", keys[:50], true)
		want(w, "U1", keys[50:], false)
		want(w, "U1", nil, true)
		config.Seed++
		want(openWindow(t, store, config), "U1", keys, false)
		config.Seed, config.Name = 3, "other"
		want(openWindow(t, store, config), "U1", keys, false)
		if err := w.Forget(t.Context(), "U1"); err != nil {
			t.Fatal(err)
		}
		want(w, "U1", keys, false)
		if err := w.Forget(t.Context(), "U1"); err != nil {
			t.Errorf("forgetting nothing: %v", err)
		}
	})
}

// recorded is a key of the model, and when it was last added.
type recorded struct {
	key favfilter.Hash
	at  time.Time
}

// A window behaves like a map of times that forgets keys older than its length, and has its most
// newest keys.
func TestWindowModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		at := newClock()
		store := &favfilter.Memory{Now: func() time.Time { return at.now }}
		config := seen.Config{
			Length: time.Hour, Parts: rapid.SampledFrom([]int{1, 2, 3, 5, 6, 8}).Draw(r, "parts"), Most: rapid.SampledFrom([]int{16, 100, 10_000}).Draw(r, "most"),
			FalsePositiveRate: 1e-9, Seed: 5,
		}
		w, part := openWindow(r, store, config), config.Length/time.Duration(config.Parts)
		id := w.ID(1 << 63)
		rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(r, "seed")))
		var model []recorded // in the order of the last addition
		keys := make([]favfilter.Hash, 300)
		for i := range keys {
			keys[i] = randomHash(rng)
		}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			at.now = at.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(r, "minutes")) * time.Minute)
			writing := seen.Writing{Now: at.now}
			for range rapid.IntRange(1, 60).Draw(r, "keys") {
				writing.Keys = append(writing.Keys, keys[rng.IntN(len(keys))])
			}
			if rapid.Bool().Draw(r, "loaded") {
				loaded, err := store.Load(t.Context(), []favfilter.PageID{id})
				if err != nil {
					r.Fatal(err)
				}
				writing.Read = w.Decode(r.Context(), id, loaded[0], at.now)
			}
			read, before := writing.Read, containsEach(writing.Read, keys)
			result, err := w.Write(t.Context(), id, writing)
			if err != nil {
				r.Fatal(err)
			}
			if !slices.Equal(containsEach(read, keys), before) {
				r.Fatal("a write changes what was read")
			}
			for i, key := range writing.Keys {
				known := slices.IndexFunc(model, func(m recorded) bool { return m.key == key })
				if !result.Fresh[i] && known < 0 {
					r.Fatal("a key that was never added is not fresh")
				}
				if known >= 0 {
					model = slices.Delete(model, known, known+1)
				}
				model = append(model, recorded{key, at.now})
			}
			loaded, err := store.Load(t.Context(), []favfilter.PageID{id})
			if err != nil {
				r.Fatal(err)
			}
			recent := w.Decode(r.Context(), id, loaded[0], at.now)
			for i, m := range model {
				age := at.now.Sub(m.at)
				found := recent.Contains(m.key)
				switch {
				case age < config.Length && len(model)-i <= config.Most && !found:
					r.Fatalf("key %d of %d is missed after %v", i, len(model), age)
				case age > config.Length+part && found:
					r.Fatalf("a key is found after %v", age)
				}
			}
		}
	})
}

// containsEach reports which keys w has; nil: none.
func containsEach(w *seen.Window, keys []favfilter.Hash) []bool {
	found := make([]bool, len(keys))
	for i, key := range keys {
		found[i] = w != nil && w.Contains(key)
	}
	return found
}

const month = 30 * 24 * time.Hour

// history writes n keys of owner 7, the same number each day, and returns them.
func history(t testing.TB, w *seen.Windows, at *clock, rng *rand.Rand, n, days int) []favfilter.Hash {
	t.Helper()
	id := w.ID(7)
	var all []favfilter.Hash
	for day := range days {
		keys := make([]favfilter.Hash, (day+1)*n/days-day*n/days)
		for i := range keys {
			keys[i] = randomHash(rng)
		}
		all = append(all, keys...)
		if _, err := w.Write(t.Context(), id, seen.Writing{Keys: keys, Now: at.now}); err != nil {
			t.Fatal(err)
		}
		at.now = at.now.Add(24 * time.Hour)
	}
	return all
}

func randomHashes(rng *rand.Rand, n int) []favfilter.Hash {
	hashes := make([]favfilter.Hash, n)
	for i := range hashes {
		hashes[i] = randomHash(rng)
	}
	return hashes
}

// recent returns the keys that are stored under id.
func recent(t testing.TB, w *seen.Windows, store favfilter.Store, id favfilter.PageID, now time.Time) *seen.Window {
	t.Helper()
	loaded, err := store.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	got := w.Decode(t.Context(), id, loaded[0], now)
	must(t, got.Damage())
	return got
}

func rateOf(r *seen.Window) (rate float64) {
	for _, run := range r.Runs() {
		rate += run.FalsePositiveRate
	}
	return rate
}

// For any number of keys, the strings stay below the promised sizes. The rate stays below the
// configured one, and is what the runs say.
func TestWindowSizes(t *testing.T) {
	for _, c := range []struct {
		keys   int     // number of keys in a window
		most   float64 // maximum bytes per key
		stored int     // number of keys at the end of a part
	}{
		{20, 5, 23}, {50, 3.3, 57}, {200, 2.4, 227}, {650, 2.15, 737}, {1500, 2.1, 1700}, {5000, 2.05, 5667}, {7000, 2.1, 7933}, {10_000, 2.15, 10_084},
	} {
		at := newClock()
		store := &favfilter.Memory{Now: func() time.Time { return at.now }}
		const rate = 0.0005
		w := openWindow(t, store, seen.Config{Length: month, FalsePositiveRate: rate})
		rng, id := rand.New(rand.NewPCG(1, 2)), w.ID(7)
		history(t, w, at, rng, 2*c.keys, 60)
		got := recent(t, w, store, id, at.now)
		bytes := float64(store.Bytes()) / float64(got.Keys())
		if n := got.Keys(); n < c.stored-8 || n > c.stored+3 || bytes > c.most { // some look like others
			t.Errorf("%d keys in a window: %d stored, %.2f bytes a key", c.keys, n, bytes)
		}
		sum := rateOf(got)
		if sum > rate || 2*c.keys <= seen.DefaultMost && sum > 0.85*rate {
			t.Errorf("%d keys in a window: a rate of %g", c.keys, sum)
		}
		found, probes := 0, 400_000
		for range probes {
			if got.Contains(randomHash(rng)) {
				found++
			}
		}
		if most := ratetest.Most(sum * float64(probes)); found > most || 2*found < int(sum*float64(probes)) {
			t.Errorf("%d keys in a window: %d of %d absent keys are reported, the runs say %g", c.keys, found, probes, sum)
		}
	}
}

// The rate is kept in whatever order keys arrive: few at first, many in one part, or history in any
// order.
func TestWindowKeepsItsRate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := rapid.SampledFrom([]float64{0.5, 0.01, 0.0005, 1e-7}).Draw(r, "rate")
		most := rapid.SampledFrom([]int{1, 50, 1000, 10_000}).Draw(r, "most")
		at := newClock()
		store := &favfilter.Memory{Now: func() time.Time { return at.now }}
		w := openWindow(r, store, seen.Config{Length: month, FalsePositiveRate: rate, Most: most})
		rng, id := rand.New(rand.NewPCG(2, rapid.Uint64().Draw(r, "seed"))), w.ID(7)
		for range rapid.IntRange(1, 12).Draw(r, "writes") {
			at.now = at.now.Add(time.Duration(rapid.IntRange(0, 8).Draw(r, "days")) * 24 * time.Hour)
			writing := seen.Writing{Now: at.now}
			for range rapid.SampledFrom([]int{1, 30, 700, 3000}).Draw(r, "keys") {
				writing.Keys = append(writing.Keys, randomHash(rng))
				writing.At = append(writing.At, at.now.Add(-time.Duration(rng.Int64N(int64(month)))))
			}
			if rapid.Bool().Draw(r, "new") {
				writing.At = nil
			}
			if _, err := w.Write(t.Context(), id, writing); err != nil {
				r.Fatal(err)
			}
			got := recent(t, w, store, id, at.now)
			if sum := rateOf(got); sum > rate || got.Keys() > most+most/8 {
				r.Fatalf("%d keys at a rate of %g, at most %d at %g", got.Keys(), sum, most, rate)
			}
			for _, key := range writing.Keys[max(0, len(writing.Keys)-most):] {
				if writing.At == nil && !got.Contains(key) {
					r.Fatal("a key that was just added is missed")
				}
			}
		}
	})
}

// While there are few keys, fingerprints are shortened. That must leave enough of the rate for the
// maximum number of keys. Runs of 43 keys take nearly the whole share of their parts.
func TestWindowKeepsItsRateAfterFewKeys(t *testing.T) {
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	const rate = 0.0005
	w := openWindow(t, store, seen.Config{Length: month, FalsePositiveRate: rate})
	rng, id := rand.New(rand.NewPCG(1, 2)), w.ID(7)
	rateWith := func(n int) float64 {
		t.Helper()
		write(t, w, id, seen.Writing{Keys: randomHashes(rng, n), Now: at.now})
		return rateOf(recent(t, w, store, id, at.now))
	}
	for range 6 {
		if got := rateWith(43); got > 0.7*rate {
			t.Errorf("few keys take a rate of %g", got)
		}
		at.now = at.now.Add(month / 6)
	}
	for range 10 {
		if got := rateWith(1000); got > rate {
			t.Errorf("many keys take a rate of %g", got)
		}
	}
}

// A key that is added again is found, even if it was the next to be evicted.
func TestWindowAddsTheOldestAgain(t *testing.T) {
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month, Most: 16, FalsePositiveRate: 1e-9})
	id := w.ID(7)
	keys := ascending(17)
	write(t, w, id, seen.Writing{Keys: keys[:16], Now: at.now})
	recorded := write(t, w, id, seen.Writing{Keys: []favfilter.Hash{keys[0], keys[16]}, Now: at.now})
	if recorded.Evicted != 1 || recorded.Fresh[0] || !recorded.Fresh[1] {
		t.Errorf("%+v", recorded)
	}
	got := recent(t, w, store, id, at.now)
	for i, key := range keys {
		if got.Contains(key) != (i != 1) {
			t.Errorf("key %d is found: %v", i, got.Contains(key))
		}
	}
}

// A key is kept from its own time on, in whatever order keys arrive.
func TestWindowHistory(t *testing.T) {
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month, FalsePositiveRate: 1e-9})
	rng, id := rand.New(rand.NewPCG(1, 2)), w.ID(7)
	const day = 24 * time.Hour
	var keys []favfilter.Hash
	var times []time.Time
	for i := range 600 {
		keys = append(keys, randomHash(rng))
		times = append(times, at.now.Add(-time.Duration(i)*day/10))
	}
	rng.Shuffle(len(keys), func(i, j int) {
		keys[i], keys[j] = keys[j], keys[i]
		times[i], times[j] = times[j], times[i]
	})
	for from := 0; from < len(keys); from += 50 {
		recorded, err := w.Write(t.Context(), id, seen.Writing{Keys: keys[from : from+50], At: times[from : from+50], Now: at.now})
		if err != nil {
			t.Fatal(err)
		}
		for i, fresh := range recorded.Fresh {
			if age := at.now.Sub(times[from+i]); fresh != (age <= month) && (age <= month || age > month+5*day) {
				t.Errorf("a key of %v ago is fresh: %v", age, fresh)
			}
		}
	}
	// An earlier time than the known one changes nothing, and a later one does.
	again, err := w.Write(t.Context(), id, seen.Writing{
		Keys: []favfilter.Hash{keys[0], keys[0]}, At: []time.Time{times[0].Add(-6 * day), at.now.Add(time.Hour)}, Now: at.now,
	})
	if err != nil || again.Fresh[0] {
		t.Errorf("%v, %v", again, err)
	}
	times[0] = at.now
	for range 40 {
		got := recent(t, w, store, id, at.now)
		for i, key := range keys {
			age, found := at.now.Sub(times[i]), got.Contains(key)
			if age <= month && !found || age > month+5*day && found {
				t.Fatalf("a key of %v ago is found: %v", age, found)
			}
		}
		at.now = at.now.Add(day)
	}
	if recent(t, w, store, id, at.now).Keys() > 0 {
		t.Error("a key is kept for longer")
	}
}

// write writes keys under an id, and fails the test if that fails.
func write(t testing.TB, w *seen.Windows, id favfilter.PageID, writing seen.Writing) seen.Recorded {
	t.Helper()
	recorded, err := w.Write(t.Context(), id, writing)
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

// ascending returns n keys with ascending hashes.
func ascending(n int) []favfilter.Hash {
	keys := make([]favfilter.Hash, n)
	for i := range keys {
		keys[i] = favfilter.Hash{H1: uint64(i+1) << 56}
	}
	return keys
}

// Concurrent writers of one owner lose no key that a writer was told is recorded.
func TestWindowRacingWriters(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		w := openWindow(t, store, seen.Config{Length: time.Hour, FalsePositiveRate: 1e-9})
		id := w.ID(1)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var acknowledged []favfilter.Hash
		failed := 0
		for writer := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(9, uint64(writer)))
				for range 10 {
					keys := []favfilter.Hash{randomHash(rng), randomHash(rng)}
					_, err := w.Write(t.Context(), id, seen.Writing{Keys: keys, Now: time.Now()})
					mu.Lock()
					if err == nil {
						acknowledged = append(acknowledged, keys...)
					} else {
						failed++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if failed > 8 {
			t.Errorf("%d of 80 writes failed", failed)
		}
		got := recent(t, w, store, id, time.Now())
		for _, key := range acknowledged {
			if !got.Contains(key) {
				t.Error("an acknowledged key is missed")
			}
		}
	})
}

// failing is a store whose calls fail, or whose replacements never succeed.
type failing struct {
	favfilter.Store

	load, replace error
}

func (s failing) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	if s.load != nil {
		return nil, s.load
	}
	return s.Store.Load(ctx, ids)
}

func (s failing) Replace(context.Context, favfilter.Replacement) (bool, error) {
	return false, s.replace
}

// Errors of the store are returned. A write that others overtake each time ends.
func TestWindowStoreFails(t *testing.T) {
	memory, broken := &favfilter.Memory{}, errors.New("broken")
	if _, err := openWindow(t, memory, seen.Config{Length: time.Hour}).Add(t.Context(), "U1", "P1"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		store favfilter.Store
		want  string
	}{
		"reads":  {failing{memory, broken, nil}, "broken"},
		"writes": {failing{memory, nil, broken}, "broken"},
		"always": {failing{memory, nil, nil}, "other writers changed it each time"},
	} {
		w := openWindow(t, c.store, seen.Config{Length: time.Hour})
		_, err := w.Add(t.Context(), "U1", "P2")
		forget := w.Forget(t.Context(), "U1")
		if err == nil || forget == nil || !strings.HasSuffix(err.Error(), c.want) || !strings.HasSuffix(forget.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, err, forget)
		}
		if _, err := w.Contains(t.Context(), "U1", "P1"); (err == nil) != (name != "reads") {
			t.Errorf("%s: %v", name, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Add(ended, "U1", "P2"); err == nil || name == "always" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: with an ended context: %v", name, err)
		}
	}
}

func TestWindowRefuses(t *testing.T) {
	for _, c := range []seen.Config{
		{Length: time.Second}, {Length: 100 * 365 * 24 * time.Hour}, {Length: time.Hour, Parts: 64}, {Length: time.Hour, Most: 100_000},
		{Length: time.Hour, FalsePositiveRate: 0.5, Most: 1}, {Length: time.Hour, FalsePositiveRate: 1e-11, Most: 100_000},
	} {
		openWindow(t, &favfilter.Memory{}, c)
	}
	for _, c := range []seen.Config{
		{}, {Length: time.Second - 1}, {Length: 100*365*24*time.Hour + 1}, {Length: time.Hour, Pages: 3}, {Length: time.Hour, Parts: -1},
		{Length: time.Hour, Parts: 65}, {Length: time.Hour, Most: -1}, {Length: time.Hour, Most: 100_001}, {Length: time.Hour, FalsePositiveRate: 0.6},
		{Length: time.Hour, FalsePositiveRate: 1e-12}, {Length: time.Hour, Pages: 2 * favfilter.MaxPages},
	} {
		if w, err := seen.Open(&favfilter.Memory{}, c); err == nil || w != nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// Keys with more than three times the false-positive rate are not used.
func TestWindowOfAnotherRate(t *testing.T) {
	store := &favfilter.Memory{}
	at := newClock()
	w := openWindow(t, store, seen.Config{Length: month, FalsePositiveRate: 0.001})
	id := w.ID(7)
	keys := history(t, w, at, rand.New(rand.NewPCG(1, 2)), 1000, 30)
	at.now = at.now.Add(-24 * time.Hour)
	rate := rateOf(recent(t, w, store, id, at.now))
	for factor, usable := range map[float64]bool{1: true, 2.9: true, 3.1: false} {
		w := openWindow(t, store, seen.Config{Length: month, FalsePositiveRate: rate / factor})
		if got := recent(t, w, store, id, at.now).Contains(keys[999]); got != usable {
			t.Errorf("at %g x the rate a key is found: %v", factor, got)
		}
	}
}

// BenchmarkWindow decodes a window and looks up 500 keys, and records 50. The owner has that many
// keys of a month.
func BenchmarkWindow(b *testing.B) {
	for _, n := range []int{50, 650, 1000, 5000, 10_000} {
		at := newClock()
		store, config := &favfilter.Memory{}, seen.Config{Length: month, FalsePositiveRate: 0.0005}
		w := openWindow(b, store, config)
		rng, id := rand.New(rand.NewPCG(1, 2)), w.ID(7)
		history(b, w, at, rng, n, 30)
		stored, _ := store.Get(id)
		keys := randomHashes(rng, 500)
		w = openWindow(b, &oneString{}, config) // which takes every write
		b.Run(fmt.Sprint("read/", n), func(b *testing.B) {
			b.ReportAllocs()
			b.ReportMetric(float64(len(stored.Value))/float64(n), "B/key")
			found := make([]bool, len(keys))
			for b.Loop() {
				w.Decode(b.Context(), id, stored, at.now).ContainsAll(favfilter.Start{H1: 1}, keys, found)
			}
		})
		for name, read := range map[string]bool{"write/": false, "write-read/": true /* as a feed does */} {
			b.Run(fmt.Sprint(name, n), func(b *testing.B) {
				b.ReportAllocs()
				got := w.Decode(b.Context(), id, stored, at.now)
				for b.Loop() {
					if !read {
						got = w.Decode(b.Context(), id, stored, at.now)
					}
					must(b, got.Add(b.Context(), keys[:50]))
				}
			})
		}
	}
}
