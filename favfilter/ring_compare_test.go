package favfilter_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// comparison is the result of one stream through one forgetter.
type comparison struct {
	bytesPerKey  float64 // mean over time, of the keys within their window
	bytesRead    float64 // mean, by one feed: all of it
	written      float64 // bytes, by a batch
	swept        float64 // the same, by sweeps
	early        int     // keys missed within their window
	lateMean     float64 // % of the window that a key is kept longer
	lateWorst    float64 // the same of 99 in 100 keys: the last may be found wrongly
	wrong        float64 // share of absent keys found, all told
	worstWrong   float64 // the same in the worst tenth of a window
	insert, hit  float64 // ns a key
	miss         float64
	live, probes int
}

// sampled is a key that is watched until it is forgotten.
type sampled struct {
	key  favfilter.Hash
	from time.Time
}

// runner runs a stream through a forgetter.
type runner struct {
	testing.TB
	forgetter

	rng     *rand.Rand
	samples []sampled
	lates   []float64
	comparison
	inserts, hits, misses []float64 // ns a key, of one batch each
	sizes, writes, sweeps []float64
}

// compare runs a stream through a forgetter. It looks up absent keys every tenth of a window. It
// watches one key of each batch until the key is forgotten, to a 300th of a window.
func compare(t testing.TB, f forgetter, s stream) comparison {
	t.Helper()
	r := &runner{TB: t, forgetter: f, rng: rand.New(rand.NewPCG(4, 4))}
	const steps = 300
	next := 0
	for step := 0; next < len(s); step++ {
		now := s[0].Add(time.Duration(step) * (window / steps))
		for next < len(s) && !s[next].After(now) {
			r.insert20(s[next])
			next++
		}
		r.watch(now)
		if step%(steps/10) == 0 && step >= 2*steps { // after two windows
			r.look(now, s)
		}
	}
	r.finish()
	return r.comparison
}

// timed appends the time that do took per key.
func timed(to *[]float64, keys int, do func()) {
	start := time.Now()
	do()
	*to = append(*to, float64(time.Since(start).Nanoseconds())/float64(keys))
}

func (r *runner) insert20(now time.Time) {
	r.Helper()
	keys := make([]favfilter.Hash, batchKeys)
	for i := range keys {
		keys[i] = randomHash(r.rng)
	}
	r.sweeps = append(r.sweeps, float64(r.sweep(now)))
	written := 0
	timed(&r.inserts, len(keys), func() { written = r.forgetter.add(r.TB, keys, now) })
	r.writes = append(r.writes, float64(written))
	if len(r.samples) < 400 { // those watched at a time
		r.samples = append(r.samples, sampled{keys[0], now})
	}
}

// watch checks whether the keys near their end are still found.
func (r *runner) watch(now time.Time) {
	r.Helper()
	r.samples = slices.DeleteFunc(r.samples, func(s sampled) bool {
		age := now.Sub(s.from)
		if age < window*95/100 {
			return false
		}
		if r.find(r.TB, []favfilter.Hash{s.key}, now)[0] {
			return false
		}
		if age < window {
			r.early++
		}
		r.lates = append(r.lates, 100*float64(age-window)/float64(window))
		return true
	})
}

func (r *runner) look(now time.Time, s stream) {
	r.Helper()
	live := 0
	for _, at := range s {
		if !at.After(now) && now.Sub(at) < window {
			live += batchKeys
		}
	}
	size := float64(r.size(r.TB, now))
	if live > 0 {
		r.sizes = append(r.sizes, size)
		r.live += live
	}
	wrong := 0
	const probes = 5000
	strangers := make([]favfilter.Hash, probes)
	for i := range strangers {
		strangers[i] = randomHash(r.rng)
	}
	var found []bool
	timed(&r.misses, probes, func() { found = r.find(r.TB, strangers, now) })
	for _, is := range found {
		if is {
			wrong++
		}
	}
	r.probes += probes
	r.wrong += float64(wrong)
	r.worstWrong = max(r.worstWrong, float64(wrong)/probes)
	if len(r.samples) > 100 {
		known := make([]favfilter.Hash, 0, 500)
		for i := range 500 {
			known = append(known, r.samples[i%len(r.samples)].key)
		}
		timed(&r.hits, len(known), func() { r.find(r.TB, known, now) })
	}
}

func (r *runner) finish() {
	c := &r.comparison
	c.bytesPerKey = mean(r.sizes) * float64(len(r.sizes)) / float64(max(1, r.live))
	c.bytesRead, c.written, c.swept = mean(r.sizes), mean(r.writes), mean(r.sweeps)
	slices.Sort(r.lates)
	if n := len(r.lates); n > 0 {
		c.lateMean, c.lateWorst = mean(r.lates), r.lates[n*99/100]
	}
	c.wrong /= float64(max(1, r.probes))
	c.insert, c.hit, c.miss = median(r.inserts), median(r.hits), median(r.misses)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// median returns the median, which a busy machine does not distort.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// windowCase is a stream and the forgetter that it runs through.
type windowCase struct {
	stream, name string
	times        stream
	make         func(t testing.TB) forgetter
}

// windowCases returns the cases. Their cells know in advance how many keys there will be: as many
// as in the busiest window, or as in the mean one.
func windowCases(windows int) (cases []windowCase) {
	for _, of := range []struct {
		name  string
		times stream
	}{{"steady", steadyStream(windows)}, {"bursty", burstyStream(windows)}} {
		name, s := of.name, of.times
		parts := func(n int) func(testing.TB) forgetter {
			return func(t testing.TB) forgetter { t.Helper(); return newRingForgetter(t, n) }
		}
		ofCells := func(keys int, life int64) func(testing.TB) forgetter {
			return func(testing.TB) forgetter { return cellsForgetter{newCells(keys, life)} }
		}
		busiest := func(life int64) int { return s.most(window + window/time.Duration(life)) }
		cases = append(cases,
			windowCase{name, "6 parts", s, parts(6)},
			windowCase{name, "13 parts", s, parts(13)},
			windowCase{name, "cells of 6 ticks", s, ofCells(busiest(6), 6)},
			windowCase{name, "cells of 13 ticks", s, ofCells(busiest(13), 13)},
		)
		if name == "bursty" {
			cases = append(cases, windowCase{name, "cells of 13 ticks for the mean", s, ofCells(len(s)*batchKeys/windows*14/13, 13)})
		}
	}
	return cases
}

// BenchmarkWindows compares a Ring with cells, over 20 windows of one user's keys, 210 batches of
// 20 a window. An iteration is the whole stream: use -benchtime=1x.
func BenchmarkWindows(b *testing.B) {
	for _, c := range windowCases(20) {
		b.Run(c.stream+"/"+c.name, func(b *testing.B) {
			var r comparison
			for b.Loop() {
				r = compare(b, c.make(b), c.times)
			}
			b.ReportMetric(r.bytesPerKey, "B/live-key")
			b.ReportMetric(r.bytesRead, "B/read")
			b.ReportMetric(r.written, "B/write")
			b.ReportMetric(r.swept, "B/sweep")
			b.ReportMetric(float64(r.early), "early")
			b.ReportMetric(r.lateMean, "%late")
			b.ReportMetric(r.lateWorst, "%late-worst")
			b.ReportMetric(100*r.wrong, "%wrong")
			b.ReportMetric(100*r.worstWrong, "%wrong-worst")
			b.ReportMetric(r.insert, "ns/insert")
			b.ReportMetric(r.hit, "ns/hit")
			b.ReportMetric(r.miss, "ns/miss")
		})
	}
}

// TestWindowsCompared asserts the result for which the comparison is cited. Both structures meet
// their guarantees; parts take less memory, and cells forget closer to the time.
func TestWindowsCompared(t *testing.T) {
	results := make(map[string]comparison)
	for _, c := range windowCases(5) {
		r := compare(t, c.make(t), c.times)
		results[c.stream+" "+c.name] = r
		t.Logf("%s, %s: %+v", c.stream, c.name, r)
		sized := c.name != "cells of 13 ticks for the mean"
		if r.early > 0 || r.probes < 100_000 || sized && r.wrong > windowRate {
			t.Errorf("%s, %s: %d forgotten early, %g of %d absent found", c.stream, c.name, r.early, r.wrong, r.probes)
		}
	}
	for _, name := range []string{"steady", "bursty"} {
		parts, ticks := results[name+" 6 parts"], results[name+" cells of 13 ticks"]
		if parts.bytesPerKey > ticks.bytesPerKey {
			t.Errorf("%s: a key takes %g bytes in parts, %g in cells", name, parts.bytesPerKey, ticks.bytesPerKey)
		}
		if parts.lateWorst < ticks.lateWorst {
			t.Errorf("%s: parts are %g %% late, cells %g %%", name, parts.lateWorst, ticks.lateWorst)
		}
	}
}
