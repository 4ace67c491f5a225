package activity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// reshapers is how many groups of homes are reshaped at once.
	reshapers = 2
	// maxPlans is how often a reshape of homes is planned anew because others wrote to their pages meanwhile. After that it takes
	// place without images, which others need not wait for.
	maxPlans = 10
	// maxPreparedKeys bounds the keys of pages that are made before their users come to them.
	maxPreparedKeys = 4 << 20
	// preparedExpiry is how long a page stays that was made for users who did not come.
	preparedExpiry = 10 * time.Minute
	// reshapeTimeout bounds a step of a reshape.
	reshapeTimeout = time.Minute
)

// ErrReshaping says that a reshape to another number of pages is under way, or was asked for since.
var ErrReshaping = errors.New("a reshape to another number of pages was asked for")

// reshaping is the reshape that goes on in this process.
type reshaping struct {
	turn chan struct{} // holds one while homes are reshaped: no home again before the first is known here

	mu  sync.Mutex
	now *backgroundReshape // nil: there is none
	err error              // of the last that went on in the background
}

// backgroundReshape is a reshape that goes on in the background.
type backgroundReshape struct {
	pages uint32
	end   context.CancelCauseFunc
}

// Reshape changes the number of pages that users share to pages, a power of two from 1 to 2^24, and from a 4096th to
// 4096 times as many as the ledger was made with, while feeds and writes go on: with any process over the
// ledger, as far as a ledger has several. Group after group of users is brought to other pages, which stand in the store before anybody
// looks for them there. A group that was moved within the last minute waits until that is over.
//
// After an error, or when ctx has ended, some users are on pages as before, and others as asked for, and all that is recorded is
// where it is looked for; Reshape may be called again, of any Recorder, and goes on. Several at once share the work. progress is
// called, one call at a time, with the homes that are done of all, unless it is nil; a home is the users who shared a page at first.
//
// The number that was asked for last counts: a reshape to another number, in any process, ends with [ErrReshaping]. So asking for
// the number that there was before takes a reshape back. More than 16 times what [PagesFor] returns for the keys on pages that
// users share is refused, with [CodeTooManyPages], without [ForceReshape].
//
// Errors are an [*InvalidError] of field "pages", an [*UnavailableError], [ErrReshaping] if another number was asked for meanwhile, or
// that of ctx.
func (r *Recorder) Reshape(
	ctx context.Context, pages uint32, progress func(done, homes int), options ...ReshapeOption,
) error {
	if err := r.askFor(ctx, pages, options); err != nil {
		return fmt.Errorf("reshape to %d pages: %w", pages, err)
	}
	return r.reshapeTo(ctx, pages, progress)
}

// reshapeTo is Reshape to what the ledger was asked for.
func (r *Recorder) reshapeTo(ctx context.Context, pages uint32, progress func(done, homes int)) error {
	select {
	case r.reshaping.turn <- struct{}{}:
		defer func() { <-r.reshaping.turn }()
	case <-ctx.Done():
		return fmt.Errorf("reshape to %d pages: %w", pages, ctx.Err())
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	w := &reshape{r: r, pages: pages, progress: progress, planning: make(chan struct{}, 1)}
	group, ctx := errgroup.WithContext(ctx)
	for range reshapers {
		group.Go(func() error { return w.run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("reshape to %d pages: %w", pages, err)
	}
	return nil
}

// reshape is one call of Reshape.
type reshape struct {
	r        *Recorder
	pages    uint32
	progress func(done, homes int)

	planning chan struct{} // holds one while a plan is made, which may have to wait
	next     uint32        // home that nobody has looked at

	mu   sync.Mutex
	done int // homes
}

// run reshapes homes until none is left.
func (w *reshape) run(ctx context.Context) error {
	for {
		plan, err := w.take(ctx)
		if err != nil || plan == nil {
			return err
		}
		if err := w.r.carryOut(ctx, plan); err != nil {
			return err
		}
		w.mu.Lock()
		w.done += len(plan.Homes)
		w.progress(w.done, int(w.r.identity.Pages))
		w.mu.Unlock()
	}
}

// take returns the plan for the next homes; nil if there are none.
func (w *reshape) take(ctx context.Context) (*ledger.ReshapePlan, error) {
	select {
	case w.planning <- struct{}{}:
		defer func() { <-w.planning }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.next >= w.r.identity.Pages {
		return nil, nil //nolint:nilnil // nothing is left
	}
	plan, err := w.r.planReshape(ctx, w.next)
	if err != nil {
		return nil, err
	}
	if plan.Pages != w.pages {
		return nil, ErrReshaping
	}
	w.next = plan.Homes[len(plan.Homes)-1] + 1
	return plan, nil
}

// planReshape plans the reshape of the home, and of those that belong to it, as soon as they can be reshaped.
func (r *Recorder) planReshape(ctx context.Context, home uint32) (*ledger.ReshapePlan, error) {
	for {
		plan, err := r.ledger.PlanReshape(ctx, home)
		early, ok := errors.AsType[*ledger.TooSoonError](err)
		switch {
		case err == nil:
			return plan, nil
		case !ok:
			return nil, unavailable("ledger", err)
		}
		if err := r.rest(ctx, early.Left); err != nil {
			return nil, err
		}
	}
}

// carryOut moves the users of a plan to their pages.
func (r *Recorder) carryOut(ctx context.Context, plan *ledger.ReshapePlan) error {
	home, pages := plan.Homes[0], plan.Pages
	for tries := 1; !plan.Done; tries++ {
		if r.isClosed() {
			return ErrClosed
		}
		changed, err := r.tryPlan(ctx, plan, tries < maxPlans)
		if err != nil || !changed {
			return err
		}
		if plan, err = r.planReshape(ctx, home); err != nil {
			return err
		}
		if plan.Pages != pages {
			return ErrReshaping
		}
	}
	return nil
}

// tryPlan reports whether homes, or pages that were to be made of what they hold, have changed since the plan was made: then
// nothing was done.
func (r *Recorder) tryPlan(ctx context.Context, plan *ledger.ReshapePlan, prepare bool) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reshapeTimeout)
	defer cancel()
	// A View must not take its user to be where they were two reshapes ago: of a reshape whose answer was lost, nothing is known here.
	if err := r.learnHomes(ctx, plan.Homes...); err != nil {
		return false, unavailable("ledger", err)
	}
	var ready prepared
	if prepare {
		if ready, err = r.prepare(ctx, plan); err != nil {
			return false, err
		}
	}
	receipt, err := r.ledger.Reshape(ctx, plan)
	if errors.Is(err, ledger.ErrChanged) {
		return true, nil
	}
	if err != nil {
		return false, unavailable("ledger", err)
	}
	// What is committed is carried out.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), reshapeTimeout)
	defer cancel()
	return false, r.arrive(ctx, plan, receipt, ready)
}

// arrive sees to it that the users of a reshape are found where they are, and that pages stand where it has put them.
func (r *Recorder) arrive(ctx context.Context, plan *ledger.ReshapePlan, receipt ledger.Receipt, ready prepared) error {
	for _, p := range receipt.Pages {
		r.placements.note(p.Page, p.Owner)
		r.sequences.of(p.Page).giveOut(p.Sequence)
	}
	r.settleImages(ctx, plan, receipt, ready)
	if err := r.learnHomes(ctx, plan.Homes...); err != nil {
		return unavailable("ledger", err)
	}
	for page, err := range r.applyAll(ctx, receipt.Pages, nil) {
		return fmt.Errorf("page %d: %w", page, unavailable("pages", err))
	}
	return nil
}
