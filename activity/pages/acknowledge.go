package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// answer reports to callers how their writes ended. Writes that failed on a page wait until the
// staleness bound guarantees that every process sees them.
func (cm *committer) answer(committed int64, writes []*write) {
	var late []*write
	for _, w := range writes {
		if w.failed != nil {
			late = append(late, w)
			continue
		}
		w.finish(nil)
	}
	if len(late) == 0 {
		return
	}
	seen := cm.known.Outlast(committed)
	for _, w := range late {
		if !seen {
			w.finish(Unavailable("pages", w.failed))
			continue
		}
		cm.storage.stats.withoutPage.Add(1)
		w.finish(nil)
	}
}

// pagesOf calls each with the pages of w, some of them more than once. These are the pages of its
// rows, and pages where processes may still look for the rows. The latter are the shared pages of
// users with dedicated pages, and the pages of a layout that is leaving.
func (cm *committer) pagesOf(w *write, receipt ledger.Receipt, each func(page uint32)) {
	for row := range w.rows {
		each(cm.layout.PageIn(receipt.Layouts.Current, row.Hash))
		if page, ok := receipt.Owners[row.Hash]; ok {
			each(page)
		}
		if leaving := receipt.Layouts.Leaving; leaving > 0 {
			each(cm.layout.PageIn(leaving, row.Hash))
		}
	}
}

// failure returns the errors of the pages of w.
func (cm *committer) failure(w *write, receipt ledger.Receipt, failed map[uint32]error) error {
	if len(failed) == 0 {
		return nil
	}
	var errs []error
	cm.pagesOf(w, receipt, func(page uint32) {
		if err := failed[page]; err != nil && !slices.Contains(errs, err) {
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// track notes which writes wait for the steps, and returns the writes that wait for none. Steps end
// only after the group has passed.
func (cm *committer) track(
	g *group, steps []*step, failed map[uint32]error, end context.CancelFunc,
) (settled []*write) {
	g.failed, g.end = failed, end
	if len(steps) == 0 {
		end()
		for _, w := range g.writes {
			w.failed = cm.failure(w, g.receipt, failed)
		}
		return g.writes
	}
	g.open = make(map[uint32][]*write, len(steps))
	for _, s := range steps {
		g.open[s.change.Page] = nil
	}
	for _, w := range g.writes {
		cm.pagesOf(w, g.receipt, func(page uint32) {
			waiting, open := g.open[page]
			if open && (len(waiting) == 0 || waiting[len(waiting)-1] != w) { // once per page
				g.open[page] = append(waiting, w)
				w.open++
			}
		})
		if w.open == 0 {
			w.failed = cm.failure(w, g.receipt, failed)
			settled = append(settled, w)
		}
	}
	return settled
}

// stepDone notes that the step to a page has ended. It returns the writes that waited for no other
// page.
func (g *group) stepDone(r *committer, page uint32, err error) (settled []*write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failed[page] = err
	}
	for _, w := range g.open[page] {
		w.open--
		if w.open == 0 {
			w.failed = r.failure(w, g.receipt, g.failed)
			settled = append(settled, w)
		}
	}
	delete(g.open, page)
	if len(g.open) == 0 {
		g.end()
	}
	return settled
}

// expire answers the writes of a group that still wait for pages. The pages' steps continue in
// their queues.
func (cm *committer) expire(g *group) {
	cause := fmt.Errorf("a page is not current after %v: %w", pageTimeout, context.DeadlineExceeded)
	var settled []*write
	for _, p := range g.receipt.Pages {
		g.mu.Lock()
		_, open := g.open[p.Page]
		g.mu.Unlock()
		if open {
			cm.applier.reached(p, nil, cause)
			settled = append(settled, g.stepDone(cm, p.Page, cause)...)
		}
	}
	cm.answer(g.committed, settled)
}
