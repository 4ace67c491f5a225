package favfilter

import "time"

// changes are the pages of a [Memory] that changed, each once a round: what a change
// costs is a comparison, and what they take is bounded by the number of pages. The
// Memory's lock guards them.
type changes struct {
	of    func(PageID) bool // nil: none are noted
	round uint64
	ids   []PageID
}

// note notes that the page under id, to be held as h, changed or goes.
func (c *changes) note(id PageID, h *held) {
	if c.of == nil || h.noted == c.round || !c.of(id) {
		return
	}
	h.noted = c.round
	c.ids = append(c.ids, id)
}

// next begins another round, and returns what the last one has.
func (c *changes) next() []PageID {
	ids := c.ids
	c.round++
	c.ids = nil
	return ids
}

// Track makes [Memory.Changed] tell of the pages that of is true for: of those that are
// there, and of every one that changes or is dropped from now on. of is called with the
// store locked, so it must be quick and must not call the store. A call replaces what
// an earlier one has set up.
func (m *Memory) Track(of func(PageID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes.of = of
	m.changes.next()
	for id, h := range m.pages {
		m.changes.note(id, &h)
		m.pages[id] = h
	}
}

// Changed returns the pages that Track names and Changed has not told of as they stand
// now, in no order, some perhaps twice. An empty page that expired is among them once
// the Memory drops it.
func (m *Memory) Changed() []PageID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes.next()
}

// Get returns the page under id, to be read only, and when it expires, zero for never.
// The page is nil if there is none.
func (m *Memory) Get(id PageID) (page *Page, expires time.Time) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h := m.stands(id)
	return h.page, h.expires
}

// Restore puts in a page that [Memory.Get] returned, of this Memory or another, to
// expire when it would have; Changed does not tell of it. The Memory keeps the page.
// Restore reports false, and does nothing, if the page has expired or another stands
// there.
func (m *Memory) Restore(id PageID, page *Page, expires time.Time) bool {
	raw, _ := page.Encode() // from now on others only read
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stands(id).page != nil || !expires.IsZero() && !m.now().Before(expires) {
		return false
	}
	m.put(id, held{page: page, version: Version(raw[:HeaderBytes]), expires: expires})
	return true
}
