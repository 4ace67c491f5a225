package favfilter

// NewestFull reports whether the newest layer of a page that may grow is full.
func NewestFull(p *Page, rate float64) bool { return p.newest().set >= p.limit(rate, true) }

// RateAt returns the rate of a page of one layer with so many bits set.
func RateAt(s Shape, set uint32) float64 { return s.rate(set) }
