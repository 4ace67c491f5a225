package favfilter

import (
	"fmt"
	"math"
)

// Scaling says how a page grows that takes any number of keys within a false-positive
// rate: when its newest layer is full, it gets another one, for twice as many keys. The rate is
// shared out between the layers, a half to the first and to each later one half as much
// as to the one before, so that all of them together never exceed it.
//
// A lookup takes longer with each layer: a page made for the right number of keys is faster,
// and smaller.
type Scaling struct {
	// FalsePositiveRate is the share of absent keys that the page as a whole reports, at
	// most: 1e-11 to 0.5.
	FalsePositiveRate float64

	// Region is the region size in bits of the pages made; 0: keys are never removed from
	// them, so that the best number of bits for a key is larger, and that of all bits smaller.
	Region uint16
}

// First returns the shape of a page that holds capacity keys before it grows. It fails
// where that is negative or takes more than [MaxBits], and where the rate is out of range.
func (s Scaling) First(capacity int) (Shape, error) {
	if err := checkRate(s.FalsePositiveRate); err != nil {
		return Shape{}, fmt.Errorf("shape a page: %w", err)
	}
	shape, err := shapeBehind(HeaderBytes, MaxBits, capacity, layerRate(s.FalsePositiveRate, 0), s.Region)
	if err != nil {
		return Shape{}, fmt.Errorf("shape a page: %w", err)
	}
	return shape, nil
}

// Next returns the shape of the layer that p is to get when its newest one is full. It
// fails where p can grow no further: past [MaxLayers], and past [MaxBits] in all. Its region
// size is that of p.
func (s Scaling) Next(p *Page) (Shape, error) {
	if len(p.layers) == MaxLayers {
		return Shape{}, fmt.Errorf("shape layer %d of page %d: %d are the most", MaxLayers, p.header.Number, MaxLayers)
	}
	n := len(p.layers)
	capacity := 2 * p.newest().shape.Capacity(layerRate(s.FalsePositiveRate, n-1))
	shape, err := shapeBehind(
		len(p.raw)+layerBytes, MaxBits-p.totalBits(), max(1, capacity), layerRate(s.FalsePositiveRate, n), p.header.Shape.Region)
	if err != nil {
		return Shape{}, fmt.Errorf("shape layer %d of page %d: %w", n, p.header.Number, err)
	}
	return shape, nil
}

// Full reports whether the newest layer of p has as many bits set as its share of the rate
// allows.
func (s Scaling) Full(p *Page) bool {
	return p.newest().set >= p.limit(s.FalsePositiveRate, true)
}

// Add puts the key in as [Page.Add] does, and grows p before if its newest layer is full.
// Where p can grow no further, its newest layer takes what the others have left of the
// rate; then the key is [Full], and nothing has changed. [Page.Apply] adds many keys in less
// time, and raises the page's sequence.
func (s Scaling) Add(p *Page, h Hash) Outcome {
	in := newIntake(p, s.FalsePositiveRate, true)
	return in.add(h)
}

// grow appends the next layer to p.
func (s Scaling) grow(p *Page) error {
	shape, err := s.Next(p)
	if err != nil {
		return err
	}
	return p.Grow(shape)
}

// layerRate is the share of a page's rate that layer i, from 0, may have.
func layerRate(rate float64, i int) float64 {
	return math.Ldexp(rate, -i-1)
}

// intake puts keys in a page within a rate.
type intake struct {
	page  *Page
	rate  float64 // 0: any
	grow  bool    // the page may get more layers
	limit uint32  // of the newest layer
}

func newIntake(p *Page, rate float64, grow bool) intake {
	return intake{p, rate, grow, p.limit(rate, grow)}
}

func (in *intake) add(h Hash) Outcome {
	if in.page.Contains(h) {
		return Present
	}
	if in.grow && in.page.newest().set >= in.limit {
		in.grow = Scaling{FalsePositiveRate: in.rate}.grow(in.page) == nil
		in.limit = in.page.limit(in.rate, in.grow)
	}
	if in.page.newest().set >= in.limit {
		return Full
	}
	return in.page.Insert(h)
}

// limit is the number of set bits from which on the newest layer takes no more keys: by
// its share of the rate where the page may grow, by what the others have left of it where it
// may not.
func (p *Page) limit(rate float64, grow bool) uint32 {
	if rate == 0 {
		return math.MaxUint32
	}
	n := len(p.layers) - 1
	if grow {
		return p.layers[n].shape.room(layerRate(rate, n))
	}
	left := rate
	for i := range n {
		used := p.layers[i].shape.rate(p.layers[i].set)
		if used >= left {
			return 0
		}
		left = (left - used) / (1 - used)
	}
	return p.layers[n].shape.room(left)
}

// room is the number of set bits from which on a layer of this shape takes no more keys at
// the given rate. The last key may set as many bits as any.
func (s Shape) room(rate float64) uint32 {
	limit := s.Limit(rate)
	return limit - min(limit, uint32(s.Hashes))
}
