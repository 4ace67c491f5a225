package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// batch is what is recorded at a time.
type batch struct {
	activityfile.Batch

	prepared *activity.PreparedBulk // of the activities
	failure  error                  // why they could not be prepared
	ended    int                    // lines left out of Activities: they were over
}

// read sends what reader reads to out, prepared, in batches, until ctx ends.
func (im *importer) read(ctx context.Context, reader *activityfile.Reader, out chan<- batch) {
	for last := false; !last; {
		b := batch{Batch: reader.Batch(im.batch, !im.skip)}
		im.prepare(&b)
		last = b.Last
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
	}
}

// prepare makes a batch ready to be recorded, less what is over by now, which it leaves out of b and counts. It is called
// beside the recording of the batch before.
func (im *importer) prepare(b *batch) {
	lines, now := len(b.Activities), time.Now()
	b.Activities = slices.DeleteFunc(b.Activities, func(a activity.Activity) bool { return !a.Until.IsZero() && !a.Until.After(now) })
	if im.bulk != nil {
		b.failure = im.retry(b, func() (err error) {
			b.prepared, err = im.bulk.Prepare(b.Activities)
			return err
		})
	}
	b.ended = lines - len(b.Activities)
}

// record records a batch that was prepared.
func (im *importer) record(ctx context.Context, b *batch) (outcomes []activity.Outcome, err error) {
	switch {
	case b.failure != nil:
		return nil, b.failure
	case im.bulk != nil:
		outcomes, err = im.bulk.Record(ctx, b.prepared)
	default:
		outcomes, err = im.to.Record(ctx, b.Activities)
	}
	if err == nil {
		im.done.Ended, im.done.Skipped = im.done.Ended+int64(b.ended), im.done.Skipped+int64(b.ended)
	}
	return outcomes, err
}

// retry calls do until it refuses no activity of b for being over, by the ledger's clock or just now. Those
// are taken out of b.
func (*importer) retry(b *batch, do func() error) error {
	for {
		err := do()
		i, ended := endedOf(err)
		if !ended || i >= len(b.Activities) {
			return err
		}
		b.Activities = slices.Delete(b.Activities, i, i+1)
	}
}

// endedOf tells which activity the error of a Record says to be over.
func endedOf(err error) (i int, ok bool) {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	if !ok || invalid.Code != activity.CodeOutOfRange {
		return 0, false
	}
	number, ofUntil := strings.CutSuffix(strings.TrimPrefix(invalid.Field, "activities["), "].until")
	i, err = strconv.Atoi(number)
	return i, ofUntil && err == nil
}
