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
)

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
	case st.Missing && r.marks.of(page).committed.Load() == 0: // nobody has done anything
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
	right := uint64(1) << bits.Len64((l.keys-1)/aimPage)
	if right = min(right, MaxPages); right <= uint64(l.pages) {
		return 0
	}
	return uint32(right)
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
	Err       error // why that does not get on, or ended early; nil: it does
}

// Shape asks the ledger how far a reshape is. Errors are an [*UnavailableError].
func (r *Recorder) Shape(ctx context.Context) (Shape, error) {
	if !r.HasLedger() {
		return Shape{}, &NoLedgerError{"to tell how many pages there are"}
	}
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
	s.Reshaping = r.reshaping.pages != 0
	s.Err = r.reshaping.err
	return s, nil
}

// StartReshape has [Recorder.Reshape] go on in the background until it is done or the Recorder is closed: what is unavailable is
// waited for. It reports whether there was anything to start: not if one to as many pages is under way here, or
// all users are on such pages. Where one to another number is under way here, it returns [ErrReshaping]. For other errors see Reshape.
func (r *Recorder) StartReshape(ctx context.Context, pages uint32) (started bool, err error) {
	if !r.HasLedger() {
		return false, &NoLedgerError{"a reshape"}
	}
	g := &r.reshaping
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.pages {
	case 0:
	case pages:
		return false, nil
	default:
		return false, ErrReshaping
	}
	if err := r.askFor(ctx, pages); err != nil {
		return false, fmt.Errorf("reshape to %d pages: %w", pages, err)
	}
	cut, err := r.ledger.Cut(ctx)
	if err != nil {
		return false, fmt.Errorf("reshape to %d pages: %w", pages, unavailable("ledger", err))
	}
	if g.err = nil; cut.Pages == pages && cut.Done == cut.Homes {
		return false, nil
	}
	if !r.background(func() { r.reshapeOn(pages) }) { //nolint:contextcheck // it outlives the call
		return false, ErrClosed
	}
	g.pages = pages
	return true, nil
}

// reshapePause is how long a reshape in the background waits for what is unavailable.
const reshapePause = 2 * time.Second

// reshapeOn reshapes until it is done, or cannot be.
func (r *Recorder) reshapeOn(pages uint32) {
	ctx, cancel := context.WithCancel(r.base)
	defer cancel()
	go func() {
		select {
		case <-r.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	r.log.InfoContext(ctx, "reshape begun", "pages", pages)
	start := time.Now()
	for {
		err := r.Reshape(ctx, pages, nil)
		var down *UnavailableError
		again := errors.As(err, &down) && !r.isClosed()
		r.reshaping.mu.Lock()
		r.reshaping.err = err
		if !again {
			r.reshaping.pages = 0
		}
		r.reshaping.mu.Unlock()
		switch {
		case err == nil:
			r.log.InfoContext(ctx, "reshape done", slog.Any("pages", pages), tookSince(start))
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
