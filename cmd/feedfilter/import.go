package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter/pagefile"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// Lines recorded at a time, in one transaction of the ledger. Larger batches write each part of the
// ledger fewer times, and take about 1 KB of memory per line.
const (
	maxBatch    = 1_000_000
	fileBatch   = 200_000
	sharedBatch = 10_000 // other writers wait for the locks of a transaction
	plainBatch  = 5_000  // without a ledger
)

type importCmd struct {
	Data    dataFlags   `embed:""`
	Format  string      `default:""        enum:"csv,ndjson," help:"${format}"   placeholder:"FORMAT"`
	OnError string      `default:"stop"    enum:"stop,skip"   help:"${on_error}" placeholder:"POLICY"`
	Batch   int         `default:"0"       help:"${batch}"    placeholder:"N"`
	Restart bool        `help:"${restart}"`
	Result  resultFlags `embed:""`
	File    string      `arg:""            help:"${file}"`
}

// Help is shown by kong below the summary.
func (*importCmd) Help() string {
	return "After an interruption (a signal, kill -9 or a bad line), run the same command again: it continues where it " +
		"stopped, except from standard input. Without --redis, kill -9 loses seen posts of the last seconds. Each line counts " +
		"once as imported, whether it changed anything or not; lines whose until has passed are skipped. Seen posts older " +
		"than their window have no effect. Stop the service first if the ledger is SQLite; on PostgreSQL it may keep running."
}

// Check implements [settings.Checker].
func (c *importCmd) Check(context.Context) error {
	var all checks
	all.wantf(c.Batch >= 0 && c.Batch <= maxBatch, "--batch: %d is not in 0 to %d", c.Batch, maxBatch)
	all.wantf(c.File == "" || c.Format != "" || activityfile.FormatOf(c.File) != "",
		"%s: unknown format: give --format csv or --format ndjson", c.File)
	all.note(c.Data.checkFiles())
	return all.err()
}

// Run imports the file.
func (c *importCmd) Run(ctx context.Context, std stdio) (err error) {
	return c.run(ctx, std, func(d *data) checkpoints { return d.ledger })
}

func (c *importCmd) run(ctx context.Context, std stdio, notes func(*data) checkpoints) (err error) {
	source, err := activityfile.Open(c.File, c.Format, std.in)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer source.Close()
	log := c.Data.logger(std)
	d, err := c.Data.open(ctx, log, func(d *data) error {
		err := c.Data.keepPages(ctx, d, log)
		if errors.Is(err, pagefile.ErrInUse) && d.ledger != nil && d.ledger.Shared() {
			return nil // a running service stores its windows in this file
		}
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.pingRedis(ctx); err != nil {
		return fmt.Errorf("import %s: nothing was imported: %w", c.File, err)
	}
	if d.ledger == nil {
		source.ID = "" // without a ledger there are no checkpoints
	}
	logDamage(ctx, log, d)
	im := &importer{
		source: source,
		to:     d.activities,
		ledger: d.recorder,
		notes:  notes(d),
		caveat: c.caveat(d),
		skip:   c.OnError == "skip",
		batch:  c.batch(d),
		std:    std,
	}
	if err := im.run(ctx, c.Restart); err != nil {
		return err
	}
	err = im.report(c.Result.json())
	if bad := im.done.Skipped - im.done.Ended; im.done.Imported == 0 && bad > 0 {
		err = errors.Join(err, fmt.Errorf("import %s: all %d lines were skipped", source.Name, im.done.Skipped))
	}
	return err
}

// batch returns the number of lines to record at a time.
func (c *importCmd) batch(d *data) int {
	most := fileBatch
	switch {
	case d.ledger == nil:
		most = plainBatch
	case d.ledger.Shared():
		most = sharedBatch
	}
	if c.Batch == 0 {
		return most
	}
	if d.ledger == nil || d.ledger.Shared() {
		return min(c.Batch, most)
	}
	return c.Batch
}

// caveat returns a warning about activities of kinds with a window, if other processes of the
// ledger will not see them.
func (c *importCmd) caveat(d *data) string {
	switch {
	case d.redis != nil || d.ledger == nil || !d.ledger.Shared():
		return ""
	case d.windows == nil:
		return "are lost: another feedfilter uses the data directory; record them through it, or import them with --redis"
	default:
		return fmt.Sprintf("are in the data directory %s: only a service with this --data-dir and without --redis has them", c.Data.DataDir)
	}
}

// importer records one file, in order, a batch at a time.
type importer struct {
	source *activityfile.File
	to     activity.Activities
	ledger *activity.Recorder // to; nil without a ledger
	notes  checkpoints
	caveat string // see importCmd.caveat; "": none
	skip   bool   // skip bad lines instead of stopping
	batch  int
	std    stdio

	bulk     *activity.Bulk  // nil without a ledger
	reading  *activity.Batch // of the lines that are being read
	done     checkpoint      // after the last acknowledged batch
	windowed int             // activities of kinds with a window
	progress *progress
	took     time.Duration // of this run
	recorded int64         // activities imported by this run
}

// run imports the rest of the file, after the part that earlier runs have imported.
func (im *importer) run(ctx context.Context, restart bool) error {
	reader, err := im.begin(ctx, restart)
	if err != nil {
		return fmt.Errorf("import %s: %w", im.source.Name, err)
	}
	im.done.Position = reader.Position()
	start, before := time.Now(), im.done.Imported
	im.progress = newProgress(im.std, im.source.Size, reader.Position().Offset)
	if im.ledger != nil {
		im.bulk = im.ledger.NewBulk()
	}
	if err = im.follow(ctx, reader); err != nil {
		err = errors.Join(err, im.finish(context.WithoutCancel(ctx)))
	}
	im.progress.end()
	if err != nil {
		return fmt.Errorf("import %s: %w; %s", im.source.Name, err, im.outcome())
	}
	im.warn()
	im.took, im.recorded = time.Since(start), im.done.Imported-before
	return nil
}

// report prints the result.
func (im *importer) report(forPrograms bool) error {
	if forPrograms {
		return writeJSON(im.std.out, struct {
			Imported  int64   `json:"imported"`
			Changed   int64   `json:"changed"`
			Skipped   int64   `json:"skipped"`
			Ended     int64   `json:"ended"`
			OverLimit int64   `json:"over_limit"`
			Windowed  int     `json:"windowed"`
			Seconds   float64 `json:"seconds"`
		}{im.done.Imported, im.done.Changed, im.done.Skipped, im.done.Ended, im.done.OverLimit, im.windowed, im.took.Seconds()})
	}
	_, err := fmt.Fprintf(im.std.out, "imported %d activities (%d changed, %d skipped) in %v, %.0f/s\n",
		im.done.Imported, im.done.Changed, im.done.Skipped, im.took.Round(time.Millisecond), float64(im.recorded)/im.took.Seconds())
	return err
}

// warn reports activities that were not recorded, or that other processes will not see.
func (im *importer) warn() {
	if im.windowed > 0 && im.caveat != "" {
		im.std.note(fmt.Sprintf("warning: %d activities are of kinds with a window, and %s", im.windowed, im.caveat))
	}
	if im.done.OverLimit > 0 {
		im.std.note(fmt.Sprintf("warning: %d activities were not recorded: "+
			"their users have reached the limit of the kind", im.done.OverLimit))
	}
	if im.done.Ended > 0 {
		im.std.note(fmt.Sprintf("%d of the skipped lines have an until in the past", im.done.Ended))
	}
}

// begin returns a reader at the position at which the import continues.
func (im *importer) begin(ctx context.Context, restart bool) (*activityfile.Reader, error) {
	id := im.source.ID
	if id == "" {
		return activityfile.NewReader(ctx, im.source, im.add, activityfile.Checkpoint{})
	}
	if restart {
		// Remove the checkpoint before recording anything again. Otherwise a run that later
		// continued at it would skip lines, and could undo later ones.
		if err := im.notes.SetCheckpoint(ctx, id, ""); err != nil {
			return nil, err
		}
	}
	var err error
	if im.done, err = loadCheckpoint(ctx, im.notes, id); err != nil {
		return nil, err
	}
	reader, err := activityfile.NewReader(ctx, im.source, im.add, im.done.Checkpoint)
	if err == nil && reader.Position().Offset > 0 {
		im.std.note(fmt.Sprintf("continuing %s at line %d, after %d activities", im.source.Name, reader.Position().Line, im.done.Imported))
	}
	return reader, err
}

// follow records what reader reads, until the end of the file, a bad line, an error or the end of
// ctx. It completes the current batch first.
func (im *importer) follow(ctx context.Context, reader *activityfile.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A separate goroutine reads, because a read of standard input may block forever and cannot be
	// cancelled.
	batches := make(chan batch)
	go im.read(ctx, reader, batches)
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

// take records a batch and saves its checkpoint.
func (im *importer) take(ctx context.Context, b batch) error {
	outcomes, err := im.record(ctx, &b)
	if err == nil && b.Last {
		err = im.finish(ctx) // before the checkpoint is removed
	}
	if err != nil {
		return err
	}
	for _, bad := range b.Bad {
		im.progress.note(bad.Error())
	}
	im.done.Position = b.End
	for i, a := range b.Activities {
		switch outcomes[i] {
		case activity.Changed:
			im.done.Changed++
		case activity.OverLimit:
			im.done.OverLimit++
		case activity.Ended:
			im.done.Ended++
			im.done.Skipped++
			continue
		case activity.Unchanged, activity.Stuck, activity.Early: // record refuses Early
		}
		im.done.Imported++
		if kind, _ := im.to.Kinds().Named(a.Kind); !kind.InLedger() {
			im.windowed++
		}
	}
	if im.skip {
		im.done.Skipped += int64(len(b.Bad))
	}
	im.progress.advance(b.End.Offset, len(b.Activities))
	if err := im.note(ctx, b); err != nil {
		return err
	}
	return b.Err
}

// finish makes everything recorded visible to feeds.
func (im *importer) finish(ctx context.Context) error {
	if im.bulk == nil {
		return nil
	}
	return im.bulk.Finish(ctx)
}

// note saves the checkpoint of a batch in the ledger, and removes it after the last batch.
func (im *importer) note(ctx context.Context, b batch) error {
	if im.source.ID == "" {
		return nil
	}
	switch {
	case b.Last && b.Err == nil:
		return im.notes.SetCheckpoint(ctx, im.source.ID, "")
	case b.SHA256 == nil:
		return nil
	default:
		im.done.Format, im.done.SHA256, im.done.Columns = im.source.Format, b.SHA256, b.Columns
		return saveCheckpoint(ctx, im.notes, im.source.ID, im.done)
	}
}

// outcome describes, after an error, how much is imported and how to continue.
func (im *importer) outcome() string {
	n := fmt.Sprintf("%d activities before line %d are imported", im.done.Imported, im.done.Position.Line)
	if im.source.ID == "" {
		return n + ", and the import cannot be continued"
	}
	return n + "; run the same command again to continue"
}
