package pages

import (
	"math"
	"sync"
)

const (
	// reasonChanged is the reason of a page that may lack a change, which is on its way or lost.
	reasonChanged = "changed"
	// reasonResidue is the reason of a page in which removals left too many bits of keys.
	reasonResidue = "residue"
	// reasonFormat is the reason of a page that is to get a later format version.
	reasonFormat = "format"
	// reasonVerified is the reason of a page to compare with the ledger key by key.
	reasonVerified = "verified"
)

const (
	// enoughCleared is the number of bits that a removal must clear. If it clears fewer, the page
	// is rebuilt. A removed key is reported again if later keys set its cleared bits. With four
	// bits, that happens to fewer than one in 1,000 keys, even if a quarter of the page's keys come
	// later.
	enoughCleared = 4
	// maxChanged bounds the pages of a poll that are checked. A scrub checks the rest.
	maxChanged = 512
	// maxOutdated bounds the pages that wait for a later format version. A later round of the scrub
	// finds the others.
	maxOutdated = 64
)

// dueQueue holds the pages that the background work is to look at, with the reason and from when
// on. A page is there once for each reason: the first time counts. It is safe for concurrent use.
type dueQueue struct {
	mu     sync.Mutex
	listed map[duePage]bool
	order  []dueEntry
	rested int64         // when the next page may be tidied, as elapsed
	format int           // entries for reasonFormat
	more   chan struct{} // has an element after a page was added
}

type duePage struct {
	page   uint32
	reason string
}

type dueEntry struct {
	duePage

	want uint64 // for reasonChanged: the sequence that the page must have by then
	from int64  // as elapsed
}

func newDueQueue() *dueQueue {
	return &dueQueue{listed: make(map[duePage]bool), more: make(chan struct{}, 1)}
}

// tidies reports whether pages with the reason may be used as they are. They are rebuilt one by
// one, with pauses.
func tidies(reason string) bool { return reason == reasonResidue || reason == reasonFormat }

// add lists a page for a reason other than reasonChanged.
func (q *dueQueue) add(page uint32, reason string, from int64) {
	q.list(dueEntry{duePage{page, reason}, 0, from})
}

// expect lists a page that must have the sequence at the given time.
func (q *dueQueue) expect(at PageAt, from int64) {
	q.list(dueEntry{duePage{at.Page, reasonChanged}, at.Sequence, from})
}

func (q *dueQueue) list(e dueEntry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.listed[e.duePage] || e.reason == reasonFormat && q.format == maxOutdated {
		return
	}
	q.listed[e.duePage] = true
	q.order = append(q.order, e)
	if e.reason == reasonFormat {
		q.format++
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// rest lets no page be tidied before the given time.
func (q *dueQueue) rest(until int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rested = until
}

// at returns when the page is due. The caller holds mu.
func (q *dueQueue) at(e dueEntry) int64 {
	if tidies(e.reason) {
		return max(e.from, q.rested)
	}
	return e.from
}

// next returns when the next page is due; math.MaxInt64 if there is none.
func (q *dueQueue) next() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := int64(math.MaxInt64)
	for _, e := range q.order {
		next = min(next, q.at(e))
	}
	return next
}

// take removes the first page that is due, with others of its reason if that is reasonChanged. It
// returns no page if none is due.
func (q *dueQueue) take(now int64) (pages []PageAt, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.order[:0]
	for _, e := range q.order {
		joins := reason == reasonChanged && e.reason == reason && len(pages) < scrubChunk
		if len(pages) > 0 && !joins || q.at(e) > now {
			kept = append(kept, e)
			continue
		}
		pages, reason = append(pages, PageAt{e.page, e.want}), e.reason
		delete(q.listed, e.duePage)
		if e.reason == reasonFormat {
			q.format--
		}
	}
	q.order = kept
	return pages, reason
}

// arrivalTime returns when a change that is on its way to a page must be there, as elapsed. Each
// process can then have polled, and a call of the store takes no longer. Were it earlier, each
// process would rebuild what the others write while the store is slow.
func (c core) arrivalTime() int64 {
	return c.life.Elapsed() + int64(max(c.known.Interval(), applyTimeout))
}

// expectChanges lists pages that other processes changed. If a change does not arrive in time, its
// writer has died, or cannot reach the store. A scrub finds what expectChanges leaves out.
func (c core) expectChanges(changed []uint32) {
	pages, from := c.layout.Pages(), c.arrivalTime()
	for _, page := range changed[:min(len(changed), maxChanged)] {
		if pages.Has(page) {
			c.due.expect(PageAt{page, c.sequences.Of(page).Required.Load()}, from)
		}
	}
}
