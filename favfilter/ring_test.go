package favfilter_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func newRing(t fataler, store favfilter.Store, c favfilter.RingConfig) *favfilter.Ring {
	t.Helper()
	ring, err := favfilter.NewRing(store, favfilter.Identity{Pages: 1, Seed: 7}, c)
	if err != nil {
		t.Fatalf("new ring: %v", err)
	}
	return ring
}

// inRing reports which keys any part of the ring has at now.
func inRing(
	t *testing.T, store favfilter.Store, ring *favfilter.Ring, id favfilter.PageID, now time.Time, keys []favfilter.Hash,
) []bool {
	t.Helper()
	loaded, err := store.Load(t.Context(), ring.Pages(id, now))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	found := make([]bool, len(keys))
	for _, l := range loaded {
		page := ring.Usable(l)
		for i, h := range keys {
			found[i] = found[i] || page != nil && page.Contains(h)
		}
	}
	return found
}

// onStores runs the test on the embedded store and on Redis.
func onStores(t *testing.T, run func(t *testing.T, store favfilter.Store)) {
	t.Run("memory", func(t *testing.T) { run(t, &favfilter.Memory{}) })
	t.Run("redis", func(t *testing.T) {
		store, err := redisstore.New(redistest.Start(t).Client(), "ring")
		if err != nil {
			t.Fatal(err)
		}
		run(t, store)
	})
}

// TestRingForgetsInTime runs for 40 windows' worth of time. A key is found for a window after its
// last Add, and is no longer found a part later than that.
func TestRingForgetsInTime(t *testing.T) {
	const length, parts = 30 * 24 * time.Hour, 6
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	ring := newRing(t, store, favfilter.RingConfig{Length: length, Parts: parts})
	rng := rand.New(rand.NewPCG(1, 1))
	id := favfilter.PageID{Part: "seen-1"}
	keys := make([]favfilter.Hash, 3000)
	for i := range keys {
		keys[i] = randomHash(rng)
	}
	last := make([]time.Time, len(keys))
	late, absent, wrong := 0, 0, 0
	for range 2000 {
		at.now = at.now.Add(time.Duration(rng.Int64N(int64(40 * length / 2000 * 2))))
		var batch []favfilter.Hash
		for range rng.IntN(30) {
			i := rng.IntN(len(keys))
			batch = append(batch, keys[i])
			last[i] = at.now
		}
		if _, err := ring.Add(t.Context(), id, at.now, batch, nil); err != nil {
			t.Fatal(err)
		}
		for i, found := range inRing(t, store, ring, id, at.now, keys) {
			switch age := at.now.Sub(last[i]); {
			case age < length && !found:
				t.Fatalf("key %d is missed %v after it was added", i, age)
			case age < length:
			case age < length+length/parts:
				late++ // either is right
			default:
				absent++
				if found {
					wrong++
				}
			}
		}
	}
	t.Logf("%d of %d absent keys found; %d lookups in the last part", wrong, absent, late)
	if absent < 1_000_000 || float64(wrong) > float64(absent)/1000 {
		t.Errorf("%d of %d absent keys found", wrong, absent)
	}
}

// TestRingStaysBounded adds 100 windows' worth of an endless stream to one place. Neither memory
// nor the false-positive rate grows.
func TestRingStaysBounded(t *testing.T) {
	const length, parts, perPart = 30 * 24 * time.Hour, 6, 1200
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	ring := newRing(t, store, favfilter.RingConfig{Length: length, Parts: parts})
	rng := rand.New(rand.NewPCG(2, 1))
	id := favfilter.PageID{Part: "seen-1"}
	var most, mostLate, wrong, checks int
	for part := range 100 * parts {
		for range perPart / 40 {
			at.now = at.now.Add(length / parts / (perPart / 40))
			batch := make([]favfilter.Hash, 40)
			for i := range batch {
				batch[i] = randomHash(rng)
			}
			if _, err := ring.Add(t.Context(), id, at.now, batch, nil); err != nil {
				t.Fatal(err)
			}
			if found := inRing(t, store, ring, id, at.now, batch); slices.Contains(found, false) {
				t.Fatal("a key just added is missed")
			}
		}
		bytes := store.Bytes()
		if part < 4*parts {
			most = max(most, bytes)
		} else {
			mostLate = max(mostLate, bytes)
		}
		if part%10 == 9 {
			strangers := make([]favfilter.Hash, 10_000)
			for i := range strangers {
				strangers[i] = randomHash(rng)
			}
			for _, found := range inRing(t, store, ring, id, at.now, strangers) {
				checks++
				if found {
					wrong++
				}
			}
		}
	}
	t.Logf("%d bytes at most in the first 4 windows, %d in the 96 after; %.1f a key; false positives %.4f %%",
		most, mostLate, float64(mostLate)/(perPart*(parts+1)), 100*float64(wrong)/float64(checks))
	if mostLate > most {
		t.Errorf("%d bytes at most in the first 4 windows, %d in the 96 after", most, mostLate)
	}
	if float64(wrong) > float64(checks)/1000 {
		t.Errorf("%d of %d absent keys found", wrong, checks)
	}
}

// TestRingGrows checks that a part takes far more keys than its capacity, within its rate.
func TestRingGrows(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		now := newClock().now
		ring := newRing(t, store, favfilter.RingConfig{Length: time.Hour, Parts: 1, FalsePositiveRate: 0.01})
		rng := rand.New(rand.NewPCG(3, 1))
		id := favfilter.PageID{Part: "seen-1"}
		keys := make([]favfilter.Hash, 20_000)
		for i := range keys {
			keys[i] = randomHash(rng)
		}
		for i := 0; i < len(keys); i += 100 {
			fresh, err := ring.Add(t.Context(), id, now, keys[i:i+100], nil)
			if err != nil {
				t.Fatal(err)
			}
			old := 0
			for _, isNew := range fresh {
				if !isNew {
					old++
				}
			}
			if old > 5 {
				t.Fatalf("%d of 100 new keys count as old", old)
			}
		}
		if found := inRing(t, store, ring, id, now, keys); slices.Contains(found, false) {
			t.Error("a key is missed")
		}
		wrong := 0
		for range 20 {
			strangers := make([]favfilter.Hash, 5000)
			for i := range strangers {
				strangers[i] = randomHash(rng)
			}
			for _, found := range inRing(t, store, ring, id, now, strangers) {
				if found {
					wrong++
				}
			}
		}
		if wrong > 1000 {
			t.Errorf("%d of 100,000 absent keys found", wrong)
		}
	})
}

// TestRingWriters checks that concurrent writers lose nothing.
func TestRingWriters(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		now := newClock().now
		ring := newRing(t, store, favfilter.RingConfig{Length: time.Hour})
		id := favfilter.PageID{Part: "seen-1"}
		var wg sync.WaitGroup
		keys := make([][]favfilter.Hash, 6)
		for w := range keys {
			rng := rand.New(rand.NewPCG(4, uint64(w)))
			for range 100 {
				keys[w] = append(keys[w], randomHash(rng))
			}
			wg.Go(func() {
				for i := 0; i < 100; i += 5 {
					for tries := 0; ; tries++ {
						_, err := ring.Add(t.Context(), id, now, keys[w][i:i+5], nil)
						if err == nil {
							break
						}
						if tries > 100 {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
		for _, some := range keys {
			if found := inRing(t, store, ring, id, now, some); slices.Contains(found, false) {
				t.Error("a key is missed")
			}
		}
	})
}

// TestRingAddsToWhatWasRead checks that Add with loaded pages takes one write, and that keys
// written by others meanwhile are not lost.
func TestRingAddsToWhatWasRead(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		now := newClock().now
		ring := newRing(t, store, favfilter.RingConfig{Length: time.Hour})
		id := favfilter.PageID{Part: "seen-1"}
		rng := rand.New(rand.NewPCG(5, 1))
		keys := []favfilter.Hash{randomHash(rng), randomHash(rng), randomHash(rng)}
		for _, h := range keys {
			loaded, err := store.Load(t.Context(), ring.Pages(id, now))
			if err != nil {
				t.Fatal(err)
			}
			// Somebody else is first.
			other := randomHash(rng)
			keys = append(keys, other)
			if _, err := ring.Add(t.Context(), id, now, []favfilter.Hash{other}, nil); err != nil {
				t.Fatal(err)
			}
			fresh, err := ring.Add(t.Context(), id, now, []favfilter.Hash{h, h}, loaded)
			if err != nil || !fresh[0] || fresh[1] {
				t.Fatalf("%v, %v", fresh, err)
			}
		}
		if found := inRing(t, store, ring, id, now, keys); slices.Contains(found, false) {
			t.Error("a key is missed")
		}
	})
}

func TestRingForget(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		now := newClock().now
		ring := newRing(t, store, favfilter.RingConfig{Length: 6 * time.Hour})
		rng := rand.New(rand.NewPCG(6, 1))
		mine, yours := favfilter.PageID{Part: "seen-1"}, favfilter.PageID{Part: "seen-2"}
		keys := []favfilter.Hash{randomHash(rng), randomHash(rng)}
		for hour := range 8 {
			for _, id := range []favfilter.PageID{mine, yours} {
				if _, err := ring.Add(t.Context(), id, now.Add(time.Duration(hour)*time.Hour), keys, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		now = now.Add(6 * time.Hour) // another process's clock was ahead
		for range 2 {
			if err := ring.Forget(t.Context(), mine, now); err != nil {
				t.Fatal(err)
			}
		}
		if found := inRing(t, store, ring, mine, now.Add(time.Hour), keys); slices.Contains(found, true) {
			t.Error("a key is found that was forgotten")
		}
		if found := inRing(t, store, ring, yours, now, keys); slices.Contains(found, false) {
			t.Error("a key of another place is missed")
		}
	})
}

// TestRingOfAnotherRate checks that parts created for a higher rate are not used.
func TestRingOfAnotherRate(t *testing.T) {
	now := newClock().now
	store := &favfilter.Memory{Now: func() time.Time { return now }}
	id := favfilter.PageID{Part: "seen-1"}
	rng := rand.New(rand.NewPCG(7, 1))
	keys := make([]favfilter.Hash, 60)
	for i := range keys {
		keys[i] = randomHash(rng)
	}
	loose := newRing(t, store, favfilter.RingConfig{Length: time.Hour, FalsePositiveRate: 0.5})
	strict := newRing(t, store, favfilter.RingConfig{Length: time.Hour, FalsePositiveRate: 0.0001})
	add := func(ring *favfilter.Ring) {
		t.Helper()
		if _, err := ring.Add(t.Context(), id, now, keys, nil); err != nil {
			t.Fatal(err)
		}
	}
	add(loose)
	if found := inRing(t, store, strict, id, now, keys); slices.Contains(found, true) {
		t.Error("a part of a higher rate is used")
	}
	add(strict) // in its place
	for _, ring := range []*favfilter.Ring{strict, loose} {
		if found := inRing(t, store, ring, id, now, keys); slices.Contains(found, false) {
			t.Error("a key is missed")
		}
	}
}

func TestRingSpan(t *testing.T) {
	ring := newRing(t, &favfilter.Memory{}, favfilter.RingConfig{Length: 6 * time.Hour})
	now := time.Date(2026, 1, 1, 5, 30, 0, 0, time.UTC)
	for i, want := range []int{5, 4, 3} {
		from, before := ring.Span(i, now)
		if from.Hour() != want || before.Sub(from) != time.Hour {
			t.Errorf("part %d is of %v to %v", i, from, before)
		}
	}
	early := time.Date(1969, 12, 31, 23, 30, 0, 0, time.UTC)
	if from, before := ring.Span(0, early); !before.Equal(time.Unix(0, 0)) || from.After(early) {
		t.Errorf("before 1970: %v to %v", from, before)
	}
	if pages := ring.Pages(favfilter.PageID{Number: 0, Part: "x"}, early); pages[0].Part != "x--1" || len(pages) != 7 {
		t.Errorf("pages %v", pages)
	}
}

func TestRingConfig(t *testing.T) {
	for _, c := range []favfilter.RingConfig{
		{}, {Length: time.Millisecond}, {Length: 200 * 365 * 24 * time.Hour}, {Length: time.Hour, Parts: -1}, {Length: time.Hour, Parts: 65},
		{Length: time.Hour, FalsePositiveRate: 0.6}, {Length: time.Hour, FalsePositiveRate: -1},
	} {
		if _, err := favfilter.NewRing(&favfilter.Memory{}, favfilter.Identity{Pages: 1}, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if _, err := favfilter.NewRing(&favfilter.Memory{}, favfilter.Identity{Pages: 3}, favfilter.RingConfig{Length: time.Hour}); err == nil {
		t.Error("3 pages are taken")
	}
}
