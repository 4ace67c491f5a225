package favfilter

// NewestFull reports whether the newest layer of p is full, see [Scaling].
func NewestFull(s Scaling, p *Page) bool { return p.newest().set >= p.limit(s.FalsePositiveRate, true) }
