package pages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// scrubChunk is the number of pages read in one command.
	scrubChunk = 64
	// verifyEvery is the number of headers after which one page is compared with the ledger key by
	// key, and rebuilt if necessary. That costs a thousand times as much as a header.
	verifyEvery = 256
	// A scrub goes on lossSpeed times as fast after a step in which one page in lossShare was at
	// fault: the store has lost many.
	lossSpeed = 20
	lossShare = 8
	// maxRepairs is the number of pages that a scrub rebuilds at once. It leaves half of the
	// rebuilds to feeds and writes.
	maxRepairs = maxRebuilds / 2
	// repairPatience is how long the background work waits for one page before it goes on to others.
	repairPatience = time.Second
	// maxRefused is the number of repairs of a step that may fail before the rest is left to the
	// next round: a store that refuses one page refuses most.
	maxRefused = 1
)

// Scrubber is the background work on pages: it looks for pages that differ from the ledger, and
// rebuilds them. It is safe for concurrent use.
type Scrubber struct {
	core

	rebuilder *rebuilder
	applier   *applier
	asked     asked

	rate        atomic.Int64  // pages a second; 0: passive Pages
	rateChanged chan struct{} // holds an element after a change
	// bulked holds the numbers of the pages that a Bulk is working on. They are not compared.
	bulked       sync.Map
	repairOutage outage // pages cannot be repaired
	// largeWorks is set while the background work compares or tidies a large page.
	largeWorks atomic.Bool
}

func newScrubber(a *applier) *Scrubber {
	return &Scrubber{core: a.core, rebuilder: a.rebuilder, applier: a, rateChanged: make(chan struct{}, 1)}
}

// scrub is the state of the goroutine that scrubs.
type scrub struct {
	pages  *pageSet // of this round; nil: the round has not begun
	next   int      // index of the next page
	looked int      // headers since the last page to verify
	// missed is the number of pages of this round that were not compared. In the first round it
	// starts at 1, for the pages before the random first one.
	missed int
	survey *Survey // of this round
	lost   bool    // the last step found many pages at fault
}

// SetScrubRate changes [Config.ScrubRate] to 1 to 100,000 pages a second, effective at once. It is
// safe for concurrent use. On passive Pages it is a no-op.
func (sc *Scrubber) SetScrubRate(rate int) error {
	if rate < 1 || rate > MaxScrubRate {
		return fmt.Errorf("scrub rate %d is not in 1 to %d pages a second", rate, MaxScrubRate)
	}
	if sc.rate.Load() == 0 {
		return nil
	}
	sc.rate.Store(int64(rate))
	select {
	case sc.rateChanged <- struct{}{}:
	default: // the loop has yet to read an earlier change
	}
	return nil
}

// scrubLoop compares the headers of all pages with the ledger, round after round, at a rate that
// may change. It rebuilds pages that lost writes, are damaged, or are of another ledger. Between
// two steps it works on the pages that are due. Processes start at random pages, so that they
// seldom compare the same one.
func (sc *Scrubber) scrubLoop() {
	s := scrub{missed: 1, pages: sc.layout.pages(), survey: newSurvey()}
	s.next = rand.IntN(s.pages.len()) //nolint:gosec // any page will do
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := sc.life.elapsed()
	pause := time.Duration(0) // after the last step, at one page a second
	for {
		select {
		case <-timer.C:
		case <-sc.due.more:
		case <-sc.rateChanged: // at the old rate, the next step could be a minute away
		case <-sc.life.open.Done():
			return
		}
		sc.workDue(sc.life.elapsed())
		if next := last + int64(pause)/sc.rate.Load(); sc.life.elapsed() < next {
			timer.Reset(time.Duration(min(next, sc.due.next()) - sc.life.elapsed()))
			continue
		}
		pause = sc.scrubStep(&s)
		last = sc.life.elapsed()
		timer.Reset(0)
	}
}

// noteRepair logs the first failure of repairs and the first success after it.
func (sc *Scrubber) noteRepair(ctx context.Context, page uint32, reason string, err error) {
	switch {
	case sc.life.isClosed():
	case err != nil && sc.repairOutage.failed(sc.life.elapsed()):
		sc.storage.log.WarnContext(ctx, "pages cannot be repaired", "page", page, "reason", reason, "error", err)
	case err == nil && sc.repairOutage.worked(sc.life.elapsed()):
		sc.storage.log.InfoContext(ctx, "pages can be repaired again")
	}
}

// scrubStep compares the next pages. It returns how long they take at one page a second.
func (sc *Scrubber) scrubStep(s *scrub) (pause time.Duration) {
	if now := sc.layout.pages(); s.pages == nil || s.pages.first != now.first || s.pages.shared != now.shared {
		s.pages, s.next = now, 0 // the shared pages have changed, so the round starts again
		s.missed, s.survey = 0, newSurvey()
	}
	all, pages := s.pages.len(), s.pages.chunk(s.next)
	c := sc.compare(pages, repairPatience, maxRefused, s.survey)
	s.missed += len(pages) - c.compared
	if s.looked += c.compared; s.looked >= verifyEvery {
		s.looked = 0
		sc.due.add(s.pages.number(rand.IntN(all)), reasonVerified, 0) //nolint:gosec // covers every page eventually
	}
	if s.next += len(pages); s.next == all {
		sc.endRound(s)
		s.next, s.pages = 0, nil
	} else {
		sc.publish(s.survey)
	}
	sc.storage.stats.scrubAt.Store(uint32(s.next))
	pause, lost := time.Duration(len(pages))*time.Second, lossShare*len(c.found) >= len(pages)
	if lost {
		pause /= lossSpeed
	}
	if lost && !s.lost {
		sc.storage.stats.alarms.Add(1)
	}
	s.lost = lost
	return pause
}

// endRound is called after the last page of a round.
func (sc *Scrubber) endRound(s *scrub) {
	sc.layout.forget()
	for _, page := range sc.sequences.forgetReleased(sc.layout.knows) {
		sc.rebuilder.large.forget(page)
		sc.rebuilder.held.pages.Drop(page)
	}
	if s.missed == 0 {
		sc.storage.stats.scrubRounds.Add(1)
		sc.storage.stats.roundEnd.Store(sc.life.elapsed())
		s.survey.Whole = true
	}
	sc.publish(s.survey)
	s.missed, s.survey = 0, newSurvey()
}

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

// compared is the result of a comparison of pages.
type compared struct {
	compared int // pages whose header was read
	found    []faultyPage
	failed   int // of these, pages that could not be rebuilt
}

// compare compares the headers of pages with the ledger, and adds them to a survey. It counts the
// pages at fault, and rebuilds them with rebuildAll.
func (sc *Scrubber) compare(pages []uint32, patience time.Duration, most int, to *Survey) (c compared) {
	found, statuses, _ := sc.peek(pages) // the next reader of pages reports the error
	for i, st := range statuses {
		if st.Err == nil {
			c.compared++
			to.add(pages[i], st)
			sc.weigh(&to.load, pages[i], st)
		}
	}
	sc.storage.stats.scrubbed.Add(uint64(c.compared))
	c.found, c.failed = found, sc.repair(found, patience, most)
	to.Faulty += c.failed
	return c
}

// peek reads the headers of pages. It returns those that have to be rebuilt, and the status of each
// page.
func (sc *Scrubber) peek(pages []uint32) (found []faultyPage, statuses []favfilter.Status, err error) {
	ctx, cancel := context.WithTimeout(sc.life.base, loadTimeout)
	defer cancel()
	ids := make([]favfilter.PageID, len(pages))
	want := make([]uint64, len(pages))
	for i, page := range pages {
		ids[i] = sc.layout.pageID(page)
		want[i] = sc.sequences.of(page).required.Load() // before the read
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
		page := pages[i]
		if _, bulked := sc.bulked.Load(page); bulked {
			statuses[i].Err = errBulked
			continue
		}
		if st.Err != nil {
			continue
		}
		if st.Missing && sc.sequences.of(page).known.Load() == 0 {
			continue
		}
		reason, _ := sc.poller.fault(ctx, page, want[i], st) // after an error, a later round tells
		if reason == "" && sc.rebuilder.overfull(st.Header) {
			reason = PageOverfull // the false-positive rate was lowered
		}
		if !st.Missing && st.Damage == nil {
			sc.rebuilder.held.keepBuild(page, st.Header)
		}
		if reason == "" {
			sc.sequences.of(page).stored.raise(st.Header.Sequence)
			continue
		}
		found = append(found, faultyPage{page, want[i], reason})
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
	inParallel(maxRepairs, rand.Perm(len(found)), func(i int, _ *sync.Mutex) { //nolint:gosec // any order will do
		if sc.life.isClosed() || refused.Load() >= int64(most) {
			return
		}
		m := found[i]
		ctx, cancel := context.WithTimeout(sc.life.base, patience)
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
