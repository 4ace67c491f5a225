package favfilter_test

import (
	"math"
	"math/rand/v2"

	"github.com/feedfilter/feedfilter/favfilter"
)

// geometry is the subject of a simulation: how pages are shaped, and when they are rebuilt.
type geometry struct {
	rate     float64 // maximum false-positive rate of a key
	hashes   uint8
	region   uint16
	headroom float64 // number of keys that a new page has room for, in multiples of those it holds
	least    int     // number of bits that a removal must clear; pages demand 3
}

// shape returns the shape of a page that is rebuilt for the given number of keys.
func (g geometry) shape(keys int) favfilter.Shape {
	s := favfilter.Shape{Hashes: g.hashes, Region: g.region}
	perKey := float64(g.hashes) / g.load()
	length := max(314, favfilter.HeaderBytes+int(math.Ceil(perKey*float64(int(float64(keys)*g.headroom)+1)/8)))
	size := sizeClass(length + stringOverhead(length))
	length = size - stringOverhead(size-stringOverhead(size)) // the whole block
	s.Bits = 8 * uint32(length-favfilter.HeaderBytes)
	return s
}

// load returns the number of hash values per bit of a full page.
func (g geometry) load() float64 { return -math.Log1p(-math.Pow(g.rate, 1/float64(g.hashes))) }

// perKey returns the number of bits per key in a full page, including collision bits.
func (g geometry) perKey() float64 {
	return float64(g.hashes) / g.load() * (1 + 1/float64(g.region))
}

// keyBytes is about what Redis uses for a key beside the block of its value: for name, object and
// entry.
const keyBytes = 100

// bytesOf returns the memory that both strings of a page take in Redis.
func bytesOf(p *favfilter.Page) int {
	raw, collisions := p.Encode()
	return sizeClass(len(raw)+stringOverhead(len(raw))) + sizeClass(len(collisions)+stringOverhead(len(collisions))) + 2*keyBytes
}

// life is a page of a caller that follows a ledger. It is rebuilt when a removal could clear too
// few bits, when it is full, and when it is far too large. There is no background maintenance.
type life struct {
	geometry

	rng     *rand.Rand
	where   favfilter.Header // identity and number of the page
	page    *favfilter.Page
	live    []favfilter.Hash
	removed []favfilter.Hash // in the order of removal
	tally
}

// tally counts events.
type tally struct {
	adds, removals        int
	jammed, full, shrunk  int     // rebuilt pages, by reason
	bare                  int     // removals that could clear no bit at all
	stuck                 int     // removals after which the key is still reported
	looked, late          int     // keys looked up a tenth of the page's keys after their removal, and those reported
	rates, worst, changes float64 // false-positive rate after each change: sum and highest
}

func newLife(g geometry, seed uint64) *life {
	l := &life{geometry: g, rng: rand.New(rand.NewPCG(seed, 11)), where: favfilter.Header{Identity: favfilter.Identity{Pages: 1}}}
	l.anew()
	return l
}

func (l *life) anew() {
	for keys := len(l.live); ; {
		h := l.where
		h.Shape = l.shape(keys)
		page, err := favfilter.NewPage(h)
		if err != nil {
			panic(err) // the geometry is out of range
		}
		for _, h := range l.live {
			page.Insert(h)
		}
		if l.page = page; page.Header().Set <= h.Shape.Limit(l.rate) {
			return
		}
		keys = max(keys, h.Shape.Capacity(l.rate)) + 1
	}
}

func (l *life) add() { l.put(randomHash(l.rng)) }

func (l *life) put(h favfilter.Hash) {
	l.live = append(l.live, h)
	l.page.Insert(h)
	l.adds++
	l.changed()
}

func (l *life) remove() { l.take(l.rng.IntN(len(l.live))) }

// take removes the i-th live key.
func (l *life) take(i int) {
	h := l.live[i]
	l.live[i] = l.live[len(l.live)-1]
	l.live = l.live[:len(l.live)-1]
	own, all := clearable(l.page, h)
	if own == 0 {
		l.bare++
	}
	if own < l.least && own < all || own == 0 {
		l.jammed++
		l.anew()
	} else {
		l.page.Remove(h)
	}
	l.removals++
	if l.page.Contains(h) {
		l.stuck++
	}
	l.removed = append(l.removed, h)
	if lag := len(l.live) / 10; len(l.removed) > lag {
		l.looked++
		if l.page.Contains(l.removed[len(l.removed)-1-lag]) {
			l.late++
		}
	}
	l.changed()
}

// changed rebuilds the page if it has the wrong size.
func (l *life) changed() {
	h := l.page.Header()
	switch {
	case h.Set > h.Shape.Limit(l.rate):
		l.full++
		l.anew()
	case int(h.Count) < h.Shape.Capacity(l.rate)/3 && l.shape(len(l.live)).Bits <= h.Shape.Bits/4:
		l.shrunk++
		l.anew()
	}
	rate := l.page.FalsePositiveRate()
	l.rates += rate
	l.worst = max(l.worst, rate)
	l.changes++
}

// clearable returns how many bits of h no other key can share, and how many bits h has in all.
func clearable(p *favfilter.Page, h favfilter.Hash) (own, all int) {
	t := p.Trace(h)
	return t.Clearable, len(t.Positions)
}

// figures are the results of a simulation.
type figures struct {
	growth, churn, shrink tally
	grown, churned        float64 // bytes per activity in Redis, after growth and after churn
	waits                 float64 // removals that need a rebuild under churn, of 1,000, on the fullest page
}

// simulatedSizes returns numbers of keys per page, spread over the size classes.
func simulatedSizes() []int {
	const n, least = 7, 2000
	var sizes []int
	for i := range n {
		sizes = append(sizes, int(least*math.Exp2((float64(i)+0.5)/n)))
	}
	return sizes
}

// simulate lets pages grow, replaces half of their keys, and removes three quarters of them.
func simulate(g geometry) figures {
	var f figures
	sizes := simulatedSizes()
	for i, keys := range sizes {
		l := newLife(g, uint64(i))
		phase := func(sum *tally, steps int, step func()) tally {
			l.tally = tally{}
			for range steps {
				step()
			}
			sum.add(l.tally)
			return l.tally
		}
		phase(&f.growth, keys, l.add)
		f.grown += float64(bytesOf(l.page)) / float64(keys) / float64(len(sizes))
		churn := phase(&f.churn, keys/2, func() { l.remove(); l.add() })
		f.waits = max(f.waits, perThousand(churn.jammed, churn.removals))
		f.churned += float64(bytesOf(l.page)) / float64(keys) / float64(len(sizes))
		phase(&f.shrink, keys*3/4, l.remove)
	}
	return f
}

func (t *tally) add(o tally) {
	t.adds, t.removals = t.adds+o.adds, t.removals+o.removals
	t.jammed, t.full, t.shrunk = t.jammed+o.jammed, t.full+o.full, t.shrunk+o.shrunk
	t.bare, t.stuck = t.bare+o.bare, t.stuck+o.stuck
	t.looked, t.late = t.looked+o.looked, t.late+o.late
	t.rates, t.worst, t.changes = t.rates+o.rates, max(t.worst, o.worst), t.changes+o.changes
}

func perThousand(n, of int) float64 { return 1000 * float64(n) / float64(max(1, of)) }

// fullest returns the largest number of keys, from keys on, for which a page has the same shape.
func (g geometry) fullest(keys int) int {
	for g.shape(keys+1) == g.shape(keys) {
		keys++
	}
	return keys
}
