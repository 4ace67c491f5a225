package pages

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// maxQueuedRows is the number of changed rows that may wait for one page with a queue, and
	// maxAllQueuedRows the number for all such pages. Further writes to such a page are refused with
	// ErrOverloaded.
	maxQueuedRows    = 4096
	maxAllQueuedRows = 1 << 16
	// maxGroupRepairs and maxRepairing are the number of pages of one group, and of all groups,
	// repaired at once. A repair that takes longer than slotTime no longer counts: it waits for its
	// rebuild, and delays no other repair.
	maxGroupRepairs = maxRebuilds
	maxRepairing    = 32
	slotTime        = time.Second
)

// pageQueue holds the steps to a page that needs more than one call of the store, in the order of
// their transactions. It exists only while there are steps; [committer.mu] guards it.
type pageQueue struct {
	steps []*step
	rows  int // of the waiting steps and the one in progress
}

// step is the change of one page by one group.
type step struct {
	ctx    context.Context //nolint:containedctx // the group's; ends with its last waiter
	group  *group
	change ledger.PageChange
	repair func(ctx context.Context) error // nil: try the change first
}

// rows returns the number of rows that s counts as.
func (s *step) rows() int { return max(1, len(s.change.Added)+len(s.change.Removed)) }

// enter appends the step to its queue. The caller holds [committer.mu].
func (cm *committer) enter(s *step) {
	q := cm.pageQueues[s.change.Page]
	q.steps = append(q.steps, s)
	q.rows += s.rows()
	cm.queuedRows.Add(int64(s.rows()))
}

// enqueue appends a group's changes of pages that have a queue to those queues. It returns the
// steps, and the changes of the other pages.
func (cm *committer) enqueue(
	ctx context.Context, g *group,
) (others []ledger.PageChange, steps []*step) {
	cm.mu.Lock()
	defer cm.mu.Unlock()
	if len(cm.pageQueues) == 0 {
		return g.receipt.Pages, nil
	}
	others = make([]ledger.PageChange, 0, len(g.receipt.Pages))
	for _, p := range g.receipt.Pages {
		if cm.pageQueues[p.Page] == nil {
			others = append(others, p)
			continue
		}
		s := &step{ctx: ctx, group: g, change: p}
		cm.enter(s)
		steps = append(steps, s)
	}
	return others, steps
}

// runQueue carries out the steps to a page until there are none left.
func (cm *committer) runQueue(page uint32) {
	for {
		cm.mu.Lock()
		q := cm.pageQueues[page]
		if len(q.steps) == 0 {
			delete(cm.pageQueues, page)
			cm.mu.Unlock()
			return
		}
		s := q.steps[0]
		q.steps = q.steps[1:]
		cm.mu.Unlock()
		<-s.group.passed // until then it is unknown which writes wait
		err := cm.runStep(s)
		cm.applier.reached(s.change, s.group.apply, err)
		cm.mu.Lock()
		q.rows -= s.rows()
		cm.mu.Unlock()
		cm.queuedRows.Add(-int64(s.rows()))
		if answered := s.group.stepDone(cm, page, err); len(answered) > 0 {
			cm.life.Go(func() { cm.answer(s.group.committed, answered) })
		}
	}
}

// runStep is tryStep with the time limit of a rebuild, even if the step's writers have been
// answered before. If the step were skipped, the next one would need a rebuild again.
func (cm *committer) runStep(s *step) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), largeTimeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, func() { // only Close still waits for the step
		select {
		case <-cm.life.Open.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	defer stop()
	return cm.tryStep(ctx, s)
}

// tryStep brings a page to the sequence of the step's transaction.
func (cm *committer) tryStep(ctx context.Context, s *step) error {
	page := s.change.Page
	if s.repair == nil {
		repairs, failed := cm.applier.applyOnce(ctx, []ledger.PageChange{s.change}, s.group.apply)
		if len(repairs) == 0 {
			return failed[page]
		}
		s.repair = repairs[0].do
	}
	for _, slots := range []chan struct{}{s.group.slots, cm.slots} {
		end, err := takeSlot(ctx, slots)
		if err != nil {
			return fmt.Errorf("bring page %d: %w", page, err)
		}
		defer end() //nolint:gocritic // there are two
	}
	return s.repair(ctx)
}

// takeSlot waits for a slot. It frees the slot after slotTime at the latest.
func takeSlot(ctx context.Context, slots chan struct{}) (end func(), err error) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-slots })
	late := time.AfterFunc(slotTime, free)
	return func() {
		late.Stop()
		free()
	}, nil
}

// congested reports whether too many rows already wait for a page of the given ones.
func (cm *committer) congested(rows iter.Seq[ledger.Row]) bool {
	all := cm.queuedRows.Load()
	if all == 0 {
		return false
	}
	cm.mu.Lock()
	defer cm.mu.Unlock()
	full := func(page uint32) bool {
		q := cm.pageQueues[page]
		return q != nil && (q.rows >= maxQueuedRows || all >= maxAllQueuedRows)
	}
	for row := range rows {
		if full(cm.layout.SharedPage(row.Hash)) || full(cm.layout.PageOf(row.Hash)) {
			return true
		}
	}
	return false
}
