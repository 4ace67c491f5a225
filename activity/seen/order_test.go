package seen_test

import (
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

// placed is a key of a model, and the end of its part.
type placed struct {
	key favfilter.Hash
	end time.Time
	// gone: its part was forgotten at some moment. If the clock then goes back, a window that was not
	// written in between has the key again. So it may be one of the newest, or missing.
	gone bool
}

// A window has at least its Most newest keys, and at most an eighth more. The newest are those of
// the newest part, and in a part those that were added last. Keys are forgotten with their part.
// This holds at any false-positive rate, for keys that are added again, for history in any order,
// and when clocks go back by less than Length.
func TestWindowModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		config := seen.Config{
			Length: time.Hour, Parts: rapid.SampledFrom([]int{1, 3, 6}).Draw(r, "parts"),
			Most:              rapid.SampledFrom([]int{1, 5, 16, 40, 200}).Draw(r, "most"),
			FalsePositiveRate: rapid.SampledFrom([]float64{1e-9, 0.0005, 0.05, 0.5}).Draw(r, "rate"),
		}
		exact := config.FalsePositiveRate < 1e-6 // absent keys are not found
		part := config.Length / time.Duration(config.Parts)
		x := newRig(r, config)
		end := func(t time.Time) time.Time { return t.Truncate(part).Add(part) }
		rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(r, "seed")))
		keys := randomHashes(rng, config.Most*rapid.IntRange(1, 4).Draw(r, "keys for each of most"))
		var model []placed                       // the oldest first
		latest := map[favfilter.Hash]time.Time{} // the end of the last part that a key was in
		forgotten := func(end time.Time) bool { return !end.Add(config.Length).After(x.now) }
		highest := x.now
		check := func() *seen.Window {
			got := x.read()
			if got.Keys() > config.Most+config.Most/8 {
				r.Fatalf("%d keys, of at most %d", got.Keys(), config.Most)
			}
			if sum := rateOf(got); sum > config.FalsePositiveRate {
				r.Fatalf("a rate of %g", sum)
			}
			for i := range min(len(model), config.Most) {
				if p := model[len(model)-1-i]; !p.gone && !got.Contains(p.key) {
					r.Fatalf("the key of %v is missed, the newest but %d of %d", p.end, i, len(model))
				}
			}
			for _, key := range keys {
				if exact && forgotten(latest[key]) && got.Contains(key) {
					r.Fatalf("a key of %v is found at %v", latest[key], x.now)
				}
			}
			return got
		}
		for range rapid.IntRange(1, 30).Draw(r, "writes") {
			x.now = x.now.Add(time.Duration(rapid.IntRange(-10, 20).Draw(r, "minutes")) * time.Minute)
			if lowest := highest.Add(time.Minute - config.Length); x.now.Before(lowest) {
				x.now = lowest
			}
			if x.now.After(highest) {
				highest = x.now
			}
			for i, p := range model {
				model[i].gone = p.gone || forgotten(p.end)
			}
			read := check()
			var added []favfilter.Hash
			var times []time.Time
			var has, lacks []int // indexes of added keys that the window has, and lacks, for sure
			history := rapid.Bool().Draw(r, "history")
			newest := end(x.now)
			if n := len(model); n > 0 && model[n-1].end.After(newest) {
				newest = model[n-1].end
			}
			for i := range rapid.IntRange(1, max(2, config.Most/2)).Draw(r, "keys") {
				p := placed{key: keys[rng.IntN(len(keys))], end: newest}
				added = append(added, p.key)
				if history {
					since := x.now.Add(-time.Duration(rng.Int64N(int64(2 * config.Length))))
					times = append(times, since)
					if end(since).Before(end(x.now)) {
						p.end = end(since)
					}
				}
				known := slices.IndexFunc(model, func(m placed) bool { return m.key == p.key && !m.gone })
				switch {
				case forgotten(p.end):
					has = append(has, i) // or is too old
					continue
				case known >= len(model)-config.Most && known >= 0 && !model[known].end.Before(p.end):
					has = append(has, i)
				case forgotten(latest[p.key]):
					lacks = append(lacks, i)
				}
				if latest[p.key].Before(p.end) {
					latest[p.key] = p.end
				}
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
			if !history && rapid.Bool().Draw(r, "just read") {
				before := containsEach(read, keys)
				must(r, read.Add(r.Context(), added))
				if !slices.Equal(containsEach(read, keys), before) {
					r.Fatal("a write changes what was read")
				}
			} else {
				fresh, _ := x.write(added, times...)
				isFresh := func(i int) bool { return fresh[i] }
				if slices.ContainsFunc(has, isFresh) || exact && len(slices.DeleteFunc(lacks, isFresh)) > 0 {
					r.Fatalf("fresh are %v, but not %v, and of the others %v", fresh, has, lacks)
				}
			}
			check()
		}
	})
}

// containsEach reports which keys w has.
func containsEach(w *seen.Window, keys []favfilter.Hash) []bool {
	found := make([]bool, len(keys))
	for i, key := range keys {
		found[i] = w.Contains(key)
	}
	return found
}
