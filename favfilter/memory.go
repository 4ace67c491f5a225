package favfilter

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// Memory is the in-process [Store]. It is the default of an embedded service, and the executable
// definition of what a store does. Memory copies a page to change it, so Load returns pages without
// copying; a change costs a copy of its page.
//
// The zero value is ready for use.
type Memory struct {
	// Now is the clock that determines when pages expire; nil: time.Now. It must not be changed
	// once the store is in use.
	Now func() time.Time

	mu      sync.RWMutex
	pages   map[PageID]held
	expires int // pages stored with a time to live since expired pages were last dropped

	tracks  func(PageID) bool   // nil: changes are not recorded
	changed map[PageID]struct{} // of the pages that it selects; not reported yet
}

// held is what the Memory holds under one ID. Its page is never changed.
type held struct {
	Loaded

	expires time.Time // zero: never
}

var _ Store = (*Memory)(nil)

// LoadWhole implements [Store].
func (m *Memory) LoadWhole(ctx context.Context, ids []PageID) ([]Loaded, error) {
	loaded, _, err := m.Load(ctx, ids)
	return loaded, err
}

// Apply implements [Store].
func (m *Memory) Apply(ctx context.Context, batches []Batch) []Result {
	results := make([]Result, len(batches))
	for i, b := range batches {
		if err := ctx.Err(); err != nil {
			results[i].Err = fmt.Errorf("apply to page %v: %w", b.ID, err)
			continue
		}
		results[i] = m.apply(b)
	}
	return results
}

func (m *Memory) apply(b Batch) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.stored(b.ID).Loaded
	if l.Page != nil {
		l.Page = l.Page.Clone()
	}
	res := l.Apply(b)
	if res.State == Applied && res.Version != l.Version {
		l.Version = res.Version
		m.pages[b.ID] = held{Loaded: l} // a change ends the time to live
		m.note(b.ID)
	}
	return res
}

// Replace implements [Store].
func (m *Memory) Replace(ctx context.Context, r Replacement) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("replace page %v: %w", r.ID, err)
	}
	next := Loaded{Value: r.Value}
	if r.Page != nil {
		next.Page = r.Page.Clone()
	}
	raw, _ := next.Encode() // further calls only read the page
	next.Version = versionOf(raw)
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.stored(r.ID)
	if h.Version != r.Seen && !(r.Newer && older(h.Page, next.Page)) && !same(h.Loaded, next) {
		return false, nil
	}
	m.note(r.ID)
	if next.Version == "" {
		delete(m.pages, r.ID)
		return true, nil
	}
	h = held{Loaded: next}
	if r.Expire > 0 {
		h.expires = m.now().Add(r.Expire)
		m.drop()
	}
	m.put(r.ID, h)
	return true, nil
}

// Peek implements [Store].
func (m *Memory) Peek(ctx context.Context, ids []PageID) ([]Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("peek at %d pages: %w", len(ids), err)
	}
	statuses := make([]Status, len(ids))
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, id := range ids {
		switch h := m.stored(id); {
		case h.Page != nil:
			statuses[i] = h.Page.Status()
		case h.Version != "":
			statuses[i].Damage = fmt.Errorf("%w: not a page", ErrDamaged)
		default:
			statuses[i].Missing = true
		}
	}
	return statuses, nil
}

// Load implements [Store].
func (m *Memory) Load(
	ctx context.Context, ids []PageID, held ...PageID,
) ([]Loaded, []Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("load %d pages: %w", len(ids)+len(held), err)
	}
	loaded, versions := make([]Loaded, len(ids)), make([]Version, len(held))
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, id := range ids {
		loaded[i] = m.stored(id).Loaded
	}
	for i, id := range held {
		versions[i] = m.stored(id).Version
	}
	return loaded, versions, nil
}

// drop removes expired pages. It only does so once the number of pages stored with a time to live
// since the last time reaches half the number of all pages. So it visits two pages for each page
// stored.
func (m *Memory) drop() {
	m.expires++
	if 2*m.expires < len(m.pages) {
		return
	}
	m.expires = 0
	for id, h := range m.pages {
		if m.expired(h) {
			m.note(id)
			delete(m.pages, id)
		}
	}
}

func (m *Memory) put(id PageID, h held) {
	if m.pages == nil {
		m.pages = make(map[PageID]held)
	}
	m.pages[id] = h
}

// older reports whether page may be replaced by next.
func older(page, next *Page) bool {
	return next != nil && (page == nil ||
		page.header.Incarnation != next.header.Incarnation ||
		page.header.Sequence < next.header.Sequence)
}

// same reports whether a and b are equal byte for byte.
func same(a, b Loaded) bool {
	if a.Version != b.Version {
		return false
	}
	aRaw, aCollisions := a.Encode()
	bRaw, bCollisions := b.Encode()
	return bytes.Equal(aRaw, bRaw) && bytes.Equal(aCollisions, bCollisions)
}

// stored returns what is held under id, or nothing if it has expired.
func (m *Memory) stored(id PageID) held {
	h := m.pages[id]
	if m.expired(h) {
		return held{}
	}
	return h
}

func (m *Memory) expired(h held) bool { return !h.expires.IsZero() && !m.now().Before(h.expires) }

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

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
