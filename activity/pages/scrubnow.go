package pages

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// MaxScrubRate is the largest rate of a scrub, in pages a second.
	MaxScrubRate = 100_000
	// askedRate is the default rate of a scrub on request.
	askedRate = 10_000
)

// ScrubProgress is the progress of a scrub on request.
type ScrubProgress struct {
	Running bool
	Done    int            // pages compared
	All     int            // pages to compare
	Found   map[string]int // pages at fault, by reason
	Failed  int            // of these, pages that could not be rebuilt
	Unasked int            // pages that could not be read

	// Started and Ended are zero before they happen. If the scrub ended early, Done is less than
	// All.
	Started, Ended time.Time
	Err            error // why it ended early
}

// asked holds the latest scrub on request.
type asked struct {
	mu   sync.Mutex
	last ScrubProgress
}

// Scrub compares the header of every page with the ledger once, beside the scrub that always runs,
// and rebuilds pages at fault. It does so in the background, until it is done or the Pages are
// closed. rate is in pages a second, 1 to [MaxScrubRate], or 0 for 10,000. Scrub reports whether it
// started: it does not while an earlier one is running. Errors are an [*InvalidError] of field
// "rate", or [ErrClosed].
func (sc *Scrubber) Scrub(rate int) (started bool, err error) {
	if rate < 0 || rate > MaxScrubRate {
		return false, &InvalidError{
			Code:    CodeOutOfRange,
			Field:   "rate",
			Message: fmt.Sprintf("%d is not in 1 to %d", rate, MaxScrubRate),
		}
	}
	sc.asked.mu.Lock()
	defer sc.asked.mu.Unlock()
	if sc.asked.last.Running {
		return false, nil
	}
	p := ScrubProgress{Running: true, Started: time.Now()}
	if !sc.life.Background(func() { sc.scrubRound(cmp.Or(rate, askedRate), p) }) {
		return false, ErrClosed
	}
	sc.asked.last = p
	return true, nil
}

// scrubRound compares all pages. It notes the progress after every 64 pages or fewer.
func (sc *Scrubber) scrubRound(rate int, p ScrubProgress) {
	pages, survey := sc.layout.Pages(), newSurvey()
	p.All, p.Found = pages.Len(), make(map[string]int)
	for p.Running {
		begun := time.Now()
		some := pages.Chunk(p.Done, scrubChunk)
		found, compared := sc.compare(some, survey)
		for _, m := range found {
			p.Found[m.reason]++
		}
		failed := sc.repair(found, pageTimeout, len(some))
		survey.Faulty += failed
		p.Failed += failed
		p.Unasked += len(some) - compared
		if p.Done += len(some); p.Done < p.All {
			sc.noteScrub(p)
			due := time.Duration(len(some)) * time.Second / time.Duration(rate)
			p.Err = sc.life.Rest(sc.life.Base, max(0, due-time.Since(begun)))
		}
		p.Running = p.Done < p.All && p.Err == nil
	}
	if survey.Whole = survey.Looked == p.All && sc.layout.Pages().First == pages.First; survey.Whole {
		sc.publish(survey)
	}
	p.Ended = time.Now()
	sc.noteScrub(p)
	sc.storage.log.Info(
		"a scrub that was asked for has ended",
		"pages", p.Done, "of", p.All, "found", p.Found, "failed", p.Failed, "unasked", p.Unasked,
	)
}

func (sc *Scrubber) noteScrub(p ScrubProgress) {
	p.Found = maps.Clone(p.Found)
	sc.asked.mu.Lock()
	defer sc.asked.mu.Unlock()
	sc.asked.last = p
}

// ScrubStatus returns the progress of the latest [Scrubber.Scrub], which is read-only; the zero
// value if there was none.
func (sc *Scrubber) ScrubStatus() ScrubProgress {
	sc.asked.mu.Lock()
	defer sc.asked.mu.Unlock()
	return sc.asked.last
}
