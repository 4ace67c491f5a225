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

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/ratetest"
)

// Every process finds keys for as long as they are kept. Keys are forgotten at most one part later.
func TestWindow(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		config := seen.Config{Length: 6 * time.Hour, Pages: 4, Seed: 3, Now: func() time.Time { return now }}
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
		now = now.Add(5 * time.Hour)
		_, err = w.Add(t.Context(), "U1", keys[:50]...)
		must(t, err)
		w = openWindow(t, store, config) // like another process
		want(w, "U1", keys, true)
		now = now.Add(2 * time.Hour)
		want(w, "U1", keys[:50], true)
		want(w, "U1", keys[50:], false)
		want(w, "U1", nil, true)
		config.Seed++
		want(openWindow(t, store, config), "U1", keys, false)
		config.Seed, config.Name = 3, "other"
		want(openWindow(t, store, config), "U1", keys, false)
		must(t, w.Forget(t.Context(), "U1"))
		want(w, "U1", keys, false)
		if err := w.Forget(t.Context(), "U1"); err != nil {
			t.Errorf("forgetting nothing: %v", err)
		}
	})
}

// history writes n keys, the same number each day, and returns them.
func (x *rig) history(rng *rand.Rand, n, days int) []favfilter.Hash {
	x.t.Helper()
	all := randomHashes(rng, n)
	for i := range days {
		x.write(all[i*n/days : (i+1)*n/days])
		x.now = x.now.Add(day)
	}
	return all
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
		const rate = 0.0005
		x, rng := newRig(t, seen.Config{FalsePositiveRate: rate}), rand.New(rand.NewPCG(1, 2))
		x.history(rng, 2*c.keys, 60)
		got := x.read()
		bytes := float64(got.Bytes()) / float64(got.Keys())
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

// While there are few keys, fingerprints are shortened. That must leave enough of the rate for the
// maximum number of keys. Runs of 43 keys take nearly the whole share of their parts.
func TestWindowKeepsItsRateAfterFewKeys(t *testing.T) {
	const rate = 0.0005
	x, rng := newRig(t, seen.Config{FalsePositiveRate: rate}), rand.New(rand.NewPCG(1, 2))
	rateWith := func(n int) float64 {
		t.Helper()
		x.write(randomHashes(rng, n))
		return rateOf(x.read())
	}
	for range 6 {
		if got := rateWith(43); got > 0.7*rate {
			t.Errorf("few keys take a rate of %g", got)
		}
		x.now = x.now.Add(month / 6)
	}
	for range 10 {
		if got := rateWith(1000); got > rate {
			t.Errorf("many keys take a rate of %g", got)
		}
	}
}

// Concurrent writers of one owner lose no key that a writer was told is recorded.
func TestWindowRacingWriters(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		w := openWindow(t, store, seen.Config{Length: time.Hour, FalsePositiveRate: 1e-9})
		var wg sync.WaitGroup
		var mu sync.Mutex
		var acknowledged []favfilter.Hash
		failed := 0
		for writer := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(9, uint64(writer)))
				for range 10 {
					keys := []favfilter.Hash{randomHash(rng), randomHash(rng)}
					_, err := writeTo(w, time.Now(), keys)
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
		got := w.Decode(t.Context(), w.ID(user), stored(t, store, w.ID(user)), time.Now())
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

func (s failing) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	if s.load != nil {
		return nil, nil, s.load
	}
	return s.Store.Load(ctx, ids, held...)
}

func (s failing) Replace(context.Context, favfilter.Replacement) (bool, error) {
	return false, s.replace
}

// Errors of the store are returned. A write that others overtake each time ends.
func TestWindowStoreFails(t *testing.T) {
	memory, broken := &favfilter.Memory{}, errors.New("broken")
	_, err := openWindow(t, memory, seen.Config{Length: time.Hour}).Add(t.Context(), "U1", "P1")
	must(t, err)
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
		if err == nil || forget == nil || !strings.HasSuffix(err.Error(), c.want) || !strings.Contains(err.Error(), ":window.") || !strings.HasSuffix(forget.Error(), c.want) {
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
	x := newRig(t, seen.Config{FalsePositiveRate: 0.001})
	keys := x.history(rand.New(rand.NewPCG(1, 2)), 1000, 30)
	x.now = x.now.Add(-day)
	rate := rateOf(x.read())
	for factor, usable := range map[float64]bool{1: true, 2.9: true, 3.1: false} {
		x.open(seen.Config{FalsePositiveRate: rate / factor})
		if got := x.read().Contains(keys[999]); got != usable {
			t.Errorf("at %g x the rate a key is found: %v", factor, got)
		}
	}
}

// BenchmarkWindow decodes a window and looks up 500 keys, and records 50. The owner has that many
// keys of a month.
func BenchmarkWindow(b *testing.B) {
	for _, n := range []int{50, 650, 1000, 5000, 10_000} {
		config := seen.Config{Length: month, FalsePositiveRate: 0.0005}
		x, rng := newRig(b, config), rand.New(rand.NewPCG(1, 2))
		x.history(rng, n, 30)
		stored, id := x.stored(), x.id()
		keys := randomHashes(rng, 500)
		w := openWindow(b, &oneString{}, config) // which takes every write
		b.Run(fmt.Sprint("read/", n), func(b *testing.B) {
			b.ReportAllocs()
			b.ReportMetric(float64(len(stored.Value))/float64(n), "B/key")
			found := make([]bool, len(keys))
			for b.Loop() {
				w.Decode(b.Context(), id, stored, x.now).ContainsAll(favfilter.Start{H1: 1}, keys, found)
			}
		})
		for name, read := range map[string]bool{"write/": false, "write-read/": true /* as a feed does */} {
			b.Run(fmt.Sprint(name, n), func(b *testing.B) {
				b.ReportAllocs()
				got := w.Decode(b.Context(), id, stored, x.now)
				for b.Loop() {
					if !read {
						got = w.Decode(b.Context(), id, stored, x.now)
					}
					must(b, got.Add(b.Context(), keys[:50]))
				}
			})
		}
	}
}
