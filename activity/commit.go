package activity

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// write is one caller's changes. Its results may be read once done is closed.
type write struct {
	ctx     context.Context //nolint:containedctx // of the caller that waits for it
	changes []ledger.Change
	done    chan struct{}

	changed []bool
	err     error
}

func (w *write) finish(err error) {
	w.err = err
	close(w.done)
}

// group is what shares one ledger transaction.
type group struct {
	writes  []*write
	receipt ledger.Receipt
	await   map[uint32]chan struct{} // pages that an earlier group is on its way to
	there   chan struct{}            // closed when this group is there
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
	ctx, cancel := context.WithTimeout(r.base, commitTimeout)
	receipt, err := r.ledger.Record(ctx, changes)
	cancel()
	if err != nil {
		for _, w := range writes {
			w.finish(unavailable("ledger", err))
		}
		return
	}
	g := group{writes: writes, receipt: receipt, await: make(map[uint32]chan struct{}), there: make(chan struct{})}
	r.settling <- struct{}{}
	r.mu.Lock()
	for _, p := range receipt.Pages {
		raise(&r.marks.committed[p.Page], p.Sequence)
		if before := r.tail[p.Page]; before != nil {
			g.await[p.Page] = before
		}
		r.tail[p.Page] = g.there
	}
	r.mu.Unlock()
	r.ended.Go(func() { r.settle(g) })
}

// settle brings every page of the group to its sequence and answers the callers.
// Groups reach a page in the order of their transactions, so that writers of one
// process leave no gap for each other.
func (r *Recorder) settle(g group) {
	for _, before := range g.await {
		<-before
	}
	ctx, cancel := context.WithTimeout(r.base, pageTimeout)
	failed := r.applyAll(ctx, g.receipt.Pages)
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

	next := g.receipt.Changed
	for _, w := range g.writes {
		w.changed, next = next[:len(w.changes)], next[len(w.changes):]
		w.finish(unavailable("pages", r.failure(w, failed)))
	}
}

// failure returns what went wrong with the pages of w.
func (r *Recorder) failure(w *write, failed map[uint32]error) error {
	if len(failed) == 0 {
		return nil
	}
	var errs []error
	for _, c := range w.changes {
		for _, row := range c.Rows {
			if err := failed[r.pageOf(row.Hash)]; err != nil && !slices.Contains(errs, err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// applyAll brings the pages to where the transaction left them, and returns the
// errors of those that could not be.
func (r *Recorder) applyAll(ctx context.Context, pages []ledger.PageChange) map[uint32]error {
	var batches []favfilter.Batch
	repairs := repairs{failed: make(map[uint32]error)}
	repairs.group.SetLimit(maxRebuilds)
	for _, p := range pages {
		if len(p.Added)+len(p.Removed) > 0 {
			batches = append(batches, r.batch(p))
			continue
		}
		// Nothing changed, but the write that this one repeats may not have reached
		// the page.
		if r.marks.stood[p.Page].Load() < p.Sequence {
			repairs.start(p.Page, func() error { return r.stand(ctx, p.Page, p.Sequence) })
		}
	}
	for i, res := range r.store.Apply(ctx, batches) {
		page, sequence := batches[i].ID.Number, batches[i].Sequence
		if res.Err != nil {
			repairs.start(page, func() error { return res.Err })
		} else if reason := r.amiss(ctx, page, res); reason != "" {
			repairs.start(page, func() error { return r.remake(ctx, page, sequence, reason) })
		}
	}
	failed := repairs.wait()
	for _, p := range pages {
		// Also where it failed: the ledger has it, so a page below has lost it.
		raise(&r.marks.required[p.Page], p.Sequence)
		if failed[p.Page] == nil {
			raise(&r.marks.stood[p.Page], p.Sequence)
		}
	}
	return failed
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
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed[page] = err
		}
		return nil // others go on
	})
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
		return ""
	}
}

// batch is what a page has to do to follow the ledger.
func (r *Recorder) batch(p ledger.PageChange) favfilter.Batch {
	return favfilter.Batch{
		ID:       favfilter.PageID{Number: p.Page},
		Identity: r.identity,
		Sequence: p.Sequence,
		Remove:   r.hashes(p.Removed),
		Add:      r.hashes(p.Added),
	}
}
