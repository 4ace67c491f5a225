package pages

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// reasonChanged is the reason of a page that another process changed: the change may not arrive.
	reasonChanged = "changed"
	// reasonResidue is the reason of a page in which removals left too many bits of keys.
	reasonResidue = "residue"
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
	// idleShare is the length of the pause after work, in multiples of the work's duration.
	idleShare = 4
	// retryPause is the pause after work that failed.
	retryPause = time.Second
)

// dueQueue holds the pages that the background work is to look at, with the reason and from when
// on. A page is there once for each reason. It is safe for concurrent use.
type dueQueue struct {
	mu     sync.Mutex
	listed map[duePage]bool
	order  []dueEntry
	rested int64         // when the next page may be taken because of residue, as elapsed
	more   chan struct{} // has an element after a page was added
}

type duePage struct {
	page   uint32
	reason string
}

type dueEntry struct {
	duePage

	from int64 // as elapsed
}

func newDueQueue() *dueQueue {
	return &dueQueue{listed: make(map[duePage]bool), more: make(chan struct{}, 1)}
}

func (q *dueQueue) add(page uint32, reason string, from int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	due := duePage{page, reason}
	if q.listed[due] {
		return
	}
	q.listed[due] = true
	q.order = append(q.order, dueEntry{due, from})
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// rest lets no page be taken because of residue before the given time.
func (q *dueQueue) rest(until int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rested = until
}

// at returns when the page is due. The caller holds mu.
func (q *dueQueue) at(e dueEntry) int64 {
	if e.reason == reasonResidue {
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
func (q *dueQueue) take(now int64) (pages []uint32, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.order[:0]
	for _, e := range q.order {
		more := len(pages) == 0 || reason == reasonChanged && e.reason == reason && len(pages) < scrubChunk
		if !more || q.at(e) > now {
			kept = append(kept, e)
			continue
		}
		pages, reason = append(pages, e.page), e.reason
		delete(q.listed, e.duePage)
	}
	q.order = kept
	return pages, reason
}

// workDue works on a page that is due at the given time, or some that others changed. It reports
// whether there was one.
func (sc *Scrubber) workDue(now int64) bool {
	pages, reason := sc.due.take(now)
	switch reason {
	case reasonChanged:
		found, _, _ := sc.peek(pages) // the next reader of pages reports the error
		sc.repair(found, repairPatience, maxRefused)
	case reasonResidue:
		sc.clearResidue(pages[0])
	case reasonVerified:
		sc.verify(pages[0])
	}
	return len(pages) > 0
}

// clearResidue rebuilds a page to remove the bits of keys that were removed. Until then, those keys
// are reported a little more often. The next such page waits for a pause after it.
func (sc *Scrubber) clearResidue(page uint32) {
	start, pause := time.Now(), retryPause
	if sc.rebuilder.inParts(page) { // other pages would have to wait for it
		if sc.largeWork(func(ctx context.Context) { sc.clearWithin(ctx, page) }) {
			pause = idleShare * time.Since(start)
		} else {
			sc.due.add(page, reasonResidue, 0)
		}
	} else {
		ctx, cancel := context.WithTimeout(sc.life.base, repairPatience)
		defer cancel()
		if sc.clearWithin(ctx, page) {
			pause = idleShare * time.Since(start)
		}
	}
	sc.due.rest(sc.life.elapsed() + int64(pause))
}

// clearWithin is clearResidue with a context. It returns false if ledger or store is down or too
// slow.
func (sc *Scrubber) clearWithin(ctx context.Context, page uint32) bool {
	f, err := sc.rebuilder.rebuild(ctx, page, 0, reasonResidue, math.MaxInt)
	if errors.Is(err, ledger.ErrGone) || err == nil && f.storeErr == nil && f.placed {
		return true
	}
	sc.due.add(page, reasonResidue, 0) // also if the page was written to during the rebuild
	return err == nil && f.storeErr == nil
}

// verify compares the keys of one page with the ledger and rebuilds the page. That repairs what a
// header cannot reveal: flipped bits and collision bits. The scrub does not wait for a large page.
func (sc *Scrubber) verify(page uint32) {
	large := sc.rebuilder.inParts(page)
	if !large {
		ctx, cancel := context.WithTimeout(sc.life.base, pageTimeout)
		defer cancel()
		large = errors.Is(sc.verifyWithin(ctx, page, false), ledger.ErrLargePage)
	}
	if large {
		sc.largeWork(func(ctx context.Context) { _ = sc.verifyWithin(ctx, page, true) })
	}
}

// verifyWithin is verify with a context. It returns why the page could not be compared; a later
// round tries again.
func (sc *Scrubber) verifyWithin(ctx context.Context, page uint32, large bool) error {
	loaded, _, err := sc.storage.loadWithin(ctx, patience(large), []favfilter.PageID{sc.layout.pageID(page)}, nil)
	if err != nil {
		return err
	}
	if loaded[0].Damage != nil {
		sc.repair([]faultyPage{{page, 0, damageReason(loaded[0].Damage)}}, pageTimeout, 1) //nolint:contextcheck // it has its own limit
	}
	if loaded[0].Page == nil {
		return nil
	}
	keys, err := sc.rebuilder.readKeys(ctx, page, large)
	if err != nil {
		return err
	}
	h := loaded[0].Page.Header()
	if h.Sequence != keys.state.Sequence || h.Identity != sc.storage.identity {
		return nil // changed between the reads, or left to the scrub
	}
	sc.storage.stats.verified.Add(1)
	count, whole := 0, true
	for _, hashes := range keys.hashes {
		count += len(hashes)
		whole = whole && lacking(loaded[0].Page, hashes) == 0
	}
	if !whole || int(h.Count) != count {
		sc.storage.log.ErrorContext(ctx, "a page does not hold what the ledger does", slog.Any("page", page), slog.Any("sequence", h.Sequence))
		sc.repair([]faultyPage{{page, h.Sequence, reasonCorrupt}}, pageTimeout, 1) //nolint:contextcheck // as above
		return nil
	}
	// No comparison reveals wrong collision bits, so every compared page is rebuilt.
	sc.noteRepair(ctx, page, reasonVerified, sc.rebuilder.remake(ctx, page, h.Sequence, reasonVerified))
	return nil
}
