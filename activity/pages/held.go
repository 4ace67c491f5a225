package pages

import (
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

const (
	// DefaultListCache is the default of [Config.ListCache], in bytes.
	DefaultListCache = 64 << 20
	// heldShare is the part of the memory that one page may take. A larger page is read each time.
	heldShare = 2
	// leastHeld is the size, in bytes, from which on dedicated pages are held. For the version,
	// Redis then takes less than half of the CPU that the page takes (docs/BENCHMARKS.md).
	leastHeld = 64 << 10
)

// heldPages are decoded pages in the process: those of lists and of fan-out, large dedicated ones,
// and those that were rebuilt, but that the store did not take. A held page may be used
//
//   - if the store has the same version of it, as read in the round trip of the feed, or
//   - while the store does not answer, if the ledger, read since the feed began, has nothing newer,
//   - or if the store answers, but its page must not be used, and the store did not take this one.
//     The page then needs the sequence that one in the store would need.
//
// The last rule bounds the rebuilds while the store refuses writes. It is that of a page in the
// store: a write that others acknowledged at once was there, so only a loss can hide it.
type heldPages struct {
	pages *lru.Cache[uint32, held] // by number of page
	least uint32                   // leastHeld, or less in tests
}

// held is a page, which nobody changes, and its version in the store.
type held struct {
	page    *favfilter.Page
	version favfilter.Version
	refused bool // the store did not take it
}

func newHeldPages(bytes int) *heldPages {
	return &heldPages{lru.New[uint32, held](bytes, bytes/heldShare), leastHeld}
}

// get returns the held page; the zero value if there is none.
func (p *heldPages) get(number uint32) held {
	h, _ := p.pages.Get(number)
	return h
}

// put holds a page that a reader got. A page that the store did not take stays one.
func (p *heldPages) put(number uint32, page *favfilter.Page) {
	if p.get(number).page != page {
		p.hold(number, held{page: page})
	}
}

// putRefused holds a page that was rebuilt, and that the store did not take.
func (p *heldPages) putRefused(number uint32, page *favfilter.Page) {
	p.hold(number, held{page: page, refused: true})
}

func (p *heldPages) hold(number uint32, h held) {
	const overhead = 512
	h.version = h.page.Header().Version()
	p.pages.Put(number, h, pageBytes(h.page)+overhead)
}

// keepBuild drops the page if the store has another build of it, which is not older. Another
// process may have rebuilt the page because it lacked keys although its sequence was current.
func (p *heldPages) keepBuild(number uint32, in favfilter.Header) {
	h := p.get(number)
	if h.page == nil {
		return
	}
	if own := h.page.Header(); own.Build != in.Build && own.Sequence <= in.Sequence {
		p.pages.Drop(number)
	}
}

// pageBytes returns the size of a page with all its layers and its collision bitmap.
func pageBytes(page *favfilter.Page) int { return int(page.Size().Bytes) }

// largePage is the number of bytes from which on a page is large: it is read from the ledger in
// parts, and no background work waits for it.
const largePage = 1 << 20

// largePages are the dedicated pages that are known to be large. Users who make a shared page large
// leave it. largePages is safe for concurrent use.
type largePages struct {
	numbers sync.Map
	least   uint32 // largePage, or less in tests
}

// note remembers whether the page with the header is large.
func (l *largePages) note(page uint32, h favfilter.Header) {
	if page >= ledger.DedicatedPages && h.Shape.Bits/8 > l.least {
		l.numbers.Store(page, nil)
		return
	}
	l.forget(page)
}

func (l *largePages) forget(page uint32) {
	if page >= ledger.DedicatedPages {
		l.numbers.Delete(page)
	}
}

func (l *largePages) has(page uint32) bool {
	if page < ledger.DedicatedPages {
		return false
	}
	_, ok := l.numbers.Load(page)
	return ok
}

// replaceMore is the time that each MiB of a page adds to applyTimeout for writing the page.
const replaceMore = 250 * time.Millisecond

// replaceTimeout returns how long writing the page to the store may take.
func replaceTimeout(page *favfilter.Page) time.Duration {
	return applyTimeout + time.Duration(pageBytes(page)>>20)*replaceMore
}

// patience returns how long reading a whole page may take.
func patience(large bool) time.Duration {
	if large {
		return largeLoadTimeout
	}
	return loadTimeout
}
