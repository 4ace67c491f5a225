package activity

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// write is one caller's changes. Its results may be read once done is closed.
type write struct {
	ctx     context.Context //nolint:containedctx // of the caller that waits for it
	changes []ledger.Change
	done    chan struct{}
	// deletes says that the user of hash is being deleted: pages are made anew instead of changed, so that
	// nothing is left of what goes.
	deletes bool
	hash    uint64

	outcomes []Outcome
	err      error

	open   int   // pages that it waits for
	failed error // of its pages
}

func (w *write) finish(err error) {
	w.err = err
	close(w.done)
}

// group is what shares one ledger transaction.
type group struct {
	writes    []*write
	receipt   ledger.Receipt
	committed int64           // when, as [Recorder.elapsed]
	toRebuild map[uint32]bool // pages that are rebuilt instead of changed; false: later
	await     map[chan struct{}]bool
	passed    chan struct{} // closed when this group has been at all of its pages once
	tracking
}

// commitLoop commits what is queued, group by group, until the Recorder is closed.
// One transaction at a time costs nothing: while one is made durable, the next
// group gathers.
func (r *Recorder) commitLoop() {
	for {
		select {
		case w := <-r.queue:
			r.commit(r.gather(w))
		case <-r.closed:
			return
		}
	}
}

// gather takes what else is waiting, up to maxGroup changes. What has been given up
// meanwhile is left out: nothing of it has happened.
func (r *Recorder) gather(first *write) []*write {
	var writes []*write
	changes := 0
	take := func(w *write) {
		if err := w.ctx.Err(); err != nil {
			w.finish(err)
			return
		}
		writes = append(writes, w)
		changes += len(w.changes)
	}
	take(first)
	for changes < maxGroup {
		select {
		case w := <-r.queue:
			take(w)
		default:
			return writes
		}
	}
	return writes
}

// commit makes the group durable in the ledger and sends it on its way to the
// pages.
func (r *Recorder) commit(writes []*write) {
	var changes []ledger.Change
	for _, w := range writes {
		changes = append(changes, w.changes...)
	}
	if len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(onBehalf(writes), commitTimeout)
	receipt, err := r.ledger.Record(ctx, r.now(), changes)
	cancel()
	if err != nil {
		for _, w := range writes {
			w.finish(unavailable("ledger", err))
		}
		return
	}
	g := &group{
		writes: writes, receipt: receipt, committed: r.elapsed(), toRebuild: r.pagesToRebuild(writes, receipt),
		await: make(map[chan struct{}]bool), passed: make(chan struct{}), tracking: newTracking(),
	}
	next := outcomes(receipt)
	for _, w := range writes {
		w.outcomes, next = next[:len(w.changes)], next[len(w.changes):]
	}
	r.settling <- struct{}{}
	r.mu.Lock()
	for _, p := range receipt.Pages {
		r.sequences.of(p.Page).giveOut(p.Sequence)
		r.placements.note(p.Page, p.Owner)
		if before := r.tail[p.Page]; before != nil {
			g.await[before] = true
		}
		r.tail[p.Page] = g.passed
	}
	r.mu.Unlock()
	r.ended.Go(func() { r.settle(g) })
}

// onBehalf is a context of what is done for all of the writes, and goes on without those who wait for it. It has the values of
// the first one's, so that traces tell of it there.
func onBehalf(writes []*write) context.Context { return context.WithoutCancel(writes[0].ctx) }

// pagesToRebuild are the pages of writes that want them rebuilt. The page that a user who is being deleted has to
// themselves is not worth it until all rows are gone: nobody uses it before, as it is behind.
func (r *Recorder) pagesToRebuild(writes []*write, receipt ledger.Receipt) map[uint32]bool {
	pages := make(map[uint32]bool)
	for _, w := range writes {
		if !w.deletes {
			continue
		}
		for _, c := range w.changes {
			for _, row := range c.Rows {
				page := r.placedBy(receipt, row.Hash)
				later := row.Hash == w.hash && slices.ContainsFunc(receipt.Pages, func(p ledger.PageChange) bool {
					return p.Page == page && isOwn(p, row.Hash)
				})
				pages[page] = pages[page] || !later
			}
		}
	}
	return pages
}

// settle brings the pages of the group to their sequences, as far as one call of the store does, and answers the callers
// whose pages stand then. Pages that need more go on in lanes, and so do those that an earlier group has in a lane: nobody
// else waits for them. Groups reach a page in the order of their transactions, so that writers of one process leave no gap for
// each other.
func (r *Recorder) settle(g *group) {
	for before := range g.await {
		<-before
	}
	ctx, cancel := context.WithTimeout(onBehalf(g.writes), pageTimeout)
	pages, steps := r.joinLanes(ctx, g)
	repairs, failed := r.applyOnce(ctx, pages, g.toRebuild)
	r.mu.Lock()
	begun := make([]uint32, 0, len(repairs))
	for _, repair := range repairs {
		s := &step{ctx: ctx, group: g, change: repair.change, repair: repair.do}
		steps = append(steps, s)
		r.lanes[s.change.Page] = &lane{}
		r.enter(s)
		begun = append(begun, s.change.Page)
	}
	for _, p := range g.receipt.Pages {
		if r.tail[p.Page] == g.passed {
			delete(r.tail, p.Page)
		}
	}
	answered := r.track(g, steps, failed, cancel)
	r.mu.Unlock()
	close(g.passed)
	<-r.settling
	if len(steps) > 0 {
		context.AfterFunc(ctx, func() { r.background(func() { r.expire(g) }) })
	}
	for _, page := range begun {
		r.ended.Go(func() { r.runLane(page) })
	}
	r.answer(g.committed, answered)
}

// answer tells callers how their writes went: first those whose pages all stand, and
// the others when the ledger alone makes sure that they are seen.
func (r *Recorder) answer(committed int64, writes []*write) {
	if len(writes) == 0 {
		return
	}
	var late []*write
	waited := false
	for _, w := range writes {
		switch {
		case w.failed != nil:
			late = append(late, w)
			continue
		case !w.deletes && !waited: // DeleteUser waits itself, for all that it writes
			r.outwait(committed)
			waited = true
		}
		w.finish(nil)
	}
	if len(late) == 0 {
		return
	}
	seen := r.outlast(committed)
	for _, w := range late {
		if !seen {
			w.finish(unavailable("pages", w.failed))
			continue
		}
		r.stats.withoutPage.Add(1)
		w.finish(nil)
	}
}

// outcomes says what became of each change of a transaction.
func outcomes(receipt ledger.Receipt) []Outcome {
	of := make([]Outcome, len(receipt.Changed))
	for i := range of {
		switch {
		case receipt.Refused[i]:
			of[i] = OverLimit
		case receipt.Changed[i]:
			of[i] = Changed
		}
	}
	return of
}

// outlast waits until every process knows of what was committed at the given time,
// whatever stands in the store: no poll from before is within the staleness bound any
// more. It reports whether the ledger can be read at the end: where it cannot, others may not have
// polled since, and go on believing their pages.
func (r *Recorder) outlast(committed int64) bool {
	known := committed + int64(r.follow.bound)
	rest := time.NewTimer(time.Duration(known-r.elapsed()) + elapsedAhead)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-r.closed:
		return false
	}
	for r.follow.start.Load() < known {
		p := r.poll()
		<-p.done
		if p.err != nil {
			return false
		}
	}
	return true
}

// pagesOf calls each with the pages of w, some of them more than once: those that its rows are on, and those that others may
// take for theirs who have not heard of a move.
func (r *Recorder) pagesOf(w *write, receipt ledger.Receipt, each func(page uint32)) {
	for _, c := range w.changes {
		for _, row := range c.Rows {
			each(r.homeOf(row.Hash))
			placed, ok := receipt.Placed[row.Hash]
			if !ok {
				continue
			}
			each(placed.Page)
			for _, page := range placed.Left {
				each(page)
			}
		}
	}
}

// failure returns what went wrong with the pages of w.
func (r *Recorder) failure(w *write, receipt ledger.Receipt, failed map[uint32]error) error {
	if len(failed) == 0 {
		return nil
	}
	var errs []error
	r.pagesOf(w, receipt, func(page uint32) {
		if err := failed[page]; err != nil && !slices.Contains(errs, err) {
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}
