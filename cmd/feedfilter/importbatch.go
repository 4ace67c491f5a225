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

// batch is a number of lines to record together.
type batch struct {
	activityfile.Batch

	prepared *activity.PreparedBulk // of the activities
	failure  error                  // of the preparation
	ended    int                    // lines left out of Activities because they had ended
}

// read reads and prepares batches, and sends them to out, until ctx ends.
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

// prepare removes and counts the activities of b that have ended, and prepares the others for
// recording. It runs while the previous batch is being recorded.
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

// record records a prepared batch.
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

// retry calls do until it no longer refuses an activity of b as ended by the ledger's clock. It
// removes such activities from b.
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

// endedOf returns the index of the activity that a Record refused as ended.
func endedOf(err error) (i int, ok bool) {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	if !ok || invalid.Code != activity.CodeOutOfRange {
		return 0, false
	}
	number, ofUntil := strings.CutSuffix(strings.TrimPrefix(invalid.Field, "activities["), "].until")
	i, err = strconv.Atoi(number)
	return i, ofUntil && err == nil
}
