package seen_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

func TestWindowDefaults(t *testing.T) {
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month})
	id := w.ID(1<<64 - 1)
	if id.Number != 1023 || !strings.HasPrefix(id.Part, "window.") {
		t.Errorf("id %v", id)
	}
	recorded := write(t, w, id, seen.Writing{Keys: randomHashes(rand.New(rand.NewPCG(1, 2)), 12_000), Now: at.now})
	got := recent(t, w, store, id, at.now)
	if n, rate := got.Keys(), rateOf(got); n < 10_740 || n > 10_750 || recorded.Evicted < 1240 || rate > 0.001 || rate < 0.0005 {
		t.Errorf("%d keys at a rate of %g, %d evicted", n, rate, recorded.Evicted)
	}
	if run := got.Runs()[0]; run.Before.Sub(run.From) != 5*24*time.Hour {
		t.Errorf("a part from %v until %v", run.From, run.Before)
	}
}

// A string of another seed is not used, and is replaced.
func TestWindowOfAnotherSeed(t *testing.T) {
	at, keys := newClock(), ascending(2)
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month, Seed: 1})
	other := openWindow(t, store, seen.Config{Length: month, Seed: 2})
	id := w.ID(7)
	write(t, w, id, seen.Writing{Keys: keys[:1], Now: at.now})
	if got := recent(t, other, store, id, at.now); got.Keys() > 0 {
		t.Errorf("%d keys of another seed are used", got.Keys())
	}
	write(t, other, id, seen.Writing{Keys: keys[1:], Now: at.now})
	if got := recent(t, other, store, id, at.now); got.Keys() != 1 || !got.Contains(keys[1]) {
		t.Errorf("%d keys", got.Keys())
	}
}

// A write to a window that was just read reads again if other writers have changed it since.
func TestWindowReadsAgain(t *testing.T) {
	at, keys := newClock(), ascending(3)
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month, FalsePositiveRate: 1e-9})
	id := w.ID(7)
	write(t, w, id, seen.Writing{Keys: keys[:1], Now: at.now})
	loaded, err := store.Load(t.Context(), []favfilter.PageID{id})
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, id, seen.Writing{Keys: keys[1:2], Now: at.now})
	write(t, w, id, seen.Writing{Keys: keys[2:], Now: at.now, Read: w.Decode(t.Context(), id, loaded[0], at.now)})
	if got := recent(t, w, store, id, at.now); got.Keys() != 3 {
		t.Errorf("%d keys", got.Keys())
	}
}

// A time in the future counts as now. A key of a part that was just forgotten is not added.
func TestWindowTimes(t *testing.T) {
	at, keys := newClock(), ascending(3)
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	const day = 24 * time.Hour
	at.now = time.Unix(0, 0).Add(4000 * 5 * day) // start of a part
	w := openWindow(t, store, seen.Config{Length: month})
	id := w.ID(7)
	recorded := write(t, w, id, seen.Writing{
		Keys: keys, At: []time.Time{at.now.Add(20 * day), at.now.Add(-month), at.now.Add(-month - 1)}, Now: at.now,
	})
	if !slices.Equal(recorded.Fresh, []bool{true, true, false}) {
		t.Errorf("%+v", recorded)
	}
	runs := recent(t, w, store, id, at.now).Runs()
	if len(runs) != 2 || !runs[0].From.Equal(at.now.Add(-month)) || !runs[0].Forgotten.Equal(at.now.Add(5*day)) || !runs[1].From.Equal(at.now) {
		t.Errorf("%+v", runs)
	}
	at.now = at.now.Add(5*day - time.Millisecond)
	if got := recent(t, w, store, id, at.now); !got.Contains(keys[1]) {
		t.Error("a key is missed in its last millisecond")
	}
	at.now = at.now.Add(time.Millisecond)
	if got := recent(t, w, store, id, at.now); got.Contains(keys[1]) || !got.Contains(keys[0]) {
		t.Error("a key is found after its time")
	}
}

// The store keeps the string until its last key is forgotten.
func TestWindowExpires(t *testing.T) {
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month})
	id := w.ID(7)
	writing := seen.Writing{Keys: ascending(2), At: []time.Time{at.now, at.now.Add(-20 * 24 * time.Hour)}, Now: at.now}
	write(t, w, id, writing)
	runs := recent(t, w, store, id, at.now).Runs()
	for offset, there := range map[time.Duration]bool{-time.Millisecond: true, time.Millisecond: false} {
		at.now = runs[1].Forgotten.Add(offset)
		if stored, _ := store.Get(id); (stored.Value != nil) != there {
			t.Errorf("%v after the last key is forgotten: stored %v", offset, !there)
		}
	}
}

// Runs of earlier parts are shortened at once.
func TestWindowShortensHistory(t *testing.T) {
	at := newClock()
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month})
	id, writing := w.ID(7), seen.Writing{Keys: randomHashes(rand.New(rand.NewPCG(1, 2)), 50), Now: at.now}
	for range writing.Keys {
		writing.At = append(writing.At, at.now.Add(-month/2))
	}
	write(t, w, id, writing)
	if runs := recent(t, w, store, id, at.now).Runs(); len(runs) != 1 || runs[0].FalsePositiveRate < 0.001/6/2.1 {
		t.Errorf("%+v", runs)
	}
}

// If a write has more keys than Most, its last keys stay. A write that adds nothing evicts nothing,
// even if Most was lowered.
func TestWindowOfFewKeys(t *testing.T) {
	at, keys := newClock(), ascending(21)
	store := &favfilter.Memory{Now: func() time.Time { return at.now }}
	w := openWindow(t, store, seen.Config{Length: month, Most: 16, FalsePositiveRate: 1e-9})
	id := w.ID(7)
	write(t, w, id, seen.Writing{Keys: keys[:1], Now: at.now})
	if recorded := write(t, w, id, seen.Writing{Keys: keys, Now: at.now}); recorded.Evicted != 4 {
		t.Errorf("%+v", recorded)
	}
	w = openWindow(t, store, seen.Config{Length: month, Most: 8, FalsePositiveRate: 1e-9})
	if recorded := write(t, w, id, seen.Writing{Keys: keys[20:], Now: at.now}); recorded.Evicted != 0 || recorded.Fresh[0] {
		t.Errorf("%+v", recorded)
	}
	got := recent(t, w, store, id, at.now)
	for i, key := range keys {
		if got.Contains(key) != (i >= 4) {
			t.Errorf("key %d is found: %v", i, got.Contains(key))
		}
	}
}

// Times before 1970 belong to one part, which ends with 1969. A key without a time counts as added
// now.
func TestWindowBefore1970(t *testing.T) {
	start, keys := time.Unix(0, 0).UTC(), ascending(4)
	store := &favfilter.Memory{Now: func() time.Time { return start.Add(time.Hour) }}
	w := openWindow(t, store, seen.Config{Length: month})
	id := w.ID(7)
	at := []time.Time{start, start.Add(-time.Hour), start.Add(-7 * 24 * time.Hour)}
	write(t, w, id, seen.Writing{Keys: keys, At: at, Now: store.Now()})
	runs := recent(t, w, store, id, store.Now()).Runs()
	if len(runs) != 2 || runs[0].Keys != 2 || runs[1].Keys != 2 || !runs[0].Before.Equal(start) || !runs[1].From.Equal(start) {
		t.Errorf("%+v", runs)
	}
}
