package favfilter

import "time"

// note records that the page under id changed or is removed. The lock is held.
func (m *Memory) note(id PageID) {
	if m.tracks != nil && m.tracks(id) {
		m.changed[id] = struct{}{}
	}
}

// Track makes [Memory.Changed] report the pages for which of returns true: those that the Memory
// holds now, and every one that changes or is dropped from now on. The Memory calls of while it
// holds its lock, so of must be fast and must not call the store. A call of Track replaces the
// previous one.
func (m *Memory) Track(of func(PageID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tracks, m.changed = of, make(map[PageID]struct{})
	for id := range m.pages {
		m.note(id)
	}
}

// Changed returns the pages selected by [Memory.Track] that it has not reported in their current
// state. An empty page that expires is reported when the Memory drops it.
func (m *Memory) Changed() map[PageID]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.changed
	m.changed = make(map[PageID]struct{})
	return changed
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
	h := held{stored, expires}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stored(id).Version != "" || m.expired(h) {
		return false
	}
	m.put(id, h)
	return true
}
