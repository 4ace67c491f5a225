package seen_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// windowRate is the share of absent keys that the service reports of one window by default.
const windowRate = 0.0005

// numbered returns the keys s<from> to s<to-1>.
func numbered(from, to int) []string {
	var keys []string
	for i := from; i < to; i++ {
		keys = append(keys, fmt.Sprint("s", i))
	}
	return keys
}

// wantAll checks that the owner has all the keys.
func wantAll(t *testing.T, w *seen.Windows, owner string, keys []string) {
	t.Helper()
	found, err := w.Contains(t.Context(), owner, keys...)
	if err != nil {
		t.Fatal(err)
	}
	missed, first := 0, ""
	for i, key := range keys {
		if !found[i] {
			missed, first = missed+1, cmp.Or(first, key)
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d keys of %s are missed, the first is %s", missed, len(keys), owner, first)
	}
}

// addKeys adds keys of an owner, 500 at a time.
func addKeys(t *testing.T, w *seen.Windows, owner string, keys []string) {
	t.Helper()
	for batch := range slices.Chunk(keys, 500) {
		if _, err := w.Add(t.Context(), owner, batch...); err != nil {
			t.Fatal(err)
		}
	}
}

// A key that is added again is one of the newest, in whatever part it was added before.
func TestWindowKeyAddedAgain(t *testing.T) {
	for _, pause := range []time.Duration{0, month / 3} {
		x := newRig(t, seen.Config{FalsePositiveRate: windowRate})
		w := x.windows
		addKeys(t, w, "U1", numbered(0, 9000))
		x.now = x.now.Add(pause)
		addKeys(t, w, "U1", numbered(0, 10))
		addKeys(t, w, "U1", numbered(9000, 12_000))
		wantAll(t, w, "U1", append(numbered(0, 10), numbered(2010, 12_000)...))
		for range 6 { // the same keys, again and again, do not evict others
			addKeys(t, w, "U1", numbered(7000, 12_000))
		}
		wantAll(t, w, "U1", append(numbered(0, 10), numbered(2010, 12_000)...))
	}
}

// After the clock was set back to an earlier part, keys that are added are the newest.
func TestWindowClockSetBack(t *testing.T) {
	x := newRig(t, seen.Config{FalsePositiveRate: windowRate})
	x.now = time.Unix(0, 0).Add(4000 * (month / 6)) // the start of a part
	w := x.windows
	addKeys(t, w, "U1", numbered(0, 20_000))
	x.now = x.now.Add(-time.Second)
	addKeys(t, w, "U1", numbered(20_000, 21_000))
	wantAll(t, w, "U1", numbered(11_000, 21_000))
	x.now = x.now.Add(time.Second)
	addKeys(t, w, "U1", numbered(21_000, 21_500))
	wantAll(t, w, "U1", numbered(11_500, 21_500))
	keys := randomHashes(rand.New(rand.NewPCG(1, 2)), 20_050)
	x.write(keys[:20_000])
	x.now = x.now.Add(-time.Second)
	x.write(keys[20_000:], slices.Repeat([]time.Time{x.now.Add(-time.Minute)}, 50)...) // in the part that the clock shows
	got := x.read()
	for _, key := range keys[20_000:] {
		if !got.Contains(key) {
			t.Fatal("a key that was just added is missed")
		}
	}
}

// Keys that are added again leave few behind in each generation. Those still take few runs.
func TestWindowRunsAreFew(t *testing.T) {
	x, rng := newRig(t, seen.Config{Most: 800, FalsePositiveRate: windowRate}), rand.New(rand.NewPCG(1, 2))
	again, rest := randomHashes(rng, 99), randomHashes(rng, 700)
	for _, key := range rest { // each in a generation of its own
		x.write(append(again, key))
	}
	got := x.read()
	for _, key := range append(again, rest...) {
		if !got.Contains(key) {
			t.Fatal("a key is missed")
		}
	}
	if n := len(got.Runs()); n < 8 || n > 32 { // two neighbours are not joined if one is half full
		t.Errorf("%d keys in %d runs", got.Keys(), n)
	}
}

// placed is a key of a model, the end of its part, and how many keys were added before.
type placed struct {
	key favfilter.Hash
	end time.Time
	seq int
}

// A window has at least its Most newest keys, and at most an eighth more. The newest are those of
// the newest part, and in a part those that were added last. This holds at any false-positive rate,
// for keys that are added again, for history in any order, and when clocks go back.
func TestWindowOrderModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		config := seen.Config{
			Length: time.Hour, Parts: rapid.SampledFrom([]int{1, 3, 6}).Draw(r, "parts"),
			Most:              rapid.SampledFrom([]int{1, 5, 16, 40, 200}).Draw(r, "most"),
			FalsePositiveRate: rapid.SampledFrom([]float64{1e-9, 0.0005, 0.05, 0.5}).Draw(r, "rate"),
		}
		part := config.Length / time.Duration(config.Parts)
		x := newRig(r, config)
		end := func(t time.Time) time.Time { return t.Truncate(part).Add(part) }
		rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(r, "seed")))
		keys := randomHashes(rng, config.Most*rapid.IntRange(1, 4).Draw(r, "keys for each of most"))
		var model []placed // the oldest first
		seq := 0
		for range rapid.IntRange(1, 30).Draw(r, "writes") {
			minutes := rapid.IntRange(-10, 20).Draw(r, "minutes")
			x.now = x.now.Add(time.Duration(minutes) * time.Minute)
			model = slices.DeleteFunc(model, func(p placed) bool { return !p.end.Add(config.Length).After(x.now) })
			var added []favfilter.Hash
			var times []time.Time
			history := rapid.Bool().Draw(r, "history")
			newest := end(x.now)
			if n := len(model); n > 0 && model[n-1].end.After(newest) {
				newest = model[n-1].end
			}
			for range rapid.IntRange(1, max(2, config.Most/2)).Draw(r, "keys") {
				p := placed{keys[rng.IntN(len(keys))], newest, seq}
				seq++
				added = append(added, p.key)
				if history {
					since := x.now.Add(-time.Duration(rng.Int64N(int64(config.Length))))
					times = append(times, since)
					if end(since).Before(end(x.now)) {
						p.end = end(since)
					}
				}
				known := slices.IndexFunc(model, func(m placed) bool { return m.key == p.key })
				if known >= 0 && model[known].end.After(p.end) {
					continue
				}
				if known >= 0 {
					model = slices.Delete(model, known, known+1)
				}
				after := len(model)
				for after > 0 && model[after-1].end.After(p.end) {
					after--
				}
				model = slices.Insert(model, after, p)
			}
			x.write(added, times...)
			got := x.read()
			if got.Keys() > config.Most+config.Most/8 {
				r.Fatalf("%d keys, of at most %d", got.Keys(), config.Most)
			}
			if sum := rateOf(got); sum > config.FalsePositiveRate {
				r.Fatalf("a rate of %g", sum)
			}
			for i := range min(len(model), config.Most) {
				if p := model[len(model)-1-i]; !got.Contains(p.key) {
					r.Fatalf("the key of %v is missed, the newest but %d of %d", p.end, i, len(model))
				}
			}
		}
	})
}
