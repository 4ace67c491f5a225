package pages

import (
	"context"
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

// Faulty reports whether a page may still be at fault: a rebuild failed, or a page was not
// compared.
func (p ScrubProgress) Faulty() bool {
	return p.Failed > 0 || p.Unasked > 0 || p.Done < p.All || p.Err != nil
}

// asked holds the latest scrub on request.
type asked struct {
	mu   sync.Mutex
	last ScrubProgress
}

// ScrubNow compares the header of every page with the ledger once, beside the background scrub, and
// rebuilds pages at fault. rate is in pages a second, 1 to [MaxScrubRate], or 0 for 10,000.
// progress, unless it is nil, is called at the start and after every 64 pages or fewer.
//
// ScrubNow returns the progress at the end, also with an error. The error is an [*InvalidError] of
// field "rate", [ErrClosed], or that of ctx.
func (sc *Scrubber) ScrubNow(ctx context.Context, rate int, progress func(ScrubProgress)) (ScrubProgress, error) {
	if err := sc.mayScrub(rate); err != nil {
		return ScrubProgress{}, err
	}
	if progress == nil {
		progress = func(ScrubProgress) {}
	}
	return sc.scrubRound(ctx, rate, progress)
}

// scrubRound is ScrubNow after the check of the rate.
func (sc *Scrubber) scrubRound(ctx context.Context, rate int, progress func(ScrubProgress)) (ScrubProgress, error) {
	if rate == 0 {
		rate = askedRate
	}
	pages := sc.layout.pages()
	p := ScrubProgress{Running: true, All: pages.len(), Found: make(map[string]int), Started: time.Now()}
	progress(p.clone())
	survey := newSurvey()
	var err error
	for p.Done < p.All && err == nil {
		var some []uint32
		for n := p.Done; n < min(p.All, p.Done+scrubChunk); n++ {
			some = append(some, pages.number(n))
		}
		begun := time.Now()
		c := sc.compare(some, pageTimeout, len(some), survey) //nolint:contextcheck // pages are repaired even if the caller goes
		for _, m := range c.found {
			p.Found[m.reason]++
		}
		p.Failed += c.failed
		p.Unasked += len(some) - c.compared
		p.Done += len(some)
		if pause := time.Duration(len(some))*time.Second/time.Duration(rate) - time.Since(begun); p.Done < p.All && pause > 0 {
			err = sc.life.rest(ctx, pause)
		}
		if err == nil && p.Done < p.All {
			err = ctx.Err()
		}
		p.Running = p.Done < p.All && err == nil
		if !p.Running {
			p.Ended = time.Now()
		}
		progress(p.clone())
	}
	if survey.Whole = survey.Looked == p.All; survey.Whole {
		sc.publish(survey)
	}
	if err != nil {
		p.Err = err
		return p, fmt.Errorf("scrub %d pages: %w", p.All, err)
	}
	return p, nil
}

// mayScrub checks the rate, and that the Pages are not closed.
func (sc *Scrubber) mayScrub(rate int) error {
	switch {
	case rate < 0 || rate > MaxScrubRate:
		return &InvalidError{Code: CodeOutOfRange, Field: "rate", Message: fmt.Sprintf("%d is not in 1 to %d", rate, MaxScrubRate)}
	case sc.life.isClosed():
		return ErrClosed
	default:
		return nil
	}
}

func (p ScrubProgress) clone() ScrubProgress {
	p.Found = maps.Clone(p.Found)
	return p
}

// StartScrub runs [Pages.ScrubNow] in the background. It reports whether it started: it does not
// while an earlier one is running. Errors are an [*InvalidError] of field "rate", or [ErrClosed].
func (sc *Scrubber) StartScrub(rate int) (started bool, err error) {
	if err := sc.mayScrub(rate); err != nil {
		return false, err
	}
	sc.asked.mu.Lock()
	defer sc.asked.mu.Unlock()
	if sc.asked.last.Running {
		return false, nil
	}
	// Taken before the scrub's own start time, which would otherwise look like another process's
	// scrub.
	at := time.Now()
	begun := sc.life.background(func() {
		last, err := sc.scrubRound(sc.life.base, rate, sc.noteScrub)
		last.Running, last.Err = false, err
		sc.noteScrub(last)
		sc.storage.log.Info("a scrub that was asked for has ended", "pages", last.Done, "of", last.All, "found", last.Found,
			"failed", last.Failed, "unasked", last.Unasked)
	})
	if !begun {
		return false, ErrClosed
	}
	sc.asked.last = ScrubProgress{Running: true, Started: at}
	return true, nil
}

func (sc *Scrubber) noteScrub(p ScrubProgress) {
	sc.asked.mu.Lock()
	defer sc.asked.mu.Unlock()
	sc.asked.last = p
}

// ScrubStatus returns the progress of the latest scrub by [Pages.StartScrub]; the zero value if
// there was none.
func (sc *Scrubber) ScrubStatus() ScrubProgress {
	sc.asked.mu.Lock()
	defer sc.asked.mu.Unlock()
	return sc.asked.last.clone()
}
