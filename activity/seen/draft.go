package seen

import (
	"math"
	"slices"

	"github.com/feedfilter/feedfilter/favfilter"
)

// rules decide how long fingerprints are. The false-positive rates of all runs add up to at most
// the configured rate:
//
//   - New fingerprints have base bits while the sum stays below 83 % of the rate. It does for an
//     owner with half of the most keys.
//   - Beyond that, new fingerprints have fine bits. The maximum number of such keys takes 17 % of
//     the rate.
//   - Runs of generations that take no more keys are shortened, so that owners with few keys need
//     fewer bits per key. Shortening stops before the sum exceeds 70 % of the rate, and before a
//     generation takes more than the rate divided by the number of parts.
type rules struct {
	rate  float64
	most  int     // newest keys of one owner that stay
	split int     // maximum number of keys of a generation, and of keys beyond the most
	share float64 // maximum share of the rate for a generation whose runs are shortened
	base  uint8
	fine  uint8
}

const (
	// fineBits is the number of bits by which fine fingerprints are longer.
	fineBits = 3
	// splits is the minimum number of generations for Most keys of one owner.
	splits = 8

	baseShare  = 0.83
	shortShare = 0.7
)

func newRules(rate float64, most, parts int) rules {
	split := max(1, most/splits)
	fine := uint8(math.Ceil(math.Log2(float64(most+split-1) / ((1 - baseShare) * rate))))
	return rules{
		rate:  rate,
		most:  most,
		split: split,
		share: rate / float64(parts),
		fine:  fine,
		base:  max(1, fine-fineBits),
	}
}

// draft is a list of generations that is being changed.
//
// Each generation has keys that were added to one part, one after another. Keys of a later
// generation are newer: they are of a later part, or were added to the same part later. A key that
// is added again leaves its generation for the newest one of its part. So each fingerprint in the
// generations after a key's stands for at least one newer key, and no two for the same. A key with
// fewer than Most newer keys therefore stays when [draft.evict] removes the oldest generations.
type draft struct {
	rules

	read        *Window
	generations []generation // the oldest first
	changed     bool
}

// generation is a run for each length of its fingerprints.
type generation struct {
	before int64
	runs   []run
}

// rateOf returns the sum of the rates of runs.
func rateOf(runs []run) (rate float64) {
	for i := range runs {
		rate += runs[i].rate()
	}
	return rate
}

// draft returns a draft that starts with the keys of w. It does not change w.
func (r rules) draft(w *Window) *draft {
	d := &draft{rules: r, read: w}
	for _, r := range w.runs {
		if !r.joins {
			d.generations = append(d.generations, generation{before: r.before})
		}
		g := &d.generations[len(d.generations)-1]
		r.count = len(r.sorted)
		g.runs = append(g.runs, r)
	}
	return d
}

// add adds a key to the part that ends at before, unless a later part has it. It returns true if
// neither that part nor a later one had the key.
//
// If an older generation has a fingerprint of the key, the newest such fingerprint moves, with its
// length. A longer one of the key would not do: other keys may share the one that is there, and
// would be lost. To leave it there as well would take up the place of another key.
func (d *draft) add(key favfilter.Hash, before int64) (fresh bool) {
	end := len(d.generations)
	for end > 0 && d.generations[end-1].before > before {
		end--
	}
	at, r, i := d.find(key)
	ours := r != nil && d.generations[at].before == before
	if at >= end || ours && at == end-1 {
		return false
	}
	d.changed = true
	if r == nil {
		width := d.newWidth()
		d.open(end, before).put(width, fingerprint(key, width))
		return true
	}
	width, number := r.width, r.sorted[i]
	r.edit()
	r.set(slices.Delete(r.sorted, i, i+1))
	d.open(end, before).put(width, number)
	return !ours
}

// find returns the newest generation that has the key, the run, and the index of the fingerprint;
// -1 and a nil run if none has it.
func (d *draft) find(key favfilter.Hash) (at int, of *run, index int) {
	known := d.read.mayContain(key)
	for at = len(d.generations) - 1; at >= 0; at-- {
		for i := range d.generations[at].runs {
			r := &d.generations[at].runs[i]
			if !known && r.codes != nil {
				continue
			}
			if index, found := slices.BinarySearch(r.sorted, fingerprint(key, r.width)); found {
				return at, r, index
			}
		}
	}
	return -1, nil, 0
}

// newWidth returns the number of bits of a new fingerprint.
func (d *draft) newWidth() uint8 {
	if d.rates()+math.Ldexp(1, -int(d.base)) > baseShare*d.rate {
		return d.fine
	}
	return d.base
}

// open returns the generation that takes keys of the part that ends at before, which is the last
// one before index end. If it is full or of an earlier part, open adds one.
func (d *draft) open(end int, before int64) *generation {
	if end > 0 {
		if g := &d.generations[end-1]; g.before == before && g.keys() < d.split {
			return g
		}
	}
	d.generations = slices.Insert(d.generations, end, generation{before: before})
	return &d.generations[end]
}

// put adds fingerprints of the given length.
func (g *generation) put(width uint8, numbers ...uint64) {
	at := slices.IndexFunc(g.runs, func(r run) bool { return r.width == width })
	if at < 0 {
		g.runs = append(g.runs, run{width: width, count: len(numbers), sorted: slices.Clone(numbers)})
		return
	}
	r := &g.runs[at]
	r.edit()
	for _, number := range numbers {
		if i, found := slices.BinarySearch(r.sorted, number); !found {
			r.set(slices.Insert(r.sorted, i, number))
		}
	}
}

// keys returns the number of keys.
func (g *generation) keys() (keys int) {
	for i := range g.runs {
		keys += g.runs[i].count
	}
	return keys
}

// rates returns the sum of the rates of all runs.
func (d *draft) rates() (rate float64) {
	for i := range d.generations {
		rate += rateOf(d.generations[i].runs)
	}
	return rate
}

// edit must be called before each change of the fingerprints.
func (r *run) edit() {
	if r.codes != nil {
		r.sorted, r.codes = append(make([]uint64, 0, len(r.sorted)+8), r.sorted...), nil
	}
}

func (r *run) set(sorted []uint64) { r.sorted, r.count = sorted, len(sorted) }

// evict removes the oldest generations while the others have the most keys, and returns how many
// keys they had. Fewer keys than a generation has remain beyond the most.
func (d *draft) evict() (evicted int) {
	keys := 0
	for i := range d.generations {
		keys += d.generations[i].keys()
	}
	for len(d.generations) > 0 {
		oldest := d.generations[0].keys()
		if keys-oldest < d.most {
			break
		}
		keys, evicted = keys-oldest, evicted+oldest
		d.generations = d.generations[1:]
	}
	return evicted
}

// join joins generations of one part that fit into one. Keys that were added again have
// left them.
func (d *draft) join() {
	for at := len(d.generations) - 1; at > 0; at-- {
		g, next := &d.generations[at-1], &d.generations[at]
		if g.before != next.before || g.keys()+next.keys() > d.split {
			continue
		}
		for _, r := range next.runs {
			g.put(r.width, r.sorted...)
		}
		d.generations = slices.Delete(d.generations, at, at+1)
	}
}

// shorten shortens the fingerprints of generations, except the last one if its part ends at current
// or later. It starts with the longest. Each bit less doubles a run's share of the rate.
func (d *draft) shorten(current int64) {
	closed := d.generations
	if n := len(closed); n > 0 && closed[n-1].before >= current {
		closed = closed[:n-1]
	}
	for {
		var of *generation
		var at int
		var longest run
		for i := range closed {
			g := &closed[i]
			rate := rateOf(g.runs)
			for j, r := range g.runs {
				if r.width > max(1, longest.width) && rate+r.rate() <= d.share {
					of, at, longest = g, j, r
				}
			}
		}
		if of == nil || d.rates()+longest.rate() > shortShare*d.rate {
			return
		}
		of.halve(at)
	}
}

// halve removes the last bit of each fingerprint of a run.
func (g *generation) halve(at int) {
	r := g.runs[at]
	r.edit()
	for i := range r.sorted {
		r.sorted[i] >>= 1
	}
	g.runs = slices.Delete(g.runs, at, at+1)
	g.put(r.width-1, slices.Compact(r.sorted)...)
}

// finish drops empty runs, and encodes those that were changed.
func (d *draft) finish() {
	for i := range d.generations {
		g := &d.generations[i]
		g.runs = slices.DeleteFunc(g.runs, func(r run) bool { return r.count == 0 })
		for j := range g.runs {
			if r := &g.runs[j]; r.codes == nil {
				r.codes = appendRice(make([]byte, 0, 3*r.count), r.sorted, riceParameter(r.width, r.count))
			}
		}
	}
	d.generations = slices.DeleteFunc(d.generations, func(g generation) bool {
		return len(g.runs) == 0
	})
}
