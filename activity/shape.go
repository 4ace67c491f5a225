package activity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const (
	// DuePage is from how many keys on average a page that users share has too many: what a feed reads of others is what
	// it costs. aimPage is how many it has then, at most.
	DuePage = 4096
	aimPage = 2048
	// MaxPages is the most pages that users may share.
	MaxPages = 1 << 24
	// DefaultPages is how many pages new data has.
	DefaultPages = ledger.DefaultPages
)

// PagesFor returns the number of pages for so many keys, a power of two: [DefaultPages] at least, [MaxPages] at most.
func PagesFor(keys uint64) uint32 { return max(DefaultPages, pagesOf(keys)) }

// pagesOf is the smallest power of two of pages that have no more than aimPage keys each on average.
func pagesOf(keys uint64) uint32 {
	if keys == 0 {
		return 1
	}
	return uint32(min(uint64(1)<<bits.Len64((keys-1)/aimPage), MaxPages))
}

// load is what a round of the scrub finds in the pages that users share.
type load struct {
	pages int
	keys  uint64
}

// weigh adds a page, unless it is one of a single user, or one that nobody is on.
func (r *Recorder) weigh(l *load, others *census, page uint32, st favfilter.Standing) {
	switch {
	case page < ledger.OwnPages && !r.placements.of(page).usesHome(page), page >= ledger.OwnPages && others.isOwn(page):
		return
	case st.Missing && r.sequences.of(page).known.Load() == 0: // nobody has done anything
	case st.Missing, st.Damage != nil:
		return // it is about to be made anew
	}
	l.pages++
	l.keys += uint64(st.Header.Count)
}

// due is how many pages there should be, a power of two; 0 if there are enough.
func (l load) due() uint32 {
	if l.pages == 0 || l.keys <= uint64(l.pages)*DuePage {
		return 0
	}
	right := pagesOf(l.keys)
	if int(right) <= l.pages {
		return 0
	}
	return right
}

// noteLoad keeps what a whole round has found, and says so once it is too much.
func (r *Recorder) noteLoad(l load) {
	before := r.stats.load.Swap(&l)
	due := l.due()
	if due > 0 && (before == nil || before.due() == 0) {
		r.log.Warn("pages have too many keys, and feeds read more than they need: a reshape is due",
			"pages", l.pages, "keys_per_page", l.keys/uint64(l.pages), "reshape_to", due)
	}
}

// Shape is how many pages there are, and how many there should be.
type Shape struct {
	Pages    uint32 // that users are to share: what a reshape works towards
	Homes    int    // groups of users, as many as there were pages when the ledger was made
	Reshaped int    // homes of which the users are on pages as Pages has it

	Shared      int     // pages that users share now
	Own         int     // pages of one user alone
	KeysPerPage float64 // of shared pages, as the last round of the scrub found them; 0 before the first
	Due         uint32  // how many pages there should be, as these have too many keys; 0: it is well

	Reshaping bool  // in the background of this Recorder
	Err       error // why that does not get on, or ended early; nil: it does, or gave way to another number
}

// Shape asks the ledger how far a reshape is. Errors are an [*UnavailableError].
func (r *Recorder) Shape(ctx context.Context) (Shape, error) {
	cut, err := r.ledger.Cut(ctx)
	if err != nil {
		return Shape{}, unavailable("ledger", err)
	}
	s := Shape{Pages: cut.Pages, Homes: cut.Homes, Reshaped: cut.Done}
	pages := r.placements.census()
	s.Shared, s.Own = pages.homes+len(pages.shared), len(pages.own)
	if l := r.stats.load.Load(); l != nil && l.pages > 0 {
		s.KeysPerPage, s.Due = float64(l.keys)/float64(l.pages), l.due()
	}
	r.reshaping.mu.Lock()
	defer r.reshaping.mu.Unlock()
	s.Reshaping = r.reshaping.now != nil
	s.Err = r.reshaping.err
	return s, nil
}

// StartReshape has [Recorder.Reshape] go on in the background until it is done or the Recorder is closed: what is unavailable is
// waited for. It reports whether there was anything to start: not if one to as many pages is under way here, or
// all users are on such pages. A reshape to another number that is under way, here or in another process, ends: asking for the
// number that there was before takes a reshape back. For errors see Reshape.
//
//nolint:contextcheck // it outlives the call
func (r *Recorder) StartReshape(ctx context.Context, pages uint32, options ...ReshapeOption) (started bool, err error) {
	g := &r.reshaping
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now != nil && g.now.pages == pages {
		return false, nil
	}
	if err := r.askFor(ctx, pages, options); err != nil {
		return false, fmt.Errorf("reshape to %d pages: %w", pages, err)
	}
	if g.now != nil {
		g.now.end(ErrReshaping)
		g.now = nil
	}
	cut, err := r.ledger.Cut(ctx)
	if err != nil {
		return false, fmt.Errorf("reshape to %d pages: %w", pages, unavailable("ledger", err))
	}
	if g.err = nil; cut.Pages == pages && cut.Done == cut.Homes {
		return false, nil
	}
	on, end := context.WithCancelCause(r.base)
	now := &backgroundReshape{pages, end}
	if !r.background(func() { r.reshapeOn(on, now) }) {
		end(nil)
		return false, ErrClosed
	}
	g.now = now
	return true, nil
}

// reshapePause is how long a reshape in the background waits for what is unavailable.
const reshapePause = 2 * time.Second

// reshapeOn reshapes until it is done, or cannot be, or ctx has ended.
func (r *Recorder) reshapeOn(ctx context.Context, now *backgroundReshape) {
	defer now.end(nil)
	go func() {
		select {
		case <-r.closed:
			now.end(ErrClosed)
		case <-ctx.Done():
		}
	}()
	r.log.InfoContext(ctx, "reshape begun", "pages", now.pages)
	start := time.Now()
	for {
		// The ledger has been asked. To ask again would take back what others ask for meanwhile.
		err := r.reshapeTo(ctx, now.pages, nil)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		_, again := errors.AsType[*UnavailableError](err)
		r.reshaping.note(now, err, again)
		switch {
		case err == nil:
			r.log.InfoContext(ctx, "reshape done", slog.Any("pages", now.pages), tookSince(start))
			return
		case !again:
			r.log.WarnContext(ctx, "reshape ended early", "error", err)
			return
		}
		r.log.WarnContext(ctx, "reshape does not get on", "error", err)
		if r.rest(ctx, reshapePause) != nil {
			continue // it ends now
		}
	}
}

// note keeps what came of a reshape in the background, unless another has taken its place. That it gave way to another number
// is no trouble.
func (g *reshaping) note(now *backgroundReshape, err error, again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now != now {
		return
	}
	if g.err = err; errors.Is(err, ErrReshaping) {
		g.err = nil
	}
	if !again {
		g.now = nil
	}
}
