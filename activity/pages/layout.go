package pages

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// layout holds on which page each user is, as last learned from the ledger. It is safe for
// concurrent use.
//
// Only a poll applies a new number of pages. So a reader that looks for a user on a page of the new
// layout knows every sequence known before that poll. Receipts, too, tell which users have a
// dedicated page.
type layout struct {
	id      ledger.Identity // only Pages is used
	layouts atomic.Pointer[ledger.Layouts]

	dedicated atomic.Int64 // number of owners
	changes   atomic.Uint64
	mu        sync.RWMutex
	owners    map[uint64]uint32 // dedicated pages by the hash of their user
	users     map[uint32]uint64 // the reverse, with pages released lately
	released  map[uint32]time.Time

	last atomic.Pointer[pageSet]
}

func newLayout(pages uint32) *layout {
	l := &layout{id: ledger.Identity{Pages: pages}, owners: make(map[uint64]uint32), users: make(map[uint32]uint64),
		released: make(map[uint32]time.Time)}
	l.layouts.Store(&ledger.Layouts{Current: pages})
	return l
}

// now returns the layouts as the last poll found them.
func (l *layout) now() ledger.Layouts { return *l.layouts.Load() }

// pageOf returns the page of a user.
func (l *layout) pageOf(hash uint64) uint32 {
	if page, ok := l.owned(hash); ok {
		return page
	}
	return l.sharedPage(hash)
}

// sharedPage returns the shared page on which a user without a dedicated page is.
func (l *layout) sharedPage(hash uint64) uint32 { return l.id.PageIn(l.now().Current, hash) }

// owned returns the dedicated page of a user.
func (l *layout) owned(hash uint64) (page uint32, ok bool) {
	if l.dedicated.Load() == 0 {
		return 0, false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	page, ok = l.owners[hash]
	return page, ok
}

// owns reports whether the page is dedicated to the user.
func (l *layout) owns(hash uint64, page uint32) bool {
	owned, ok := l.owned(hash)
	return ok && owned == page
}

// dedicate notes the dedicated page of a user. A page with a higher number is newer.
func (l *layout) dedicate(hash uint64, page uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, released := l.released[page]; released || l.owners[hash] >= page {
		return
	}
	l.owners[hash], l.users[page] = page, hash
	l.dedicated.Store(int64(len(l.owners)))
	l.changes.Add(1)
}

// name notes whose a dedicated page is, which its place in the store depends on. Readers do not
// look for the user there yet.
func (l *layout) name(hash uint64, page uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[page] = hash
}

// learn notes dedicated pages by the hashes of their users.
func (l *layout) learn(owners map[uint64]uint32) {
	for hash, page := range owners {
		l.dedicate(hash, page)
	}
}

// release notes that a dedicated page has no user any more.
func (l *layout) release(page uint32) {
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

// forget frees what is left of pages that were released longer ago than any call takes. If such a
// page is looked for again, its place in the store is unknown, so it counts as missing.
func (l *layout) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for page, at := range l.released {
		if time.Since(at) > 2*largeTimeout {
			delete(l.users, page)
			delete(l.released, page)
		}
	}
}

// knows reports whether a dedicated page has a user, or had one lately.
func (l *layout) knows(page uint32) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, ok := l.users[page]
	return ok
}

// take applies what a poll found.
func (l *layout) take(p ledger.Progress) {
	l.learn(p.Owners)
	if now := p.Layouts; now != l.now() {
		l.layouts.Store(&now)
		l.changes.Add(1)
	}
}

// slot returns the number of the hash slot in which a page is.
func (l *layout) slot(page uint32) uint32 {
	if page < ledger.DedicatedPages {
		return l.id.SlotOf(page)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.id.Slot(l.users[page]) // the hash came from the ledger, together with the number
}

// pageID returns the place of a page in the store. All pages of a user are in the slot of the
// user's windows, so that a feed reads them with one command. No two pages ever have the same name.
func (l *layout) pageID(page uint32) favfilter.PageID {
	if page < l.id.Pages {
		return favfilter.PageID{Number: page}
	}
	return favfilter.PageID{Number: l.slot(page), Part: laterPart(page)}
}

// laterPart returns the part of the name of a page that is not of the first layout.
func laterPart(page uint32) string { return "p" + strconv.FormatUint(uint64(page), 10) }

// inUse reports whether the page has users, as far as is known.
func (l *layout) inUse(page uint32) bool { return l.pages().has(page) }

// pageSet lists the pages that have users.
type pageSet struct {
	changes   uint64 // of the layout, when they were listed
	first     uint32 // number of the first shared page
	shared    int    // number of shared pages
	dedicated []uint32
}

// pages returns the list of pages. It makes a new one only after a change.
func (l *layout) pages() *pageSet {
	changes := l.changes.Load()
	if last := l.last.Load(); last != nil && last.changes == changes {
		return last
	}
	current := l.now().Current
	c := &pageSet{changes: changes, first: l.id.PageIn(current, 0), shared: int(current)}
	l.mu.RLock()
	for _, page := range l.owners {
		c.dedicated = append(c.dedicated, page)
	}
	l.mu.RUnlock()
	slices.Sort(c.dedicated)
	l.last.Store(c)
	return c
}

// len returns the number of pages.
func (c *pageSet) len() int { return c.shared + len(c.dedicated) }

// chunk returns the pages from the i-th on, scrubChunk of them at most.
func (c *pageSet) chunk(i int) []uint32 {
	pages := make([]uint32, 0, scrubChunk)
	for n := i; n < min(c.len(), i+scrubChunk); n++ {
		pages = append(pages, c.number(n))
	}
	return pages
}

// number returns the number of the i-th page: shared ones first.
func (c *pageSet) number(i int) uint32 {
	if i < c.shared {
		return c.first + uint32(i)
	}
	return c.dedicated[i-c.shared]
}

// isShared reports whether users share the page.
func (c *pageSet) isShared(page uint32) bool {
	return page >= c.first && page-c.first < uint32(c.shared)
}

// has reports whether the set has the page.
func (c *pageSet) has(page uint32) bool {
	if c.isShared(page) {
		return true
	}
	_, found := slices.BinarySearch(c.dedicated, page)
	return found
}
