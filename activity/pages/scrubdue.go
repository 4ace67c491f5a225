package pages

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// idleShare is the length of the pause after work, in multiples of the work's duration.
	idleShare = 4
	// retryPause is the pause after work that failed.
	retryPause = time.Second
)

// workDue works on a page that is due at the given time, or some that were changed. It reports
// whether there was one.
func (sc *Scrubber) workDue(s *scrub, now int64) bool {
	pages, reason := sc.due.take(now)
	switch reason {
	case reasonChanged:
		lost, failed := sc.lookAgain(pages)
		if lossShare*lost >= scrubChunk {
			sc.noteLoss(s)
		}
		sc.noteFaulty(s, failed)
	case reasonResidue, reasonFormat:
		sc.tidy(pages[0].Page, reason)
	case reasonVerified:
		sc.verify(pages[0].Page)
	}
	return len(pages) > 0
}

// lookLater removes stale and missing pages from those found at fault, and has them looked at
// again. A change may be on its way to the page, or a new page to the store, as in an import, or if
// the changes of a source come fast. If it does not arrive, its writer has died or cannot reach the
// store, or the store lost it.
func (sc *Scrubber) lookLater(found []faultyPage) (others []faultyPage) {
	from := sc.arrivalTime()
	for _, m := range found {
		if m.reason == PageBehind || m.reason == PageMissing {
			sc.due.expect(PageAt{m.page, m.want}, from)
		} else {
			others = append(others, m)
		}
	}
	return others
}

// lookAgain rebuilds those of the pages that still lack the sequence that was expected. It returns
// their number, and how many could not be rebuilt. The others may lack a later change, which has
// the same time to arrive.
func (sc *Scrubber) lookAgain(expected []PageAt) (lost, failed int) {
	found, statuses, _ := sc.peek(expected) // the next reader of pages reports the error
	failed = sc.repair(found, repairPatience, maxRefused)
	from := sc.arrivalTime()
	for i, st := range statuses {
		now := PageAt{expected[i].Page, sc.sequences.Of(expected[i].Page).Required.Load()}
		if st.Err == nil && now.Sequence > max(st.Header.Sequence, expected[i].Sequence) {
			sc.due.expect(now, from)
		}
	}
	return len(found), failed
}

// noteFaulty counts pages that could not be rebuilt when looked at again in the survey of their
// round, which may have ended meanwhile.
func (sc *Scrubber) noteFaulty(s *scrub, failed int) {
	switch {
	case failed == 0:
	case s.next > 0:
		s.survey.Faulty += failed
	default:
		ended := sc.storage.stats.survey.Load().clone()
		ended.Faulty = min(ended.Looked, ended.Faulty+failed)
		sc.storage.stats.survey.Store(ended)
	}
}

// tidy rebuilds a page that may be used as it is. That removes bits of keys that were removed,
// which are reported a little more often until then. Or it gives the page a later format version.
// The next such page waits for a pause after it.
func (sc *Scrubber) tidy(page uint32, reason string) {
	start, pause := time.Now(), retryPause
	if sc.rebuilder.inParts(page) { // other pages would have to wait for it
		if sc.largeWork(func(ctx context.Context) { sc.tidyWithin(ctx, page, reason) }) {
			pause = idleShare * time.Since(start)
		} else {
			sc.due.add(page, reason, 0)
		}
	} else {
		ctx, cancel := context.WithTimeout(sc.life.Base, repairPatience)
		defer cancel()
		if sc.tidyWithin(ctx, page, reason) {
			pause = idleShare * time.Since(start)
		}
	}
	sc.due.rest(sc.life.Elapsed() + int64(pause))
}

// tidyWithin is tidy with a context. It returns false if ledger or store is down or too
// slow.
func (sc *Scrubber) tidyWithin(ctx context.Context, page uint32, reason string) bool {
	f, err := sc.rebuilder.rebuild(ctx, page, 0, reason, math.MaxInt)
	if errors.Is(err, ledger.ErrGone) || err == nil && f.storeErr == nil && f.placed {
		return true
	}
	sc.due.add(page, reason, 0) // also if the page was written to during the rebuild
	return err == nil && f.storeErr == nil
}

// verify compares the keys of one page with the ledger and rebuilds the page. That repairs what a
// header cannot reveal: flipped bits and collision bits. The scrub does not wait for a large page.
func (sc *Scrubber) verify(page uint32) {
	large := sc.rebuilder.inParts(page)
	if !large {
		ctx, cancel := context.WithTimeout(sc.life.Base, pageTimeout)
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
	ids := []favfilter.PageID{sc.layout.PageID(page)}
	loaded, _, err := sc.storage.loadWithin(ctx, patience(large), ids, nil)
	if err != nil {
		return err
	}
	if loaded[0].Damage != nil {
		damaged := []faultyPage{{page, 0, damageReason(loaded[0].Damage)}}
		sc.repair(damaged, pageTimeout, 1) //nolint:contextcheck // it has its own limit
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
	for _, part := range keys.parts {
		count += len(part.hashes)
		whole = whole && lacking(loaded[0].Page, part) == 0
	}
	if !whole || int(h.Count) != count {
		sc.storage.log.ErrorContext(
			ctx, "a page does not hold what the ledger does",
			slog.Any("page", page), slog.Any("sequence", h.Sequence),
		)
		corrupt := []faultyPage{{page, h.Sequence, reasonCorrupt}}
		sc.repair(corrupt, pageTimeout, 1) //nolint:contextcheck // as above
		return nil
	}
	// No comparison reveals wrong collision bits, so every compared page is rebuilt.
	err = sc.rebuilder.remake(ctx, page, h.Sequence, reasonVerified)
	sc.noteRepair(ctx, page, reasonVerified, err)
	return nil
}

// largeWork starts background work on a large page, and reports whether it did. Only one such work
// runs at a time. A pause of idleShare times its duration follows.
func (sc *Scrubber) largeWork(do func(ctx context.Context)) bool {
	if !sc.largeWorks.CompareAndSwap(false, true) {
		return false
	}
	begun := sc.life.Background(func() {
		defer sc.largeWorks.Store(false)
		ctx, cancel := context.WithTimeout(sc.life.Open, largeTimeout)
		defer cancel()
		start := time.Now()
		do(ctx)
		// An error means that the Pages are closed. The work ends then, too.
		_ = sc.life.Rest(sc.life.Base, idleShare*time.Since(start))
	})
	if !begun {
		sc.largeWorks.Store(false)
	}
	return begun
}
