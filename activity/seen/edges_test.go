package seen_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
)

func TestWindowDefaults(t *testing.T) {
	x := newRig(t, seen.Config{})
	if id := x.windows.ID(1<<64 - 1); id.Number != 1023 || !strings.HasPrefix(id.Part, "window.") {
		t.Errorf("id %v", id)
	}
	_, evicted := x.write(randomHashes(rand.New(rand.NewPCG(1, 2)), 12_000))
	got := x.read()
	if n, rate := got.Keys(), rateOf(got); n < 10_740 || n > 10_750 || evicted < 1240 || rate > 0.001 || rate < 0.0005 {
		t.Errorf("%d keys at a rate of %g, %d evicted", n, rate, evicted)
	}
	if run := got.Runs()[0]; run.Before.Sub(run.From) != 5*day {
		t.Errorf("a part from %v until %v", run.From, run.Before)
	}
}

// A string of another seed is not used, and is replaced.
func TestWindowOfAnotherSeed(t *testing.T) {
	x, keys := newRig(t, seen.Config{Seed: 1}), ascending(2)
	x.write(keys[:1])
	x.open(seen.Config{Seed: 2})
	if got := x.read(); got.Keys() > 0 {
		t.Errorf("%d keys of another seed are used", got.Keys())
	}
	x.write(keys[1:])
	if got := x.read(); got.Keys() != 1 || !got.Contains(keys[1]) {
		t.Errorf("%d keys", got.Keys())
	}
}

// A write to a window that was just read reads again if other writers have changed it since.
func TestWindowReadsAgain(t *testing.T) {
	x, keys := newRig(t, seen.Config{FalsePositiveRate: 1e-9}), ascending(3)
	x.write(keys[:1])
	before := x.read()
	x.write(keys[1:2])
	must(t, before.Add(t.Context(), keys[2:]))
	if got := x.read(); got.Keys() != 3 {
		t.Errorf("%d keys", got.Keys())
	}
}

// A time in the future counts as now. A key of a part that was just forgotten is not added.
func TestWindowTimes(t *testing.T) {
	x, keys := newRig(t, seen.Config{}), ascending(3)
	x.now = time.Unix(0, 0).Add(4000 * 5 * day) // start of a part
	fresh, _ := x.write(keys, x.now.Add(20*day), x.now.Add(-month), x.now.Add(-month-1))
	if !slices.Equal(fresh, []bool{true, true, false}) {
		t.Errorf("%+v", fresh)
	}
	runs := x.read().Runs()
	if len(runs) != 2 || !runs[0].From.Equal(x.now.Add(-month)) || !runs[0].Forgotten.Equal(x.now.Add(5*day)) || !runs[1].From.Equal(x.now) {
		t.Errorf("%+v", runs)
	}
	x.now = x.now.Add(5*day - time.Millisecond)
	if got := x.read(); !got.Contains(keys[1]) {
		t.Error("a key is missed in its last millisecond")
	}
	x.now = x.now.Add(time.Millisecond)
	if got := x.read(); got.Contains(keys[1]) || !got.Contains(keys[0]) {
		t.Error("a key is found after its time")
	}
}

// The store keeps the string until its last key is forgotten.
func TestWindowExpires(t *testing.T) {
	x := newRig(t, seen.Config{})
	x.write(ascending(2), x.now, x.now.Add(-20*day))
	runs := x.read().Runs()
	for offset, there := range map[time.Duration]bool{-time.Millisecond: true, time.Millisecond: false} {
		x.now = runs[1].Forgotten.Add(offset)
		if (x.stored().Value != nil) != there {
			t.Errorf("%v after the last key is forgotten: stored %v", offset, !there)
		}
	}
}

// Runs of earlier parts are shortened at once.
func TestWindowShortensHistory(t *testing.T) {
	x := newRig(t, seen.Config{})
	x.write(randomHashes(rand.New(rand.NewPCG(1, 2)), 50), slices.Repeat([]time.Time{x.now.Add(-month / 2)}, 50)...)
	if runs := x.read().Runs(); len(runs) != 1 || runs[0].FalsePositiveRate < 0.001/6/2.1 {
		t.Errorf("%+v", runs)
	}
}

// If a write has more keys than Most, its last keys stay. A write that adds nothing evicts nothing,
// even if Most was lowered.
func TestWindowOfFewKeys(t *testing.T) {
	x, keys := newRig(t, seen.Config{Most: 16, FalsePositiveRate: 1e-9}), ascending(21)
	x.write(keys[:1])
	if _, evicted := x.write(keys); evicted != 4 {
		t.Errorf("%d evicted", evicted)
	}
	x.open(seen.Config{Most: 8, FalsePositiveRate: 1e-9})
	if fresh, evicted := x.write(keys[20:]); evicted != 0 || fresh[0] {
		t.Errorf("%d evicted, fresh %v", evicted, fresh)
	}
	got := x.read()
	for i, key := range keys {
		if got.Contains(key) != (i >= 4) {
			t.Errorf("key %d is found: %v", i, got.Contains(key))
		}
	}
}

// Times before 1970 belong to one part, which ends with 1969. A key without a time counts as added
// now.
func TestWindowBefore1970(t *testing.T) {
	x, start := newRig(t, seen.Config{}), time.Unix(0, 0).UTC()
	x.now = start.Add(time.Hour)
	x.write(ascending(4), start, start.Add(-time.Hour), start.Add(-7*day))
	runs := x.read().Runs()
	if len(runs) != 2 || runs[0].Keys != 2 || runs[1].Keys != 2 || !runs[0].Before.Equal(start) || !runs[1].From.Equal(start) {
		t.Errorf("%+v", runs)
	}
}
