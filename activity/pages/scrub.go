package pages

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// scrubChunk is the number of pages read in one command.
	scrubChunk = 64
	// verifyEvery is the number of headers after which one page is compared with the ledger key by
	// key, and rebuilt if necessary. That costs a thousand times as much as a header.
	verifyEvery = 256
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
	return &Scrubber{
		core:        a.core,
		rebuilder:   a.rebuilder,
		applier:     a,
		rateChanged: make(chan struct{}, 1),
	}
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
// may change. It rebuilds pages that lost changes, are damaged, or are of another ledger. Between
// two steps it works on the pages that are due. Processes start at random pages, so that they
// seldom compare the same one.
func (sc *Scrubber) scrubLoop() {
	s := scrub{missed: 1, pages: sc.layout.Pages(), survey: newSurvey()}
	s.next = rand.IntN(s.pages.Len()) //nolint:gosec // any page will do
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := sc.life.Elapsed()
	for {
		select {
		case <-timer.C:
		case <-sc.due.more:
		case <-sc.rateChanged: // at the old rate, the next step could be a minute away
		case <-sc.life.Open.Done():
			return
		}
		sc.workDue(&s, sc.life.Elapsed())
		if next := last + int64(s.pause(sc.rate.Load(), sc.life.Elapsed())); sc.life.Elapsed() < next {
			timer.Reset(time.Duration(min(next, sc.due.next()) - sc.life.Elapsed()))
			continue
		}
		sc.scrubStep(&s)
		last = sc.life.Elapsed()
		timer.Reset(0)
	}
}

// scrubStep compares the next pages.
func (sc *Scrubber) scrubStep(s *scrub) {
	now := sc.layout.Pages()
	if s.pages == nil || s.pages.First != now.First || s.pages.Shared != now.Shared {
		s.pages, s.next = now, 0 // the shared pages have changed, so the round starts again
		s.missed, s.survey = 0, newSurvey()
	}
	all, pages := s.pages.Len(), s.pages.Chunk(s.next, scrubChunk)
	found, compared := sc.compare(pages, s.survey)
	found = sc.lookLater(found)
	s.survey.Faulty += sc.repair(found, repairPatience, maxRefused)
	s.missed += len(pages) - compared
	if s.looked += compared; s.looked >= verifyEvery {
		s.looked = 0
		page := s.pages.Number(rand.IntN(all)) //nolint:gosec // covers every page eventually
		sc.due.add(page, reasonVerified, 0)
	}
	if s.next += len(pages); s.next == all {
		sc.endRound(s)
		s.next, s.pages = 0, nil
	} else {
		sc.publish(s.survey)
	}
	sc.storage.stats.scrubAt.Store(uint32(s.next))
	lost := lossShare*len(found) >= len(pages)
	if lost {
		sc.alarm(s)
	}
	s.stepped, s.lost = len(pages), lost
}

// endRound is called after the last page of a round.
func (sc *Scrubber) endRound(s *scrub) {
	sc.layout.Forget(2 * largeTimeout)
	for _, page := range sc.sequences.ForgetReleased(sc.layout.Knows) {
		sc.rebuilder.large.forget(page)
		sc.rebuilder.held.pages.Drop(page)
	}
	if s.missed == 0 {
		sc.storage.stats.scrubRounds.Add(1)
		sc.storage.stats.roundEnd.Store(sc.life.Elapsed())
		s.survey.Whole = true
	}
	sc.publish(s.survey)
	s.missed, s.survey = 0, newSurvey()
}
