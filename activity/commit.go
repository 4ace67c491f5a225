package activity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
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
}

func (w *write) finish(err error) {
	w.err = err
	close(w.done)
}

// group is what shares one ledger transaction.
type group struct {
	writes    []*write
	receipt   ledger.Receipt
	committed int64                    // when, as [Recorder.elapsed]
	anew      map[uint32]bool          // pages that are not changed, but made anew, or false: later
	await     map[uint32]chan struct{} // pages that an earlier group is on its way to
	there     chan struct{}            // closed when this group is there
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
	g := group{
		writes: writes, receipt: receipt, committed: r.elapsed(),
		await: make(map[uint32]chan struct{}), there: make(chan struct{}),
	}
	g.anew = r.anewPages(writes, receipt)
	r.settling <- struct{}{}
	r.mu.Lock()
	for _, p := range receipt.Pages {
		r.learnBelow(p)
		raise(&r.marks.of(p.Page).committed, p.Sequence)
		r.placements.note(p.Page, p.Owner)
		if before := r.tail[p.Page]; before != nil {
			g.await[p.Page] = before
		}
		r.tail[p.Page] = g.there
	}
	r.mu.Unlock()
	r.ended.Go(func() { r.settle(g) })
}

// onBehalf is a context of what is done for all of the writes, and goes on without those who wait for it. It has the values of
// the first one's, so that traces tell of it there.
func onBehalf(writes []*write) context.Context { return context.WithoutCancel(writes[0].ctx) }

// anewPages are the pages of writes that want them made anew. The page that a user who is being deleted has to
// themselves is not worth it until all rows are gone: nobody uses it before, as it is behind.
func (r *Recorder) anewPages(writes []*write, receipt ledger.Receipt) map[uint32]bool {
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

// settle brings every page of the group to its sequence and answers the callers.
// Groups reach a page in the order of their transactions, so that writers of one
// process leave no gap for each other.
func (r *Recorder) settle(g group) {
	for _, before := range g.await {
		<-before
	}
	ctx, cancel := context.WithTimeout(onBehalf(g.writes), pageTimeout)
	failed := r.applyAll(ctx, g.receipt.Pages, g.anew)
	cancel()
	r.mu.Lock()
	for _, p := range g.receipt.Pages {
		if r.tail[p.Page] == g.there {
			delete(r.tail, p.Page)
		}
	}
	r.mu.Unlock()
	close(g.there)
	<-r.settling
	r.answer(g, failed)
}

// answer tells the callers how their writes went: first those whose pages all stand, and
// the others when the ledger alone makes sure that they are seen.
func (r *Recorder) answer(g group, failed map[uint32]error) {
	r.outwait(g.committed)
	next := outcomes(g.receipt)
	var late []*write
	for _, w := range g.writes {
		w.outcomes, next = next[:len(w.changes)], next[len(w.changes):]
		if len(failed) > 0 && r.failure(w, g.receipt, failed) != nil {
			late = append(late, w)
		} else {
			w.finish(nil)
		}
	}
	if len(late) == 0 {
		return
	}
	seen := r.outlast(g.committed)
	for _, w := range late {
		if !seen {
			w.finish(unavailable("pages", r.failure(w, g.receipt, failed)))
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

// failure returns what went wrong with the pages of w: those that its rows are on, and those that others may take for
// theirs who have not heard of a move.
func (r *Recorder) failure(w *write, receipt ledger.Receipt, failed map[uint32]error) error {
	var errs []error
	add := func(err error) {
		if err != nil && !slices.Contains(errs, err) {
			errs = append(errs, err)
		}
	}
	for _, c := range w.changes {
		for _, row := range c.Rows {
			add(failed[r.homeOf(row.Hash)])
			placed, ok := receipt.Placed[row.Hash]
			if !ok {
				continue
			}
			add(failed[placed.Page])
			for _, page := range placed.Left {
				add(failed[page])
			}
		}
	}
	return errors.Join(errs...)
}

// applyAll brings the pages to where the transaction left them, and returns the
// errors of those that could not be.
func (r *Recorder) applyAll(ctx context.Context, pages []ledger.PageChange, anew map[uint32]bool) map[uint32]error {
	var batches []favfilter.Batch
	var numbers []uint32 // of the pages of batches
	repairs := repairs{failed: make(map[uint32]error)}
	repairs.group.SetLimit(maxRebuilds)
	for _, p := range pages {
		now, listed := anew[p.Page]
		switch {
		case now:
			// It stands below until then, so nobody's write can go past with what was in it.
			repairs.start(p.Page, func() error { return r.remake(ctx, p.Page, p.Sequence, "user deleted") })
		case listed && len(p.Added) == 0:
		case len(p.Added)+len(p.Removed) > 0:
			b, err := r.batch(ctx, p)
			if err != nil {
				repairs.fail(p.Page, unavailable("ledger", err))
				continue
			}
			batches, numbers = append(batches, b), append(numbers, p.Page)
		case r.marks.of(p.Page).stood.Load() < p.Sequence:
			// Nothing changed, but the write that this one repeats may not have reached
			// the page.
			repairs.start(p.Page, func() error { return r.stand(ctx, p.Page, p.Sequence) })
		}
	}
	for i, res := range r.apply(ctx, batches) {
		b, page := batches[i], numbers[i]
		if res.Err != nil {
			repairs.fail(page, res.Err)
		} else if reason := r.amiss(ctx, page, res); reason != "" {
			repairs.start(page, func() error { return r.mend(ctx, page, b, res, reason) })
		} else if res.State == favfilter.Current && len(b.Remove) > 0 {
			r.tidying.add(page) // how much was cleared is not known any more
		}
	}
	failed := repairs.wait()
	for _, p := range pages {
		// Also where it failed: the ledger has it, so a page below has lost it.
		raise(&r.marks.of(p.Page).required, p.Sequence)
		if now, ok := anew[p.Page]; failed[p.Page] == nil && (now || !ok || len(p.Added) > 0) {
			raise(&r.marks.of(p.Page).stood, p.Sequence)
		}
	}
	return failed
}

// apply is Store.Apply, within a time that allows for the number of pages.
func (r *Recorder) apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout+time.Duration(len(batches))*applyMore)
	defer cancel()
	return r.store.Apply(ctx, batches)
}

// mend brings the page of b to where it has to stand after the store answered res. A page
// that is a little behind most likely waits for another process, which is quicker to be
// waited for than a rebuild.
func (r *Recorder) mend(ctx context.Context, page uint32, b favfilter.Batch, res favfilter.Result, reason string) error {
	const tries, near = 4, 8
	for i := range tries {
		if res.State != favfilter.Behind || b.Sequence-res.Header.Sequence > near {
			break
		}
		select {
		case <-time.After(time.Millisecond<<i/2 + rand.N(time.Millisecond<<i)): //nolint:gosec // no secret
		case <-ctx.Done():
			return fmt.Errorf("apply to page %v: %w", b.ID, ctx.Err())
		}
		res = r.apply(ctx, []favfilter.Batch{b})[0]
		if res.Err != nil {
			return res.Err
		}
		if reason = r.amiss(ctx, page, res); reason == "" {
			return nil
		}
	}
	return r.remake(ctx, page, b.Sequence, reason)
}

// repairs are pages of one group that are brought to where they have to stand, some at
// a time.
type repairs struct {
	group  errgroup.Group
	mu     sync.Mutex
	failed map[uint32]error
}

func (s *repairs) start(page uint32, repair func() error) {
	s.group.Go(func() error {
		if err := repair(); err != nil {
			s.fail(page, err)
		}
		return nil // others go on
	})
}

func (s *repairs) fail(page uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[page] = err
}

func (s *repairs) wait() map[uint32]error {
	_ = s.group.Wait() // always nil: see start
	return s.failed
}

// amiss says why the page has to be made anew after the store answered res, "" if it
// has not.
func (r *Recorder) amiss(ctx context.Context, page uint32, res favfilter.Result) string {
	switch {
	case res.State != favfilter.Applied && res.State != favfilter.Current:
		return res.State.String()
	case r.ahead(ctx, page, res.Header.Sequence):
		return "ahead"
	case r.overfull(res.Header):
		return "overfull"
	case r.oversized(res.Header):
		return "oversized"
	default:
		if res.Cleared > 0 && res.Cleared < enoughCleared {
			r.tidying.add(page)
		}
		return ""
	}
}

// batch is what a page has to do to follow the ledger.
func (r *Recorder) batch(ctx context.Context, p ledger.PageChange) (favfilter.Batch, error) {
	b := favfilter.Batch{ID: r.pageID(p.Page), Identity: r.identity, Sequence: p.Sequence}
	var err error
	if b.Remove, err = r.hashes(ctx, p.Removed); err != nil {
		return b, err
	}
	b.Add, err = r.hashes(ctx, p.Added)
	return b, err
}
