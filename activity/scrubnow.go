package activity

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// MaxScrubRate is the most pages a second that a scrub looks at.
	MaxScrubRate = 100_000
	// askedRate is how many a scrub that was asked for looks at, if it was not said.
	askedRate = 10_000
)

// ScrubProgress is how far a scrub that was asked for is.
type ScrubProgress struct {
	Running bool
	Done    int            // pages
	All     int            // of so many
	Found   map[string]int // pages amiss, by what was wrong with them
	Failed  int            // of these, those that could not be made anew
	Unasked int            // pages that could not be looked at

	Started, Ended time.Time // zero: it has not; of one that ended early Done is less than All
	Err            error     // why it ended early
}

// Amiss reports whether something is left to be mended, or was not seen.
func (p ScrubProgress) Amiss() bool {
	return p.Failed > 0 || p.Unasked > 0 || p.Done < p.All || p.Err != nil
}

// asked is the scrub that was asked for last.
type asked struct {
	mu   sync.Mutex
	last ScrubProgress
}

// ScrubNow compares the header of every page with the ledger, once, beside what the Recorder does of its own accord: rate pages a
// second, 1 to [MaxScrubRate], or 0 for 10,000. What is amiss is made anew. progress is called after
// every 64 pages or less, unless it is nil. What it returns is as of the end, also with an error, which is a [*NoLedgerError], an
// [*InvalidError] of field "rate", [ErrClosed], or that of ctx.
func (r *Recorder) ScrubNow(ctx context.Context, rate int, progress func(ScrubProgress)) (ScrubProgress, error) {
	if err := r.mayScrub(rate); err != nil {
		return ScrubProgress{}, err
	}
	if progress == nil {
		progress = func(ScrubProgress) {}
	}
	return r.scrubRound(ctx, rate, progress)
}

// scrubRound is ScrubNow of what was checked.
func (r *Recorder) scrubRound(ctx context.Context, rate int, progress func(ScrubProgress)) (ScrubProgress, error) {
	if rate == 0 {
		rate = askedRate
	}
	pages := r.placements.census()
	p := ScrubProgress{Running: true, All: int(r.identity.Pages) + pages.len(), Found: make(map[string]int), Started: time.Now()}
	progress(p.clone())
	var err error
	for p.Done < p.All && err == nil {
		var some []uint32
		for n := p.Done; n < min(p.All, p.Done+scrubChunk); n++ {
			some = append(some, r.pageNumber(pages, n))
		}
		begun := time.Now()
		r.scrubSome(some, &p) //nolint:contextcheck // what is amiss is made anew, whoever goes away
		p.Done += len(some)
		if pause := time.Duration(len(some))*time.Second/time.Duration(rate) - time.Since(begun); p.Done < p.All && pause > 0 {
			err = r.rest(ctx, pause)
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
	if err != nil {
		p.Err = err
		return p, fmt.Errorf("scrub %d pages: %w", p.All, err)
	}
	return p, nil
}

// mayScrub checks what was asked for.
func (r *Recorder) mayScrub(rate int) error {
	switch {
	case rate < 0 || rate > MaxScrubRate:
		return &InvalidError{Code: CodeOutOfRange, Field: "rate", Message: fmt.Sprintf("%d is not in 1 to %d", rate, MaxScrubRate)}
	case r.isClosed():
		return ErrClosed
	default:
		return nil
	}
}

// scrubSome looks at pages, and has those made anew that are amiss.
func (r *Recorder) scrubSome(pages []uint32, p *ScrubProgress) {
	found, standings := r.inspect(pages)
	unasked := len(pages) - len(standings) // all, where the store does not answer
	for i := range standings {
		if standings[i].Err != nil {
			unasked++
		}
	}
	for _, m := range found {
		p.Found[m.reason]++
	}
	p.Unasked += unasked
	r.stats.scrubbed.Add(uint64(len(pages) - unasked))
	p.Failed += r.repair(found, pageTimeout, len(found))
}

func (p ScrubProgress) clone() ScrubProgress {
	p.Found = maps.Clone(p.Found)
	return p
}

// StartScrub has [Recorder.ScrubNow] go on in the background, and reports whether it began to: not where one is under way that was
// started so.
func (r *Recorder) StartScrub(rate int) (started bool, err error) {
	if err := r.mayScrub(rate); err != nil {
		return false, err
	}
	r.asked.mu.Lock()
	defer r.asked.mu.Unlock()
	if r.asked.last.Running {
		return false, nil
	}
	at := time.Now() // before the scrub takes its own time: a later one would look like a scrub of another process
	begun := r.background(func() {
		last, err := r.scrubRound(r.base, rate, r.noteScrub)
		last.Running, last.Err = false, err
		r.noteScrub(last)
		r.log.Info("a scrub that was asked for has ended", "pages", last.Done, "of", last.All, "found", last.Found,
			"failed", last.Failed, "unasked", last.Unasked)
	})
	if !begun {
		return false, ErrClosed
	}
	r.asked.last = ScrubProgress{Running: true, Started: at}
	return true, nil
}

func (r *Recorder) noteScrub(p ScrubProgress) {
	r.asked.mu.Lock()
	defer r.asked.mu.Unlock()
	r.asked.last = p
}

// ScrubStatus is how far the scrub is that [Recorder.StartScrub] started last; the zero value if none was.
func (r *Recorder) ScrubStatus() ScrubProgress {
	r.asked.mu.Lock()
	defer r.asked.mu.Unlock()
	return r.asked.last.clone()
}
