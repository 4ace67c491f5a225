package activity

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

// cache holds pages that Views have read of the store, so that the next feed of the same viewer takes no
// round trip. The windows of package seen share its room.
//
// A page of the ledger is as good as its sequence: it is used only while that is what readers have to see, and while
// that is known. Where other processes write to the ledger, it is not known before the next poll; so they acknowledge
// what they write when the staleness bound has passed, and by then no process uses what lacks it.
type cache struct {
	keeps time.Duration // writes from being acknowledged; 0: nobody else writes
	held  *lru.Cache[favfilter.PageID, any]
	mu    sync.Mutex // held from comparing a page with the one before it until that is replaced

	hits, misses atomic.Uint64 // views that needed not, and that had to, read the store
}

// newCache returns one of so many bytes, nil if that is 0: then there is none.
func newCache(bytes int, keeps time.Duration) *cache {
	if bytes == 0 {
		return nil
	}
	const share = 16 // a larger one would push out what many others come back for
	return &cache{keeps: keeps, held: lru.New[favfilter.PageID, any](bytes, bytes/share)}
}

// delays is how long after its commit a write is acknowledged at the earliest: as long as other processes may
// answer from what they hold.
func (c *Config) delays() time.Duration {
	if c.PageCache == 0 || c.Ledger == nil || !c.Ledger.Shared() {
		return 0
	}
	return max(0, c.StalenessBound)
}

// get returns the page of that name, or nil.
func (c *cache) get(id favfilter.PageID) *favfilter.Page {
	value, _ := c.held.Get(id)
	page, _ := value.(*favfilter.Page)
	return page
}

// page returns the page of that name if it stands at want or beyond, and knows of so many moves; else nil.
func (c *cache) page(id favfilter.PageID, want uint64, moves uint32) *favfilter.Page {
	if c == nil {
		return nil
	}
	page := c.get(id)
	if page == nil {
		return nil
	}
	if h := page.Header(); h.Sequence < want || h.Moves < moves {
		return nil
	}
	return page
}

// putPage holds a page, which nobody changes any more.
func (c *cache) putPage(id favfilter.PageID, page *favfilter.Page) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.get(id); held != nil && held.Header().Sequence > page.Header().Sequence {
		return // the reader of this one was slow
	}
	const overhead = 512
	c.held.Put(id, page, imageBytes(page)+overhead)
}

// forgetPage gives up what is held of a page, which may be damaged.
func (c *cache) forgetPage(id favfilter.PageID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.Drop(id)
}

// keepBuild gives up what is held of a page that was built anew since: another process may have found that it does
// not hold what its sequence says.
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

// count notes whether a View needed the store.
func (c *cache) count(hit bool) {
	switch {
	case c == nil:
	case hit:
		c.hits.Add(1)
	default:
		c.misses.Add(1)
	}
}

// heldPage is the page of v, if it is held and may be used.
func (r *Recorder) heldPage(v *View, page, moves uint32, want uint64, known bool) *favfilter.Page {
	if r.cache == nil || !v.ledger || !known {
		return nil
	}
	return r.cache.page(r.pageID(page), want, moves)
}

// outwait waits until no process may answer from pages that it has held since before the given time. Where its last poll is
// too old it does not, so nobody has to be asked.
func (r *Recorder) outwait(committed int64) {
	if r.cache == nil || r.cache.keeps == 0 {
		return
	}
	rest := time.NewTimer(time.Duration(committed+int64(r.cache.keeps)-r.elapsed()) + elapsedAhead)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-r.base.Done():
	}
}
