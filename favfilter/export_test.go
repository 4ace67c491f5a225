package favfilter

// NewestFull reports whether the newest layer of p has as many set bits as its share of the rate allows.
func NewestFull(s Scaling, p *Page) bool { return p.newest().set >= p.limit(s.FalsePositiveRate, true) }
