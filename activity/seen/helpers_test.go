package seen_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// fataler is the common part of testing.TB and rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

const (
	day   = 24 * time.Hour
	month = 30 * day

	// user is the owner of most windows.
	user = 7
)

// rig has windows in a store, and a clock that the test sets.
type rig struct {
	t       fataler
	now     time.Time
	store   *favfilter.Memory
	windows *seen.Windows
}

// newRig opens windows in an empty store, of a month by default.
func newRig(t fataler, c seen.Config) *rig {
	t.Helper()
	x := &rig{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	x.store = &favfilter.Memory{Now: func() time.Time { return x.now }}
	x.open(c)
	return x
}

// open opens windows in the store, as another process would.
func (x *rig) open(c seen.Config) {
	x.t.Helper()
	c.Now, c.Length = x.store.Now, cmp.Or(c.Length, month)
	x.windows = openWindow(x.t, x.store, c)
}

func openWindow(t fataler, store favfilter.Store, c seen.Config) *seen.Windows {
	t.Helper()
	w, err := seen.Open(store, c)
	if err != nil {
		t.Fatalf("open window: %v", err)
	}
	return w
}

func (x *rig) id() favfilter.PageID { return x.windows.ID(user) }

// write adds keys to the user's window, each at its time if there is one. It reports for each
// whether it was new, and how many keys were evicted.
func (x *rig) write(keys []favfilter.Hash, times ...time.Time) (fresh []bool, evicted int) {
	x.t.Helper()
	before := x.windows.Losses().Evicted
	fresh, err := writeTo(x.windows, x.now, keys, times...)
	must(x.t, err)
	return fresh, int(x.windows.Losses().Evicted - before)
}

// writeTo adds keys to the user's window.
func writeTo(windows *seen.Windows, now time.Time, keys []favfilter.Hash, times ...time.Time) (fresh []bool, err error) {
	var b seen.Batch
	for i, key := range keys {
		var since time.Time
		if i < len(times) {
			since = times[i]
		}
		b.Add(windows, user, key, since, i)
	}
	added, err := b.Write(context.Background(), now)
	fresh = make([]bool, len(keys))
	for _, i := range added {
		fresh[i] = true
	}
	return fresh, err
}

// stored returns what the store has of the user.
func (x *rig) stored() favfilter.Loaded {
	stored, _ := x.store.Get(x.id())
	return stored
}

// read returns the user's window, which must be sound.
func (x *rig) read() *seen.Window {
	x.t.Helper()
	w := x.windows.Decode(context.Background(), x.id(), x.stored(), x.now)
	must(x.t, w.Damage())
	return w
}

// stored returns what a store has under id.
func stored(t testing.TB, store favfilter.Store, id favfilter.PageID) favfilter.Loaded {
	t.Helper()
	loaded, _, err := store.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	return loaded[0]
}

func rateOf(w *seen.Window) (rate float64) {
	for _, run := range w.Runs() {
		rate += run.FalsePositiveRate
	}
	return rate
}

// onStores runs the test on the embedded store and on Redis.
func onStores(t *testing.T, run func(t *testing.T, store favfilter.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { run(t, &favfilter.Memory{}) })
	t.Run("redis", func(t *testing.T) {
		store, err := redisstore.New(redistest.Start(t).Client(), "window")
		must(t, err)
		run(t, store)
	})
}

func randomHash(rng *rand.Rand) favfilter.Hash {
	return favfilter.Hash{H1: rng.Uint64(), H2: rng.Uint64()}
}

func randomHashes(rng *rand.Rand, n int) []favfilter.Hash {
	hashes := make([]favfilter.Hash, n)
	for i := range hashes {
		hashes[i] = randomHash(rng)
	}
	return hashes
}

// ascending returns n keys with ascending hashes.
func ascending(n int) []favfilter.Hash {
	keys := make([]favfilter.Hash, n)
	for i := range keys {
		keys[i] = favfilter.Hash{H1: uint64(i+1) << 56}
	}
	return keys
}

// oneString is a store that takes every write, and keeps only the last string.
type oneString struct {
	favfilter.Store

	raw []byte
}

func (s *oneString) Replace(_ context.Context, r favfilter.Replacement) (bool, error) {
	s.raw, _ = r.Encode()
	return true, nil
}
