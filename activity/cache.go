package activity

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// cache holds what Views have read of the store, so that the next feed of the same viewer
// takes no round trip.
//
// A page of the ledger is as good as its sequence: it is used only while that is what readers have to see, and while
// that is known. Where other processes write to the ledger, it is not known before the next poll; so they acknowledge
// what they write when the staleness bound has passed, and by then no process uses what lacks it.
//
// Windows have no sequence. What this process writes to one is forgotten here before it is acknowledged; what
// others write is overlooked for the staleness bound at most.
type cache struct {
	most  int           // bytes of one page or window
	keeps time.Duration // windows, and writes from being acknowledged; 0: nobody else writes

	mu     sync.Mutex
	held   *lru[favfilter.PageID, holding]
	writes [256]uint64 // to windows, by their bucket: what began to be read before the last one may lack it

	hits, misses atomic.Uint64 // views that needed not, and that had to, read the store
}

// holding is a page of the ledger, or the parts of a window.
type holding struct {
	page  *favfilter.Page
	parts window
}

// newCache returns one of so many bytes, nil if that is 0: then there is none.
func newCache(bytes int, keeps time.Duration) *cache {
	if bytes == 0 {
		return nil
	}
	const share = 16 // a larger one would push out what many others come back for
	return &cache{most: bytes / share, keeps: keeps, held: newLRU[favfilter.PageID, holding](bytes)}
}

// delays is how long after its commit a write is acknowledged at the earliest: as long as other processes may
// answer from what they hold.
func (c *Config) delays() time.Duration {
	if c.PageCache == 0 || c.Ledger == nil || !c.Ledger.Shared() {
		return 0
	}
	return max(0, c.StalenessBound)
}

// page returns the page of that name if it stands at want or beyond, and knows of so many moves; else nil.
func (c *cache) page(id favfilter.PageID, want uint64, moves uint32) *favfilter.Page {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	held, ok := c.held.get(id)
	if !ok {
		return nil
	}
	if h := held.page.Header(); h.Sequence < want || h.Moves < moves {
		c.held.drop(id)
		return nil
	}
	return held.page
}

// window fills in w what is held of it, as of now, and reports whether it could.
func (c *cache) window(w *window, now int64) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.held.get(w.id)
	if !ok {
		return false
	}
	from, _ := w.ring.Span(0, w.now)
	if was, _ := h.parts.ring.Span(0, h.parts.now); !was.Equal(from) || c.keeps > 0 && now-h.parts.begun > int64(c.keeps) {
		c.held.drop(w.id)
		return false
	}
	w.loaded, w.parts, w.held = h.parts.loaded, h.parts.parts, true
	return true
}

// bucket is one of 256 that windows are in: their names end in a hash.
func bucket(id favfilter.PageID) uint8 {
	n := len(id.Part)
	return id.Part[n-1]<<4 ^ id.Part[n-2]
}

// mark is how often windows like that were written to.
func (c *cache) mark(id favfilter.PageID) uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes[bucket(id)]
}

// putPage holds a page, which nobody changes any more.
func (c *cache) putPage(id favfilter.PageID, page *favfilter.Page) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if held, ok := c.held.get(id); ok && held.page.Header().Sequence > page.Header().Sequence {
		return // the reader of this one was slow
	}
	c.put(id, holding{page: page}, imageBytes(page))
}

// forgetPage gives up what is held of a page, which may be damaged.
func (c *cache) forgetPage(id favfilter.PageID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.drop(id)
}

// putWindow holds a window as it was read, unless it was written to meanwhile.
func (c *cache) putWindow(w *window) {
	if c == nil {
		return
	}
	bytes := 0
	for _, part := range w.parts {
		if part != nil {
			bytes += imageBytes(part)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes[bucket(w.id)] == w.writes {
		c.put(w.id, holding{parts: *w}, bytes)
	}
}

// put is called with mu held.
func (c *cache) put(id favfilter.PageID, h holding, bytes int) {
	const overhead = 512
	if bytes += overhead; bytes > c.most {
		c.held.drop(id)
		return
	}
	c.held.put(id, h, bytes)
}

// wrote forgets a window that was written to.
func (c *cache) wrote(id favfilter.PageID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes[bucket(id)]++
	c.held.drop(id)
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
