package favfilter

import "time"

// changes records the pages of a [Memory] that changed, each once a round. Recording a change costs
// a comparison. The memory used is bounded by the number of pages. The Memory's lock guards it.
type changes struct {
	of    func(PageID) bool // nil: no changes are recorded
	round uint64
	ids   []PageID
}

// note records that the page under id, which will be held as h, changed or is removed.
func (c *changes) note(id PageID, h *held) {
	if c.of == nil || h.noted == c.round || !c.of(id) {
		return
	}
	h.noted = c.round
	c.ids = append(c.ids, id)
}

// next starts another round, and returns the pages of the last one.
func (c *changes) next() []PageID {
	ids := c.ids
	c.round++
	c.ids = nil
	return ids
}

// Track makes [Memory.Changed] report the pages for which of returns true: those that the Memory
// holds now, and every one that changes or is dropped from now on. The Memory calls of while it
// holds its lock, so of must be fast and must not call the store. A call of Track replaces the
// previous one.
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

// Changed returns the pages selected by [Memory.Track] that it has not reported in their current
// state. They are in no order, and some may occur twice. An empty page that expires is reported
// when the Memory drops it.
func (m *Memory) Changed() []PageID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes.next()
}

// Get returns what is stored under id and when it expires; a zero time means never. The Version is
// empty if there is nothing. The caller must not change the page.
func (m *Memory) Get(id PageID) (stored Loaded, expires time.Time) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h := m.stored(id)
	return h.Loaded, h.expires
}

// Restore stores what [Memory.Get] returned, from this Memory or another, with the same expiry.
// Changed does not report it. The Memory keeps the page. Restore does nothing and returns false if
// the page has expired or if something else is stored under id.
func (m *Memory) Restore(id PageID, stored Loaded, expires time.Time) bool {
	_, _ = stored.Encode() // further calls only read the page
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stored(id).Version != "" || !expires.IsZero() && !m.now().Before(expires) {
		return false
	}
	m.put(id, held{Loaded: stored, expires: expires})
	return true
}
