package favfilter

import "math"

// Scaling determines how a page grows, so that it takes any number of keys within a false-positive
// rate. When the newest layer of a page is full, the page gets another one for twice as many keys.
// The rate is divided between the layers: the first layer gets half of it, and each further layer
// half as much as the previous one. All layers together never exceed the rate.
//
// Lookups take longer with each layer. A page created for the right number of keys is faster and
// smaller.
type Scaling struct {
	// FalsePositiveRate is the highest share of absent keys that the page as a whole reports: 1e-11
	// to 0.5.
	FalsePositiveRate float64

	// Region is the region size of the pages in bits. 0 means that keys are never removed. Each key
	// then sets more bits, and a page needs fewer bits in all.
	Region uint16
}

// First returns the shape of a page that holds capacity keys before it grows. It fails if capacity
// is negative or needs more than [MaxBits], and if the rate is out of range.
func (s Scaling) First(capacity int) (Shape, error) {
	return firstShape(capacity, s.FalsePositiveRate, layerRate(1, 0), s.Region)
}

// Add adds the key unless it looks present, and first grows p if its newest layer is full. If p can
// grow no further, the newest layer takes the part of the rate that the other layers have left.
// Once that is used up, the outcome is [Full] and nothing changes. [Page.Apply] adds many keys
// faster, and raises the sequence of the page.
func (s Scaling) Add(p *Page, h Hash) Outcome {
	in := newAdder(p, s.FalsePositiveRate, true)
	return in.add(h)
}

// grow appends a layer to p, for twice as many keys as the newest one.
func (s Scaling) grow(p *Page) error {
	n := len(p.layers)
	capacity := 2 * p.newest().shape.Capacity(layerRate(s.FalsePositiveRate, n-1))
	shape, err := shapeAfter(
		len(p.raw)+layerBytes, MaxBits-p.totalBits(), max(1, capacity), layerRate(s.FalsePositiveRate, n), p.header.Shape.Region)
	if err != nil {
		return err
	}
	return p.Grow(shape)
}

// layerRate returns the share of a page's rate that layer i, counted from 0, may have.
func layerRate(rate float64, i int) float64 {
	return math.Ldexp(rate, -i-1)
}

// adder adds keys to a page within a rate.
type adder struct {
	page  *Page
	rate  float64 // 0: no limit
	grow  bool    // the page may get more layers
	limit uint32  // limit of the newest layer
}

func newAdder(p *Page, rate float64, grow bool) adder {
	return adder{p, rate, grow, p.limit(rate, grow)}
}

func (in *adder) add(h Hash) Outcome {
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

// limit returns the number of set bits at which the newest layer takes no more keys. If the page
// may grow, it follows from the layer's share of the rate; otherwise, from what the other layers
// have left of the rate.
func (p *Page) limit(rate float64, grow bool) uint32 {
	if rate == 0 {
		return math.MaxUint32
	}
	n := len(p.layers) - 1
	if grow {
		return p.layers[n].shape.fullAt(layerRate(rate, n))
	}
	left := rate
	for i := range n {
		used := p.layers[i].shape.rate(p.layers[i].set)
		if used >= left {
			return 0
		}
		left = (left - used) / (1 - used)
	}
	return p.layers[n].shape.fullAt(left)
}

// fullAt returns the number of set bits at which a layer of this shape takes no more keys at the
// given rate. It leaves room for the last key to set s.Hashes bits.
func (s Shape) fullAt(rate float64) uint32 {
	limit := s.Limit(rate)
	return limit - min(limit, uint32(s.Hashes))
}
