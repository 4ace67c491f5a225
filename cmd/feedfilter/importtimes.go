package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// maxAhead is how far in the future a line's since may be: clocks differ.
const maxAhead = 10 * time.Minute

// times are the line's beginning and end, zero where it has none. An end that is over is right: the line
// comes from an older export.
func (rec *record) times(now time.Time) (since, until time.Time, err error) {
	if since, err = parseTime("since", rec.Since); err != nil {
		return since, until, err
	}
	if since.After(now.Add(maxAhead)) {
		return since, until, fmt.Errorf("since: %q is in the future", rec.Since)
	}
	until, err = parseTime("until", rec.Until)
	return since, until, err
}

func parseTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%s: %q is not a time such as 2027-01-01T00:00:00Z", name, text)
	}
	if at = at.UTC(); at.Year() < 2 || at.Year() > 9999 {
		return at, fmt.Errorf("%s: %q is not in the years 2 to 9999", name, text)
	}
	return at, nil
}

// prepare makes a batch ready to be recorded, less what is over by now, which it leaves out of b and counts. It is called
// beside the recording of the batch before.
func (im *importer) prepare(b *batch) {
	lines, now := len(b.activities), time.Now()
	b.activities = slices.DeleteFunc(b.activities, func(a activity.Activity) bool { return !a.Until.IsZero() && !a.Until.After(now) })
	if im.bulk != nil {
		b.failure = im.retry(b, func() (err error) {
			b.prepared, err = im.bulk.Prepare(b.activities)
			return err
		})
	}
	b.ended = lines - len(b.activities)
}

// record records a batch that was prepared.
func (im *importer) record(ctx context.Context, b *batch) (outcomes []activity.Outcome, err error) {
	switch {
	case b.failure != nil:
		return nil, b.failure
	case im.bulk != nil:
		outcomes, err = im.bulk.Record(ctx, b.prepared)
	default:
		outcomes, err = im.recorder.Record(ctx, b.activities)
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
		if !ended || i >= len(b.activities) {
			return err
		}
		b.activities = slices.Delete(b.activities, i, i+1)
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
