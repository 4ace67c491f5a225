package pages

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/lifecycle"
)

const (
	// maxTimesDue bounds a growth that is not forced: at most this many times the pages that are
	// due.
	maxTimesDue = 16
	// sampledPages is the largest number of pages that are read to estimate the keys of all.
	sampledPages = 128
	// growPause is the pause of a growth in the background while ledger or store is unavailable.
	growPause = 2 * time.Second
)

// Layout describes how many pages users share, and how many they should share.
type Layout struct {
	Pages   uint32 // the number asked for last
	Current uint32 // the number that users share now
	// Built is the number of pages of the next layout that this process has built, while Pages is
	// larger than Current. Otherwise it is Pages.
	Built int

	Dedicated   int     // dedicated pages
	KeysPerPage float64 // mean of shared pages, by the last scrub round; 0 before the first
	Due         uint32  // the number of pages that there should be; 0: there are enough

	Growing bool  // this process is changing the number, in the background
	Err     error // why the change stalled; nil: it has not
}

// Grower changes the number of pages that users share. It is safe for concurrent use.
type Grower struct {
	core

	applier  *applier
	scrubber *Scrubber

	slot  chan struct{} // holds an element while this process changes the number
	built atomic.Int64  // pages of the layout that is being built

	mu     sync.Mutex
	target uint32 // of the growth in the background; 0: none
	err    error  // of its last attempt
}

func newGrower(s *Scrubber) *Grower {
	return &Grower{core: s.core, applier: s.applier, scrubber: s, slot: make(chan struct{}, 1)}
}

// state returns the target of the growth in the background, 0 without one, and the error of its
// last attempt.
func (gr *Grower) state() (target uint32, err error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return gr.target, gr.err
}

// Grow changes the number of pages that users share, to a power of two up to 2^24, while feeds and
// writes go on. The number can only grow. The change runs in the background, until it is done or
// the Pages are closed: it builds the new pages first, then makes every process use them. While
// ledger or store is unavailable, it retries. [Grower.Layout] has its progress.
//
// If a process ends before its change is done, nothing is lost, but writes take longer. A later
// Grow for any number, or a process that starts, completes the change first. Processes that grow at
// once share the work. Grow reports whether it started a change, or raised the number of one that
// is running.
//
// Grow returns an [*InvalidError] of field "pages" for fewer pages than there are. For more than 16
// times what [NumberFor] returns for the keys of shared pages, it returns one with
// [CodeTooManyPages], unless force is set. Each page, even an empty one, costs about 1 KiB in a
// process with a store of its own. Other errors are an [*UnavailableError], [ErrClosed], or that of
// ctx.
func (gr *Grower) Grow(ctx context.Context, pages uint32, force bool) (started bool, err error) {
	now, err := gr.mayGrow(ctx, pages, force)
	if err != nil {
		return false, fmt.Errorf("grow to %d pages: %w", pages, err)
	}
	if (now == ledger.Layouts{Current: pages}) {
		return false, nil
	}
	return gr.growInBackground(pages)
}

// mayGrow checks the number of pages, and returns the layouts.
func (gr *Grower) mayGrow(
	ctx context.Context, pages uint32, force bool,
) (now ledger.Layouts, err error) {
	if pages == 0 || pages&(pages-1) != 0 || pages > MaxPages {
		return now, invalidPages("%d is not a power of two from 1 to %d", pages, MaxPages)
	}
	if now, err = gr.ledger.Layouts(ctx); err != nil {
		return now, Unavailable("ledger", err)
	}
	if least := max(now.Current, now.Building); pages < least {
		return now, invalidPages(
			"%d is fewer than the %d there are: the number only grows", pages, least,
		)
	}
	// Small numbers need no count of the keys.
	if pages <= max(maxTimesDue*DefaultPages, now.Current) || force {
		return now, nil
	}
	keys, err := gr.sharedKeys(ctx)
	if err != nil {
		return now, err
	}
	due := NumberFor(keys)
	if most := maxTimesDue * uint64(due); uint64(pages) > most {
		return now, &InvalidError{
			Code: CodeTooManyPages, Field: "pages",
			Message: fmt.Sprintf(
				"%d pages, at most %d without force: %d pages are due", pages, most, due,
			),
		}
	}
	return now, nil
}

func invalidPages(format string, args ...any) error {
	return &InvalidError{Code: CodeOutOfRange, Field: "pages", Message: fmt.Sprintf(format, args...)}
}

// sharedKeys returns the number of keys on shared pages, as the last round of the scrub counted it.
// Before the first round it returns an estimate from the ledger's rows of some pages.
func (gr *Grower) sharedKeys(ctx context.Context) (uint64, error) {
	if s := gr.storage.stats.survey.Load(); s.Whole {
		return s.load.keys, nil
	}
	pages := gr.layout.Pages()
	number := min(pages.Shared, sampledPages)
	keys := uint64(0)
	for i := range number {
		rows, _, err := gr.ledger.Keys(ctx, pages.Number(i*pages.Shared/number))
		if err != nil {
			return 0, Unavailable("ledger", err)
		}
		keys += uint64(len(rows))
	}
	return keys * uint64(pages.Shared) / uint64(max(1, number)), nil
}

// growTo takes one step after another until there are that many pages. It also completes what other
// processes began.
func (gr *Grower) growTo(ctx context.Context, pages uint32) error {
	select {
	case gr.slot <- struct{}{}:
		defer func() { <-gr.slot }()
	case <-ctx.Done():
		return ctx.Err()
	case <-gr.life.Open.Done():
		return ErrClosed
	}
	for {
		now, err := gr.ledger.Layouts(ctx)
		switch {
		case err != nil:
		case now.Building > 0:
			err = gr.build(ctx, now)
		case now.Leaving > 0:
			err = gr.leaveLayout(ctx, now.Leaving)
		case now.Current >= pages:
			return nil
		default:
			gr.storage.log.InfoContext(ctx, "growing", "pages", now.Current, "to", pages)
			if err = gr.ledger.BeginLayout(ctx, pages); errors.Is(err, ledger.ErrLayoutBusy) {
				err = nil // another process was first
			}
		}
		if err != nil {
			return Unavailable("ledger", err)
		}
	}
}

// build builds the pages of the next layout and switches to it. Writers do not change these pages.
// A second, shorter pass rebuilds those whose users wrote during the first. Readers find pages that
// are still stale by their sequence.
func (gr *Grower) build(ctx context.Context, now ledger.Layouts) error {
	// The process that began the layout may have died before it set the sequences.
	if err := gr.ledger.BeginLayout(ctx, now.Building); err != nil {
		return err
	}
	gr.built.Store(0)
	for range 2 {
		// The poll learns the sequences of the layout's pages.
		if err := gr.known.PollSince(ctx, gr.life.Elapsed()); err != nil {
			return err
		}
		if err := gr.buildPages(ctx, now.Building); err != nil {
			return err
		}
	}
	return gr.ledger.SwitchLayout(ctx, now.Building)
}

// buildPages rebuilds the pages of a layout that differ from the ledger.
func (gr *Grower) buildPages(ctx context.Context, pages uint32) error {
	built := 0
	for some := range gr.chunks(pages) {
		if err := gr.life.Going(ctx); err != nil {
			return err
		}
		err := gr.buildSome(some) //nolint:contextcheck // pages are rebuilt even if the caller goes
		if err != nil {
			return Unavailable("pages", err)
		}
		if built += len(some); int64(built) > gr.built.Load() {
			gr.built.Store(int64(built))
		}
	}
	return nil
}

// chunks yields the pages of a layout, scrubChunk at a time.
func (gr *Grower) chunks(pages uint32) iter.Seq[[]uint32] {
	return func(yield func(some []uint32) bool) {
		all := gr.layout.PagesOf(pages)
		for n := 0; n < all.Shared; n += scrubChunk {
			if !yield(all.Chunk(n, scrubChunk)) {
				return
			}
		}
	}
}

// buildSome rebuilds those of the pages that differ from the ledger.
func (gr *Grower) buildSome(pages []uint32) error {
	found, statuses, err := gr.scrubber.peek(gr.scrubber.required(pages))
	if err != nil {
		return err
	}
	for i, st := range statuses {
		if st.Err != nil && !errors.Is(st.Err, errBulked) { // a bulk writes its pages itself
			return fmt.Errorf("page %d: %w", pages[i], st.Err)
		}
	}
	for i := range found {
		found[i].reason = reasonLayout // the page is new, not at fault
	}
	if failed := gr.scrubber.rebuildAll(found, pageTimeout, len(found)); failed > 0 {
		return fmt.Errorf("%d of %d pages could not be built", failed, len(found))
	}
	return nil
}

// leaveLayout closes all pages of a layout. Once every process has polled since the switch, it
// makes the ledger forget the layout.
func (gr *Grower) leaveLayout(ctx context.Context, pages uint32) error {
	seen := gr.life.Elapsed() // the switch was earlier
	if err := gr.known.PollSince(ctx, seen); err != nil {
		return err
	}
	for some := range gr.chunks(pages) {
		if err := gr.life.Going(ctx); err != nil {
			return err
		}
		for _, err := range gr.applier.closePages(ctx, some) {
			return err
		}
	}
	if bound := gr.known.Bound(); bound > 0 { // otherwise every View asks the ledger
		passed := time.Duration(gr.life.Elapsed() - seen)
		if wait := bound - passed + lifecycle.MaxAhead; wait > 0 {
			if err := gr.life.Rest(ctx, wait); err != nil {
				return err
			}
		}
	}
	return gr.ledger.LeaveLayout(ctx, pages)
}

// growInBackground starts a growth, or raises the target of the running one.
func (gr *Grower) growInBackground(pages uint32) (started bool, err error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	switch {
	case gr.life.IsClosed():
		return false, ErrClosed
	case gr.target >= pages:
		return false, nil
	case gr.target > 0:
		gr.target = pages
		return true, nil
	case !gr.life.Background(gr.growOn):
		return false, ErrClosed
	}
	gr.target, gr.err = pages, nil
	return true, nil
}

// growOn grows until there are as many pages as requested, or the Pages are closed.
func (gr *Grower) growOn() {
	ctx, start := gr.life.Open, time.Now()
	for {
		target, _ := gr.state()
		err := gr.growTo(ctx, target)
		if gr.life.IsClosed() {
			return
		}
		if gr.grown(target, err) {
			gr.storage.log.InfoContext(ctx, "grown", slog.Any("pages", target), tookSince(start))
			return
		}
		if err != nil {
			gr.storage.log.WarnContext(ctx, "growing stalled, retrying", "pages", target, "error", err)
			_ = gr.life.Rest(ctx, growPause) // its error means closed, which the loop finds itself
		}
	}
}

// grown notes how an attempt of a growth in the background ended, and reports whether it is done.
func (gr *Grower) grown(target uint32, err error) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.err = err; err != nil || gr.target != target {
		return false
	}
	gr.target = 0
	return true
}

// growOnOpen completes a change of the number of pages that some process began.
func (gr *Grower) growOnOpen() {
	if now := gr.layout.Now(); now.Building > 0 || now.Leaving > 0 {
		_, _ = gr.growInBackground(max(now.Current, now.Building)) // the Pages are not closed yet
	}
}

// Layout asks the ledger how many pages there are. Errors are an [*UnavailableError].
func (gr *Grower) Layout(ctx context.Context) (Layout, error) {
	now, err := gr.ledger.Layouts(ctx)
	if err != nil {
		return Layout{}, Unavailable("ledger", err)
	}
	target, err := gr.state()
	l := Layout{
		Pages:     max(now.Current, now.Building, target),
		Current:   now.Current,
		Dedicated: len(gr.layout.Pages().Dedicated),
		Growing:   target > 0,
		Err:       err,
	}
	if l.Built = int(l.Pages); now.Building > 0 {
		l.Built = int(gr.built.Load())
	} else if l.Pages > now.Current {
		l.Built = 0
	}
	if load := gr.storage.stats.load(int(now.Current)); load.pages > 0 {
		l.KeysPerPage, l.Due = float64(load.keys)/float64(load.pages), load.due()
	}
	return l, nil
}
