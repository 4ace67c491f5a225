package known

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Layout holds on which page each user is, as last learned from the ledger. It is safe for
// concurrent use.
//
// Only a poll applies a new number of pages. So a reader that looks for a user on a page of the new
// layout knows every sequence known before that poll. Receipts, too, tell which users have a
// dedicated page.
type Layout struct {
	id      ledger.Identity // only Pages is used
	layouts atomic.Pointer[ledger.Layouts]

	dedicated atomic.Int64 // number of owners
	changes   atomic.Uint64
	mu        sync.RWMutex
	owners    map[uint64]uint32 // dedicated pages by the hash of their user
	users     map[uint32]uint64 // the reverse, with pages released lately
	released  map[uint32]time.Time

	last atomic.Pointer[PageSet]
}

func newLayout(pages uint32) *Layout {
	l := &Layout{
		id:       ledger.Identity{Pages: pages},
		owners:   make(map[uint64]uint32),
		users:    make(map[uint32]uint64),
		released: make(map[uint32]time.Time),
	}
	l.layouts.Store(&ledger.Layouts{Current: pages})
	return l
}

// Now returns the layouts as the last poll found them.
func (l *Layout) Now() ledger.Layouts { return *l.layouts.Load() }

// PageOf returns the page of a user.
func (l *Layout) PageOf(hash uint64) uint32 {
	if page, ok := l.owned(hash); ok {
		return page
	}
	return l.SharedPage(hash)
}

// SharedPage returns the shared page on which a user without a dedicated page is.
func (l *Layout) SharedPage(hash uint64) uint32 { return l.PageIn(l.Now().Current, hash) }

// PageIn returns the shared page of a user in a layout, given by its number of pages.
func (l *Layout) PageIn(layout uint32, hash uint64) uint32 { return l.id.PageIn(layout, hash) }

// owned returns the dedicated page of a user.
func (l *Layout) owned(hash uint64) (page uint32, ok bool) {
	if l.dedicated.Load() == 0 {
		return 0, false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	page, ok = l.owners[hash]
	return page, ok
}

// Owns reports whether the page is dedicated to the user.
func (l *Layout) Owns(hash uint64, page uint32) bool {
	owned, ok := l.owned(hash)
	return ok && owned == page
}

// Dedicate notes the dedicated page of a user. A page with a higher number is newer.
func (l *Layout) Dedicate(hash uint64, page uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, released := l.released[page]; released || l.owners[hash] >= page {
		return
	}
	l.owners[hash], l.users[page] = page, hash
	l.dedicated.Store(int64(len(l.owners)))
	l.changes.Add(1)
}

// Name notes whose a dedicated page is, which its place in the store depends on. Readers do not
// look for the user there yet.
func (l *Layout) Name(hash uint64, page uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[page] = hash
}

// Learn notes dedicated pages by the hashes of their users.
func (l *Layout) Learn(owners map[uint64]uint32) {
	for hash, page := range owners {
		l.Dedicate(hash, page)
	}
}

// Release notes that a dedicated page has no user any more.
func (l *Layout) Release(page uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hash, named := l.users[page]
	if _, before := l.released[page]; before || !named {
		return
	}
	l.released[page] = time.Now()
	if l.owners[hash] != page {
		return
	}
	delete(l.owners, hash)
	l.dedicated.Store(int64(len(l.owners)))
	l.changes.Add(1)
}

// Forget frees what is left of pages that were released longer ago than any call takes. If such a
// page is looked for again, its place in the store is unknown, so it counts as missing.
func (l *Layout) Forget(longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for page, at := range l.released {
		if time.Since(at) > longest {
			delete(l.users, page)
			delete(l.released, page)
		}
	}
}

// Knows reports whether a dedicated page has a user, or had one lately.
func (l *Layout) Knows(page uint32) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, ok := l.users[page]
	return ok
}

// take applies what a poll found.
func (l *Layout) take(p ledger.Progress) {
	l.Learn(p.Owners)
	if now := p.Layouts; now != l.Now() {
		l.layouts.Store(&now)
		l.changes.Add(1)
	}
}

// Slot returns the number of the hash slot in which a page is.
func (l *Layout) Slot(page uint32) uint32 {
	if page < ledger.DedicatedPages {
		return l.id.SlotOf(page)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.id.Slot(l.users[page]) // the hash came from the ledger, together with the number
}

// PageID returns the place of a page in the store. All pages of a user are in the slot of the
// user's windows, so that a feed reads them with one command. No two pages ever have the same name.
func (l *Layout) PageID(page uint32) favfilter.PageID {
	if page < l.id.Pages {
		return favfilter.PageID{Number: page}
	}
	return favfilter.PageID{Number: l.Slot(page), Part: LaterPart(page)}
}

// LaterPart returns the part of the name of a page that is not of the first layout.
func LaterPart(page uint32) string { return "p" + strconv.FormatUint(uint64(page), 10) }

// InUse reports whether the page has users, as far as is known.
func (l *Layout) InUse(page uint32) bool { return l.Pages().Has(page) }

// PageSet lists pages. Nobody may change it.
type PageSet struct {
	First     uint32 // number of the first shared page
	Shared    int    // number of shared pages
	Dedicated []uint32

	changes uint64 // of the layout, when they were listed
}

// PagesOf returns the shared pages of a layout.
func (l *Layout) PagesOf(layout uint32) *PageSet {
	return &PageSet{First: l.PageIn(layout, 0), Shared: int(layout)}
}

// Pages returns the pages that have users. It makes a new list only after a change.
func (l *Layout) Pages() *PageSet {
	changes := l.changes.Load()
	if last := l.last.Load(); last != nil && last.changes == changes {
		return last
	}
	current := l.Now().Current
	c := l.PagesOf(current)
	c.changes = changes
	l.mu.RLock()
	for _, page := range l.owners {
		c.Dedicated = append(c.Dedicated, page)
	}
	l.mu.RUnlock()
	slices.Sort(c.Dedicated)
	l.last.Store(c)
	return c
}

// Len returns the number of pages.
func (c *PageSet) Len() int { return c.Shared + len(c.Dedicated) }

// Chunk returns the pages from the i-th on, most of them at most.
func (c *PageSet) Chunk(i, most int) []uint32 {
	pages := make([]uint32, 0, most)
	for n := i; n < min(c.Len(), i+most); n++ {
		pages = append(pages, c.Number(n))
	}
	return pages
}

// Number returns the number of the i-th page: shared ones first.
func (c *PageSet) Number(i int) uint32 {
	if i < c.Shared {
		return c.First + uint32(i)
	}
	return c.Dedicated[i-c.Shared]
}

// IsShared reports whether users share the page.
func (c *PageSet) IsShared(page uint32) bool {
	return page >= c.First && page-c.First < uint32(c.Shared)
}

// Has reports whether the set has the page.
func (c *PageSet) Has(page uint32) bool {
	if c.IsShared(page) {
		return true
	}
	_, found := slices.BinarySearch(c.Dedicated, page)
	return found
}
