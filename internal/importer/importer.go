// Package importer records files of activities, and continues where an earlier import stopped. It
// also makes what a user has of a kind equal to a file.
package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// Checkpoints stores the progress of imports. The ledger implements it.
type Checkpoints interface {
	// Checkpoint returns the value that SetCheckpoint stored under id.
	Checkpoint(ctx context.Context, id string) (value string, found bool, err error)
	// SetCheckpoint stores a value under id; "" removes it.
	SetCheckpoint(ctx context.Context, id, value string) error
}

// Progress is the progress of an import. Everything before it is recorded. If the process died
// before it could save its progress, the batch after the last one may be recorded as well, and is
// recorded again. The result is the same: a batch is recorded whole and in order, so the last
// operation on an activity counts in either case.
type Progress struct {
	activityfile.Checkpoint

	Imported int64 `json:"imported"` // number of activities
	Changed  int64 `json:"changed"`  // of these; after a crash, too low by up to a batch
	Skipped  int64 `json:"skipped"`  // bad lines

	Ended     int64 `json:"ended"`      // lines whose until had passed when they were read
	OverLimit int64 `json:"over_limit"` // activities that a limit refused
}

// Import records one file, in order, a batch at a time.
type Import struct {
	Source      *activityfile.File
	To          activity.Activities
	Ledger      *activity.Recorder // To; nil without a ledger
	Checkpoints Checkpoints
	Batch       int  // lines recorded at a time
	Skip        bool // skip bad lines instead of stopping

	Bad     func(problem error) // called for each bad line
	Advance func(offset int64)  // called after each batch, with its end

	Done     Progress // after the last acknowledged batch, also of earlier imports
	Windowed int      // activities of kinds with a window, of this import

	lines   *activityfile.Reader
	bulk    *activity.Bulk  // nil without a ledger
	reading *activity.Batch // of the lines that are being read
}

// batch is a number of lines to record together.
type batch struct {
	activityfile.Batch

	checked *activity.Batch // the activities
}

// Begin goes to the line where an earlier import stopped, Done.Position. With restart, it goes to
// the start of the file.
func (im *Import) Begin(ctx context.Context, restart bool) (err error) {
	if id := im.Source.ID; id != "" && restart {
		// Remove the checkpoint before recording anything again. Otherwise a run that later
		// continued at it would skip lines, and could undo later ones.
		err = im.Checkpoints.SetCheckpoint(ctx, id, "")
	} else if id != "" {
		err = im.load(ctx)
	}
	if err != nil {
		return err
	}
	add := func(a activity.Activity) error { return im.reading.Add(a) }
	if im.lines, err = activityfile.NewReader(im.Source, add, im.Done.Checkpoint); err != nil {
		return err
	}
	im.Done.Position = im.lines.Position()
	return nil
}

func (im *Import) load(ctx context.Context) error {
	value, found, err := im.Checkpoints.Checkpoint(ctx, im.Source.ID)
	if err == nil && found {
		err = json.Unmarshal([]byte(value), &im.Done)
	}
	if err != nil {
		return fmt.Errorf("read checkpoint %q: %w", im.Source.ID, err)
	}
	return nil
}

// Run records the lines from Done.Position on, until the end of the file, a bad line, an error or
// the end of ctx. It completes the current batch first. Call Begin before it.
func (im *Import) Run(ctx context.Context) error {
	if im.Ledger != nil {
		im.bulk = im.Ledger.NewBulk()
	}
	err := im.follow(ctx)
	if err != nil {
		err = errors.Join(err, im.finish(context.WithoutCancel(ctx)))
	}
	return err
}

func (im *Import) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A separate goroutine reads, because a read of standard input may block forever and cannot be
	// cancelled.
	batches := make(chan batch)
	go im.read(ctx, batches)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case b := <-batches:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := im.take(context.WithoutCancel(ctx), b); err != nil || b.Last {
				return err
			}
		}
	}
}

// read reads batches, each while the previous one is being recorded. It sends them to out, until
// ctx ends.
func (im *Import) read(ctx context.Context, out chan<- batch) {
	for last := false; !last; {
		im.reading = im.To.NewBatch()
		b := batch{Batch: im.lines.Batch(im.Batch, !im.Skip), checked: im.reading}
		last = b.Last
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
	}
}

// take records a batch and saves its checkpoint.
func (im *Import) take(ctx context.Context, b batch) error {
	outcomes, err := im.record(ctx, &b)
	if err == nil && b.Last {
		err = im.finish(ctx) // before the checkpoint is removed
	}
	if err != nil {
		return err
	}
	for _, bad := range b.Bad {
		im.Bad(bad)
	}
	im.Done.Position = b.End
	for i, a := range b.Activities {
		switch outcomes[i] {
		case activity.Changed:
			im.Done.Changed++
		case activity.OverLimit:
			im.Done.OverLimit++
		case activity.Ended:
			im.Done.Ended++
			im.Done.Skipped++
			continue
		case activity.Unchanged, activity.Stuck, activity.Early: // record refuses Early
		}
		im.Done.Imported++
		if kind, _ := im.To.Kinds().Named(a.Kind); !kind.InLedger() {
			im.Windowed++
		}
	}
	if im.Skip {
		im.Done.Skipped += int64(len(b.Bad))
	}
	im.Advance(b.End.Offset)
	if err := im.save(ctx, b); err != nil {
		return err
	}
	return b.Err
}

// record records a batch. The reader has compared each since with this machine's clock, so
// one that is too early for the ledger means that a clock is wrong.
func (im *Import) record(ctx context.Context, b *batch) (outcomes []activity.Outcome, err error) {
	if im.bulk != nil {
		outcomes, err = im.bulk.Record(ctx, b.checked)
	} else {
		outcomes, err = b.checked.Record(ctx)
	}
	if err == nil {
		err = checkEarly(b.Activities, outcomes)
	}
	return outcomes, err
}

// checkEarly returns an error if an activity was not recorded because of its since.
func checkEarly(activities []activity.Activity, outcomes []activity.Outcome) error {
	if i := slices.Index(outcomes, activity.Early); i >= 0 {
		return fmt.Errorf("since: %v is in the future of the ledger's clock", activities[i].Since)
	}
	return nil
}

// finish makes everything recorded visible to feeds.
func (im *Import) finish(ctx context.Context) error {
	if im.bulk == nil {
		return nil
	}
	return im.bulk.Finish(ctx)
}

// save saves the checkpoint of a batch, and removes it after the last batch.
func (im *Import) save(ctx context.Context, b batch) error {
	switch {
	case im.Source.ID == "":
		return nil
	case b.Last && b.Err == nil:
		return im.Checkpoints.SetCheckpoint(ctx, im.Source.ID, "")
	case b.SHA256 == nil:
		return nil
	}
	im.Done.Format, im.Done.SHA256, im.Done.Columns = im.Source.Format, b.SHA256, b.Columns
	value, err := json.Marshal(im.Done)
	if err != nil {
		return fmt.Errorf("write checkpoint %q: %w", im.Source.ID, err)
	}
	return im.Checkpoints.SetCheckpoint(ctx, im.Source.ID, string(value))
}
