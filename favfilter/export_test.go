package favfilter

// NewestFull reports whether the newest layer of a page is full.
func NewestFull(p *Page, rate float64) bool { return p.newest().isFull(p.limit(rate), Hash{}, nil) }

// Grow appends an empty layer of any shape.
func (p *Page) Grow(s Shape) { p.grow(s) }

// RateAt returns the rate of a page of one layer with so many bits set.
func RateAt(s Shape, set uint32) float64 { return s.rate(set) }
