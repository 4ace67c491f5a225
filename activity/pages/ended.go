package pages

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pause"
)

const (
	// endInterval is the mean time between two queries for ended activities.
	endInterval = time.Second
	// maxEnded is the number of ended rows removed in one step.
	maxEnded = 1000
)

// endLoop removes activities whose Until has passed from the ledger and the pages, as an undo does.
// Every process runs it; rows that one has removed are not found by the others.
func (cm *committer) endLoop() {
	for wait := endInterval; ; {
		select {
		case <-time.After(wait):
		case <-cm.life.Open.Done():
			return
		}
		more := cm.removeEnded()
		wait = pause.About(endInterval)
		if more {
			wait = 0
		}
	}
}

// removeEnded removes some ended activities, and reports whether there may be more.
func (cm *committer) removeEnded() (more bool) {
	ctx, cancel := context.WithTimeout(cm.life.Base, commitTimeout)
	defer cancel()
	rows, err := cm.ledger.Ended(ctx, cm.storage.now(), maxEnded)
	if err != nil || len(rows) == 0 {
		return false // the poll reports a ledger that is down
	}
	changes := make([]ledger.Change, len(rows))
	for i, row := range rows {
		changes[i] = ledger.Change{Rows: []ledger.Row{row}, Remove: true, Ended: true}
	}
	if err := cm.write(ctx, newWrite(ctx, changes)); err != nil {
		if !cm.life.IsClosed() {
			cm.storage.log.WarnContext(
				ctx, "activities that have ended could not be removed", "error", err,
			)
		}
		return false
	}
	cm.storage.stats.ended.Add(uint64(len(rows)))
	return len(rows) == maxEnded
}
