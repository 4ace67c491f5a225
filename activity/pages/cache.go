package pages

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

// cache holds pages that Views have read from the store, so that the next feed of the same viewer
// takes no round trip. The windows of package seen share its memory, see [Pages.Cache].
//
// A page of the ledger is used only while its sequence is the required one, and is known to be. If
// other processes write to the ledger, their changes are unknown until the next poll. So processes
// acknowledge writes once the staleness bound has passed. By then no process uses a page without
// them.
type cache struct {
	keeps time.Duration // delay of acknowledgments; 0: no other process writes
	held  *lru.Cache[favfilter.PageID, any]
	// mu is held from comparing a page with the cached one until that is replaced.
	mu sync.Mutex

	// hits and misses count views that did not read the store, and views that did.
	hits, misses atomic.Uint64
}

// newCache returns a cache of that many bytes; nil for 0 bytes.
func newCache(bytes int, keeps time.Duration) *cache {
	if bytes == 0 {
		return nil
	}
	const share = 16 // a larger page would evict the pages of many other users
	return &cache{keeps: keeps, held: lru.New[favfilter.PageID, any](bytes, bytes/share)}
}

var writtenByOthers = (*ledger.Ledger).Shared // replaced by tests

// delays returns the least time between the commit and the acknowledgment of a write. It is as long
// as other processes may answer from their caches.
func (c *Config) delays() time.Duration {
	if c.PageCache == 0 || !writtenByOthers(c.Ledger) {
		return 0
	}
	return max(0, c.StalenessBound)
}

// Cache returns the memory of [Config.PageCache], nil without one, and how long an entry may be
// used after another process may have changed it. The windows of package seen share it.
func (r *rebuilder) Cache() (held *lru.Cache[favfilter.PageID, any], overlook time.Duration) {
	if r.cache == nil {
		return nil, 0
	}
	return r.cache.held, r.cache.keeps
}

// get returns the cached page, or nil.
func (c *cache) get(id favfilter.PageID) *favfilter.Page {
	value, _ := c.held.Get(id)
	page, _ := value.(*favfilter.Page)
	return page
}

// page returns the cached page if its sequence is at least want, and it holds the keys of the
// position's user; otherwise nil.
func (c *cache) page(id favfilter.PageID, want uint64, at position) *favfilter.Page {
	if c == nil {
		return nil
	}
	page := c.get(id)
	if page == nil {
		return nil
	}
	if h := page.Header(); h.Sequence < want || !at.holds(h) {
		return nil
	}
	return page
}

// putPage caches a page. Nobody may change the page afterwards.
func (c *cache) putPage(id favfilter.PageID, page *favfilter.Page) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.get(id); held != nil && held.Header().Sequence > page.Header().Sequence {
		return // this page was read by a slow reader
	}
	const overhead = 512
	c.held.Put(id, page, imageBytes(page)+overhead)
}

// forgetPage evicts a page that may be damaged.
func (c *cache) forgetPage(id favfilter.PageID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.Drop(id)
}

// keepBuild evicts the page if it has another build than the page in the store: another process may
// have rebuilt that because it lacked keys although its sequence was current.
func (c *cache) keepBuild(id favfilter.PageID, build uint64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if page := c.get(id); page != nil && page.Header().Build != build {
		c.held.Drop(id)
	}
}

// count counts a View as a hit if it did not need the store.
func (c *cache) count(hit bool) {
	switch {
	case c == nil:
	case hit:
		c.hits.Add(1)
	default:
		c.misses.Add(1)
	}
}
