package pages

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// reasonCorrupt is the reason of a page that lacks keys although its sequence is current.
const reasonCorrupt = "corrupt"

// errBulked is the error of a page that is skipped, because a Bulk has yet to write it.
var errBulked = errors.New("a bulk import has yet to write the page")

// faultyPage is a page that disagrees with the ledger.
type faultyPage struct {
	page   uint32
	want   uint64
	reason string
}

// compare compares the headers of pages with the ledger, and adds them to a survey. It returns the
// pages at fault, and the number of those whose header was read.
func (sc *Scrubber) compare(pages []uint32, to *Survey) (found []faultyPage, compared int) {
	found, statuses, _ := sc.peek(sc.required(pages)) // the next reader of pages reports the error
	for i, st := range statuses {
		if st.Err == nil {
			compared++
			to.add(pages[i], st)
			sc.weigh(&to.load, pages[i], st)
			if !st.Missing && st.Damage == nil && sc.rebuilder.outdated(st.Header) {
				sc.due.add(pages[i], reasonFormat, 0)
			}
		}
	}
	sc.storage.stats.scrubbed.Add(uint64(compared))
	return found, compared
}

// required returns the sequences that the pages must have.
func (sc *Scrubber) required(pages []uint32) []PageAt {
	all := make([]PageAt, len(pages))
	for i, page := range pages {
		all[i] = PageAt{page, sc.sequences.Of(page).Required.Load()}
	}
	return all
}

// peek reads the headers of pages that were required to have a sequence before the call. It returns
// those that have to be rebuilt, and the status of each page.
func (sc *Scrubber) peek(
	all []PageAt,
) (found []faultyPage, statuses []favfilter.Status, err error) {
	ctx, cancel := context.WithTimeout(sc.life.Base, loadTimeout)
	defer cancel()
	ids := make([]favfilter.PageID, len(all))
	for i, at := range all {
		ids[i] = sc.layout.PageID(at.Page)
	}
	statuses, err = sc.storage.store.Peek(ctx, ids)
	switch {
	case err != nil:
		sc.storage.noteStore(ctx, err)
		return nil, nil, err
	case sc.storage.storeDown.Load(): // it tells of pages, but may still fail to return them
		_, _ = sc.storage.load(ctx, ids[:1])
	}
	for i, st := range statuses {
		page, want := all[i].Page, all[i].Sequence
		if _, bulked := sc.bulked.Load(page); bulked {
			statuses[i].Err = errBulked
			continue
		}
		if st.Err != nil {
			continue
		}
		if st.Missing && sc.sequences.Of(page).Known.Load() == 0 {
			continue
		}
		reason, _ := sc.fault(ctx, page, want, st) // after an error, a later round tells
		if reason == "" && sc.rebuilder.overfull(st.Header) {
			reason = PageOverfull // the false-positive rate was lowered
		}
		if !st.Missing && st.Damage == nil {
			sc.rebuilder.held.keepBuild(page, st.Header)
		}
		if reason == "" {
			sc.sequences.Of(page).Stored.Raise(st.Header.Sequence)
			continue
		}
		found = append(found, faultyPage{page, want, reason})
	}
	return found, statuses, nil
}

// repair counts the pages found, and rebuilds them with rebuildAll.
func (sc *Scrubber) repair(found []faultyPage, patience time.Duration, most int) (failed int) {
	for _, m := range found {
		sc.storage.stats.found(m.reason)
	}
	return sc.rebuildAll(found, patience, most)
}

// rebuildAll rebuilds pages in random order. It returns how many it could not rebuild in time. A
// rebuild that takes longer than patience continues in the background. After most failures of the
// store, rebuildAll starts no further rebuild.
func (sc *Scrubber) rebuildAll(found []faultyPage, patience time.Duration, most int) (failed int) {
	var repaired, refused atomic.Int64
	order := rand.Perm(len(found)) //nolint:gosec // need not be unpredictable
	inParallel(maxRepairs, order, func(i int, _ *sync.Mutex) {
		if sc.life.IsClosed() || refused.Load() >= int64(most) {
			return
		}
		m := found[i]
		ctx, cancel := context.WithTimeout(sc.life.Base, patience)
		defer cancel()
		err := sc.rebuildFaulty(ctx, m)
		if err == nil || ctx.Err() == nil {
			sc.noteRepair(ctx, m.page, m.reason, err)
		}
		failed, ok := errors.AsType[*UnavailableError](err)
		switch {
		case err == nil:
			repaired.Add(1)
		case ok && failed.Dependency == "pages":
			refused.Add(1)
		}
	})
	return len(found) - int(repaired.Load())
}

// rebuildFaulty rebuilds the page of a faultyPage.
func (sc *Scrubber) rebuildFaulty(ctx context.Context, m faultyPage) error {
	// A newer page may have the fault, too, because no sequence reveals it.
	if m.reason == reasonCorrupt {
		return sc.rebuilder.putInPlace(ctx, PageAt{m.page, m.want}, m.reason)
	}
	return sc.rebuilder.remake(ctx, m.page, m.want, m.reason)
}

// noteRepair logs the first failure of repairs and the first success after it.
func (sc *Scrubber) noteRepair(ctx context.Context, page uint32, reason string, err error) {
	switch {
	case sc.life.IsClosed():
	case err != nil && sc.repairOutage.failed(sc.life.Elapsed()):
		sc.storage.log.WarnContext(
			ctx, "pages cannot be repaired", "page", page, "reason", reason, "error", err,
		)
	case err == nil && sc.repairOutage.worked(sc.life.Elapsed()):
		sc.storage.log.InfoContext(ctx, "pages can be repaired again")
	}
}
