package favfilter

import (
	"bytes"
	"context"
	"fmt"
	"maps"
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
	changes changes
}

type held struct {
	page    *Page // never changed
	version Version
	expires time.Time // zero: never
	noted   uint64    // the last round of changes that includes the page
}

var _ Store = (*Memory)(nil)

// Load implements [Store].
func (m *Memory) Load(ctx context.Context, ids []PageID) ([]Loaded, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("load %d pages: %w", len(ids), err)
	}
	loaded := make([]Loaded, len(ids))
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, id := range ids {
		h := m.stands(id)
		loaded[i] = Loaded{Page: h.page, Version: h.version}
	}
	return loaded, nil
}

// LoadWhole implements [Store].
func (m *Memory) LoadWhole(ctx context.Context, ids []PageID) ([]Loaded, error) {
	return m.Load(ctx, ids)
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
	h := m.stands(b.ID)
	if h.page == nil {
		return Result{State: Missing}
	}
	page := h.page.Clone()
	res := page.Apply(b)
	if res.State != Applied {
		return res
	}
	if b.Sequence > 0 {
		h.expires = time.Time{} // only an empty page has a time to live
	}
	if h.version != res.Version {
		m.changes.note(b.ID, &h)
	}
	h.page, h.version = page, res.Version
	m.pages[b.ID] = h
	return res
}

// Replace implements [Store].
func (m *Memory) Replace(ctx context.Context, r Replacement) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("replace page %v: %w", r.ID, err)
	}
	if r.Page == nil {
		return m.remove(r), nil
	}
	page := r.Page.Clone()
	raw, _ := page.Encode() // further calls only read the page
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.stands(r.ID)
	if h.version != r.Seen && !(r.Newer && older(h.page, page.header)) && !same(h.page, page) {
		return false, nil
	}
	h.page, h.version = page, Version(raw[:HeaderBytes])
	switch {
	case r.Expire > 0:
		h.expires = m.now().Add(r.Expire)
	case r.Expire == 0:
		h.expires = time.Time{}
	}
	m.changes.note(r.ID, &h)
	m.put(r.ID, h)
	if r.Expire > 0 {
		m.drop()
	}
	return true, nil
}

// remove removes a page if it has the version seen, and reports whether there is no page
// afterwards.
func (m *Memory) remove(r Replacement) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.stands(r.ID)
	if h.page != nil && h.version != r.Seen {
		return false
	}
	m.changes.note(r.ID, &h)
	delete(m.pages, r.ID)
	return true
}

// Bytes returns the size of the pages held: both strings of each, including expired pages that were
// not dropped yet. It visits every page.
func (m *Memory) Bytes() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := 0
	for _, h := range m.pages {
		raw, collisions := h.page.Encode()
		n += len(raw) + len(collisions)
	}
	return n
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
		if h := m.stands(id); h.page == nil {
			statuses[i].Missing = true
		} else {
			statuses[i] = h.page.Status()
		}
	}
	return statuses, nil
}

// Probe implements [Store].
func (m *Memory) Probe(ctx context.Context, id PageID, known Header, hashes []Hash, found []bool) (uint64, bool, error) {
	if err := ctx.Err(); err != nil {
		return 0, false, fmt.Errorf("probe page %v: %w", id, err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	h := m.stands(id)
	if h.page == nil || h.page.header.Build != known.Build {
		return 0, false, nil
	}
	for i, key := range hashes {
		found[i] = found[i] || h.page.Contains(key)
	}
	return h.page.header.Sequence, true, nil
}

// Epoch implements [Store]: it returns "".
func (m *Memory) Epoch(context.Context) (string, error) { return "", nil }

// drop removes expired pages. It does so once the number of pages stored with a time to live since
// the last time reaches half the number of pages. So for each page stored, it visits two.
func (m *Memory) drop() {
	m.expires++
	if 2*m.expires < len(m.pages) {
		return
	}
	m.expires = 0
	now := m.now()
	maps.DeleteFunc(m.pages, func(id PageID, h held) bool {
		expired := !h.expires.IsZero() && !now.Before(h.expires)
		if expired {
			m.changes.note(id, &h)
		}
		return expired
	})
}

func (m *Memory) put(id PageID, h held) {
	if m.pages == nil {
		m.pages = make(map[PageID]held)
	}
	m.pages[id] = h
}

// older reports whether page may be replaced by one with header h.
func older(page *Page, h Header) bool {
	return page == nil || page.header.Incarnation != h.Incarnation || page.header.Sequence < h.Sequence
}

// same reports whether the two pages are equal byte for byte.
func same(a, b *Page) bool {
	if a == nil || a.header != b.header {
		return false
	}
	aRaw, aCollisions := a.Encode()
	bRaw, bCollisions := b.Encode()
	return bytes.Equal(aRaw, bRaw) && bytes.Equal(aCollisions, bCollisions)
}

// stands returns what is held under id, or nothing if it has expired.
func (m *Memory) stands(id PageID) held {
	h := m.pages[id]
	if !h.expires.IsZero() && !m.now().Before(h.expires) {
		return held{}
	}
	return h
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}
