package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// batch is a number of lines to record together.
type batch struct {
	activityfile.Batch

	checked  *activity.Batch        // the activities
	prepared *activity.PreparedBulk // of the activities
	failure  error                  // of the preparation
}

// add checks an activity that was read.
func (im *importer) add(a activity.Activity) error { return im.reading.Add(a) }

// read reads and prepares batches, and sends them to out, until ctx ends.
func (im *importer) read(ctx context.Context, reader *activityfile.Reader, out chan<- batch) {
	for last := false; !last; {
		im.reading = im.to.NewBatch()
		b := batch{Batch: reader.Batch(im.batch, !im.skip), checked: im.reading}
		im.prepare(&b)
		last = b.Last
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
	}
}

// prepare prepares the activities of b for recording. It runs while the previous batch is being
// recorded.
func (im *importer) prepare(b *batch) {
	if im.bulk != nil {
		b.prepared, b.failure = im.bulk.Prepare(b.checked)
	}
}

// record records a prepared batch. The reader has compared each since with this machine's clock, so
// one that is too early for the ledger means that a clock is wrong.
func (im *importer) record(ctx context.Context, b *batch) (outcomes []activity.Outcome, err error) {
	switch {
	case b.failure != nil:
		return nil, b.failure
	case im.bulk != nil:
		outcomes, err = im.bulk.Record(ctx, b.prepared)
	default:
		outcomes, err = b.checked.Record(ctx)
	}
	if i := slices.Index(outcomes, activity.Early); i >= 0 {
		err = fmt.Errorf("since: %v is in the future of the ledger's clock", b.Activities[i].Since)
	}
	return outcomes, err
}
