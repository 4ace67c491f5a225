package faulttest

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// RecordPrepared counts, and may fail.
func (l Ledger) RecordPrepared(ctx context.Context, now time.Time, p *ledger.Prepared) (ledger.Receipt, error) {
	return Do(l.Faults, func() (ledger.Receipt, error) { return l.Ledger.RecordPrepared(ctx, now, p) })
}
