package activity

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// endInterval is how often the ledger is asked for what has ended.
	endInterval = time.Second
	// maxEnded is how many rows that have ended are removed in one step.
	maxEnded = 1000
)

// endLoop removes activities whose Until has passed, from the ledger and the pages,
// the way that an undo does. Every process does so; what one has removed, the others do not find.
func (r *Recorder) endLoop() {
	pace := time.NewTimer(endInterval)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
		case <-r.closed:
			return
		}
		more := r.removeEnded()
		wait := endInterval/2 + rand.N(endInterval) //nolint:gosec // so that processes do not go in step
		if more {
			wait = 0
		}
		pace.Reset(wait)
	}
}

// removeEnded removes some of what has ended, and reports whether there may be more.
func (r *Recorder) removeEnded() (more bool) {
	ctx, cancel := context.WithTimeout(r.base, commitTimeout)
	defer cancel()
	rows, err := r.ledger.Ended(ctx, r.now(), maxEnded)
	if err != nil || len(rows) == 0 {
		return false // a ledger that is down is reported by the poll
	}
	w := &write{ctx: ctx, done: make(chan struct{}), changes: make([]ledger.Change, len(rows))}
	for i, row := range rows {
		w.changes[i] = ledger.Change{Rows: []ledger.Row{row}, Remove: true, Ended: true}
	}
	if err := r.write(ctx, w); err != nil {
		if !r.isClosed() {
			r.log.WarnContext(ctx, "activities that have ended could not be removed", "error", err)
		}
		return false
	}
	r.stats.ended.Add(uint64(len(rows)))
	return len(rows) == maxEnded
}
