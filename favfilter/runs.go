package favfilter

import (
	"math"
	"math/bits"
	"slices"
)

// runRules decide how long fingerprints are. The false-positive rates of all runs add up to at most
// the configured rate:
//
//   - New fingerprints have base bits while the sum stays below 85 % of the rate. It does for an
//     owner with half of the most keys.
//   - Beyond that, new fingerprints have fine bits. The maximum number of such keys takes 15 % of
//     the rate.
//   - Runs that take no more keys are shortened, so that owners with few keys need fewer bits per
//     key. Shortening stops before the sum exceeds 70 % of the rate, and before a run takes more
//     than the rate divided by the number of parts.
type runRules struct {
	rate  float64
	most  int     // keys of one owner
	split int     // maximum number of keys of a run; evictions from a longer run would lose the order
	share float64 // maximum share of the rate for a shortened run
	base  uint8
	fine  uint8
}

const (
	// fineBits is the number of bits by which fine fingerprints are longer.
	fineBits = 3
	// splits is the minimum number of runs for Most keys of one owner.
	splits = 8

	baseShare  = 0.85
	shortShare = 0.7
)

func newRunRules(rate float64, most, parts int) runRules {
	fine := uint8(math.Ceil(math.Log2(float64(most) / ((1 - baseShare) * rate))))
	return runRules{
		rate: rate, most: most, split: max(1, most/splits), share: rate / float64(parts), fine: fine, base: max(1, fine-fineBits),
	}
}

// draft is a list of runs that is being changed.
type draft struct {
	runRules

	runs    []draftRun
	sum     float64 // of the rates of the runs
	keys    int
	changed bool
}

// draftRun is a run of a draft.
type draftRun struct {
	run

	sorted  []uint64 // the fingerprints; nil: not decoded
	changed bool     // codes are outdated
}

func rateOf(runs []run) (rate float64) {
	for _, r := range runs {
		rate += r.rate()
	}
	return rate
}

// draft returns a draft that starts with runs, the oldest first. It does not change them.
func (rules runRules) draft(runs []run) *draft {
	d := &draft{runRules: rules, runs: make([]draftRun, len(runs), len(runs)+1), sum: rateOf(runs)}
	for i, r := range runs {
		d.runs[i].run = r
		d.keys += r.count
	}
	return d
}

// decode decodes the run for a change or a lookup. A run whose codes are not valid has no keys.
func (d *draft) decode(r *draftRun) {
	if r.sorted != nil {
		return
	}
	r.sorted = r.run.decode(make([]uint64, 0, r.count+8))
	if invalid := r.count - len(r.sorted); invalid > 0 {
		d.sum -= r.rate()
		d.keys -= invalid
		r.count = 0
	}
}

// add adds a key to the part that ends at before. It returns false, and adds nothing, if that part
// or a later one has the key.
func (d *draft) add(key Hash, before int64) (fresh bool) {
	at := len(d.runs)
	for ; at > 0 && d.runs[at-1].before >= before; at-- {
		r := &d.runs[at-1]
		d.decode(r)
		if _, found := slices.BinarySearch(r.sorted, fingerprint(key, r.width)); found {
			return false
		}
	}
	d.insert(key, d.runFor(at, before))
	return true
}

// runFor returns the last run of the part that ends at before. at is the index of the part's first
// run, or where it belongs. If the last run takes no more keys, runFor adds another one.
func (d *draft) runFor(at int, before int64) *draftRun {
	end := at
	for end < len(d.runs) && d.runs[end].before == before {
		end++
	}
	room := baseShare * d.rate
	if end > at {
		r := &d.runs[end-1]
		if r.count < d.split && (r.width >= d.fine || d.sum+math.Ldexp(1, -int(r.width)) <= room) {
			return r
		}
	}
	width := d.base
	if d.sum+math.Ldexp(1, -int(width)) > room {
		width = d.fine
	}
	d.runs = slices.Insert(d.runs, end, draftRun{run: run{before: before, width: width}, sorted: make([]uint64, 0, 8)})
	return &d.runs[end]
}

// insert inserts the key into the run.
func (d *draft) insert(key Hash, r *draftRun) {
	number := fingerprint(key, r.width)
	at, _ := slices.BinarySearch(r.sorted, number)
	r.sorted = slices.Insert(r.sorted, at, number)
	r.count++
	r.changed = true
	d.keys++
	d.sum += math.Ldexp(1, -int(r.width))
	d.changed = true
}

// evict removes the oldest keys until there are no more than the most, and returns how many.
func (d *draft) evict() (evicted int) {
	for d.keys > d.most {
		r := &d.runs[0]
		surplus := d.keys - d.most
		if surplus < r.count {
			d.decode(r)
		}
		surplus = min(surplus, r.count)
		evicted += surplus
		d.keys -= surplus
		d.sum -= math.Ldexp(float64(surplus), -int(r.width))
		if surplus == r.count {
			d.runs = d.runs[1:]
			continue
		}
		r.sorted = r.sorted[surplus:]
		r.count -= surplus
		r.changed = true
	}
	return evicted
}

// shorten shortens the fingerprints of runs, except the last run if its part ends at current. It
// starts with the longest. Each bit less doubles the run's share of the rate.
func (d *draft) shorten(current int64) {
	closed := d.runs
	if n := len(closed); n > 0 && closed[n-1].before >= current {
		closed = closed[:n-1]
	}
	for {
		var longest *draftRun
		for i := range closed {
			if r := &closed[i]; 2*r.rate() <= d.share && r.width > 1 && (longest == nil || r.width > longest.width) {
				longest = r
			}
		}
		if longest == nil || d.sum+longest.rate() > shortShare*d.rate {
			return
		}
		d.halve(longest)
	}
}

// halve removes the last bit of each fingerprint of the run.
func (d *draft) halve(r *draftRun) {
	d.decode(r)
	before := r.run.rate()
	for i := range r.sorted {
		r.sorted[i] >>= 1
	}
	d.keys -= r.count
	r.sorted = slices.Compact(r.sorted)
	r.width--
	r.count = len(r.sorted)
	r.changed = true
	d.keys += r.count
	d.sum += r.run.rate() - before
}

// encode returns the runs.
func (d *draft) encode() []run {
	runs := make([]run, 0, len(d.runs))
	for i := range d.runs {
		r := &d.runs[i]
		if r.changed {
			r.codes = appendRice(make([]byte, 0, 3*r.count), r.sorted, riceParameter(r.width, r.count))
		}
		if r.count > 0 {
			runs = append(runs, r.run)
		}
	}
	return runs
}

// log2Ceil returns the least number of bits that has n values.
func log2Ceil(n int) int { return bits.Len(uint(max(n, 1) - 1)) }
