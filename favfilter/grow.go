package favfilter

import (
	"math"
	"slices"
)

// A page grows so that it takes any number of keys within a false-positive rate (scalable Bloom
// filters, Almeida, Baquero, Preguiça and Hutchison, 2007). When its newest layer is full, it gets
// another one for twice as many keys. The rate is divided between the layers: the first layer gets
// half of it, and each further layer half as much as the previous one. All layers together never
// exceed the rate.

// addWithin adds those keys of a batch that are absent, and appends their outcomes. No key takes
// the page past the rate, with the marks of the batch; 0: no limit.
func (p *Page) addWithin(b Batch, outcomes []Outcome) []Outcome {
	rate := b.Rate
	limit := p.limit(rate)
	for _, h := range b.Add {
		full := p.newest().isFull(limit, h, b.Marks)
		switch {
		case p.Contains(h):
			outcomes = append(outcomes, Present)
			continue
		case full && !p.growFor(rate):
			outcomes = append(outcomes, Full)
			continue
		case full:
			limit = p.limit(rate)
		}
		p.Insert(h)
		outcomes = append(outcomes, Added)
	}
	return outcomes
}

// growFor appends a layer for twice as many keys as the newest one. It returns false if the page
// has [MaxLayers] layers, or would have more than [MaxBits] bits in all.
func (p *Page) growFor(rate float64) bool {
	n := len(p.layers)
	if n == MaxLayers {
		return false
	}
	capacity := 2 * p.newest().shape.Capacity(layerRate(rate, n-1))
	before, most := len(p.raw)+layerBytes, MaxBits-p.totalBits()
	region := p.header.Shape.Region
	shape, err := shapeAfter(before, most, max(1, capacity), layerRate(rate, n), region)
	if err != nil {
		return false
	}
	p.grow(shape)
	return true
}

// grow appends an empty layer.
func (p *Page) grow(s Shape) {
	s.Uniform = p.header.Shape.Uniform
	p.raw = slices.Concat(p.raw, make([]byte, layerBytes+int(s.Bits/8)))
	if p.collisions != nil {
		p.collisions = slices.Concat(p.collisions, make([]byte, s.collisionBytes()))
	}
	p.layers = append(p.layers, layer{shape: s})
	p.header.Grown++
	p.attach()
	p.stale = true
}

// layerRate returns the share of a page's rate that layer i, counted from 0, may have.
func layerRate(rate float64, i int) float64 {
	return math.Ldexp(rate, -i-1)
}

// limit returns the number of set bits that the newest layer may have.
func (p *Page) limit(rate float64) uint32 {
	return limitOf(p.newest().shape, rate, len(p.layers)-1)
}

// limitOf returns the number of set bits that layer i of a page may have.
func limitOf(s Shape, rate float64, i int) uint32 {
	if rate == 0 {
		return math.MaxUint32
	}
	return s.Limit(layerRate(rate, i))
}

// isFull reports whether the key and marks could take the layer to its limit.
func (l *layer) isFull(limit uint32, h Hash, marks []Hash) bool {
	after := uint64(l.set) + uint64(l.shape.most(h.Extra))
	for i := range marks {
		after += uint64(l.shape.most(marks[i].Extra))
	}
	return after >= uint64(limit)
}
