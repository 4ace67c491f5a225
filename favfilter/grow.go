package favfilter

import "math"

// A page grows so that it takes any number of keys within a false-positive rate. When its newest
// layer is full, it gets another one for twice as many keys. The rate is divided between the
// layers: the first layer gets half of it, and each further layer half as much as the previous one.
// All layers together never exceed the rate.

// growFor appends a layer to p, for twice as many keys as the newest one.
func (p *Page) growFor(rate float64) error {
	n := len(p.layers)
	capacity := 2 * p.newest().shape.Capacity(layerRate(rate, n-1))
	shape, err := shapeAfter(
		len(p.raw)+layerBytes, MaxBits-p.totalBits(), max(1, capacity), layerRate(rate, n), p.header.Shape.Region)
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
		in.grow = in.page.growFor(in.rate) == nil
		in.limit = in.page.limit(in.rate, in.grow)
	}
	if in.page.newest().set >= in.limit {
		return Full
	}
	in.page.Insert(h)
	return Added
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
