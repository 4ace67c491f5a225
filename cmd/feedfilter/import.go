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

// How many lines are recorded at a time, in one transaction of the ledger. The more they are, the fewer times a part of the ledger that
// they are scattered over is written; they take about a kilobyte of memory each.
const (
	maxBatch    = 1_000_000
	fileBatch   = 200_000
	sharedBatch = 10_000 // others wait for what a transaction has locked
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
		"%s: the name does not tell the format: give --format csv or --format ndjson", c.File)
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
			return nil // the service runs, and keeps its windows where these would be kept
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
		source.ID = "" // a checkpoint would be in the ledger
	}
	logDamage(ctx, log, d)
	im := &importer{
		source: source,
		to:     d.activities,
		notes:  notes(d),
		caveat: c.caveat(d),
		skip:   c.OnError == "skip",
		batch:  c.batch(d),
		std:    std,
	}
	if err := im.run(ctx, c.Restart); err != nil {
		return err
	}
	return im.report(c.Result.json())
}

// batch is how many lines are recorded at a time.
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

// caveat says who does not get to see activities that the ledger does not keep, though they share the ledger.
func (c *importCmd) caveat(d *data) string {
	switch {
	case d.redis != nil || d.ledger == nil || !d.ledger.Shared():
		return ""
	case d.windows == nil:
		return "are gone: another feedfilter keeps those in the data directory; have it record them, or import them with --redis"
	default:
		return fmt.Sprintf("are in the data directory, %s: only a service with that and without --redis finds them", c.Data.DataDir)
	}
}

// importer brings one file into a Recorder, a batch at a time and in order.
type importer struct {
	source *activityfile.File
	to     activity.Activities
	notes  checkpoints
	caveat string // about activities that the ledger does not keep; "": there is nothing to say
	skip   bool   // bad lines, instead of stopping at the first
	batch  int
	std    stdio

	bulk     *activity.Bulk // nil without a ledger
	done     checkpoint     // up to the last batch that was acknowledged
	windowed int            // activities that the ledger does not keep
	progress *progress
	took     time.Duration // this run
	recorded int64         // by it, of those imported
}

// run imports what earlier runs have left to do.
func (im *importer) run(ctx context.Context, restart bool) error {
	reader, err := im.begin(ctx, restart)
	if err != nil {
		return fmt.Errorf("import %s: %w", im.source.Name, err)
	}
	im.done.Position = reader.Position()
	start, before := time.Now(), im.done.Imported
	im.progress = newProgress(im.std, im.source.Size, reader.Position().Offset)
	if r, ok := im.to.(*activity.Recorder); ok {
		im.bulk = r.NewBulk()
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

// report prints what was imported.
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

// warn says what of the file is not where it was to go.
func (im *importer) warn() {
	if im.windowed > 0 && im.caveat != "" {
		im.std.note(fmt.Sprintf("warning: %d of the activities are of kinds that the ledger does not keep, and %s", im.windowed, im.caveat))
	}
	if im.done.OverLimit > 0 {
		im.std.note(fmt.Sprintf("warning: %d of the activities were not recorded: "+
			"their users have as many of the kind as may be", im.done.OverLimit))
	}
	if im.done.Ended > 0 {
		im.std.note(fmt.Sprintf("%d of the lines skipped were over by now", im.done.Ended))
	}
}

// begin returns a reader that stands where the import has to go on.
func (im *importer) begin(ctx context.Context, restart bool) (*activityfile.Reader, error) {
	kinds, id := im.to.Kinds(), im.source.ID
	if id == "" {
		return activityfile.NewReader(ctx, im.source, kinds, activityfile.Checkpoint{})
	}
	if restart {
		// Before anything is recorded again: who continued at the old checkpoint
		// after that would undo what stands between the two.
		if err := im.notes.SetCheckpoint(ctx, id, ""); err != nil {
			return nil, err
		}
	}
	var err error
	if im.done, err = loadCheckpoint(ctx, im.notes, id); err != nil {
		return nil, err
	}
	reader, err := activityfile.NewReader(ctx, im.source, kinds, im.done.Checkpoint)
	if err == nil && reader.Position().Offset > 0 {
		im.std.note(fmt.Sprintf("continuing %s at line %d, after %d activities", im.source.Name, reader.Position().Line, im.done.Imported))
	}
	return reader, err
}

// follow records what reader reads until its end, a bad line, an error or the end
// of ctx. A batch that was begun is finished.
func (im *importer) follow(ctx context.Context, reader *activityfile.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Reading goes on in a goroutine of its own: a read of standard input may wait
	// for ever, and cannot be called off.
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

// take records a batch and notes that it is done.
func (im *importer) take(ctx context.Context, b batch) error {
	outcomes, err := im.record(ctx, &b)
	if err == nil && b.Last {
		err = im.finish(ctx) // before it is noted to be done
	}
	if err != nil {
		return err
	}
	for _, bad := range b.Bad {
		im.progress.note(bad.Error())
	}
	im.done.Position = b.End
	im.done.Imported += int64(len(outcomes))
	for i, a := range b.Activities {
		switch outcomes[i] {
		case activity.Changed:
			im.done.Changed++
		case activity.OverLimit:
			im.done.OverLimit++
		case activity.Unchanged, activity.Stuck:
		}
		if kind, _ := im.to.Kinds().Named(a.Kind); !kind.InLedger() {
			im.windowed++
		}
	}
	if im.skip {
		im.done.Skipped += int64(len(b.Bad))
	}
	im.progress.advance(b.End.Offset, len(outcomes))
	if err := im.note(ctx, b); err != nil {
		return err
	}
	return b.Err
}

// finish has feeds see all that was recorded.
func (im *importer) finish(ctx context.Context) error {
	if im.bulk == nil {
		return nil
	}
	return im.bulk.Finish(ctx)
}

// note leaves the checkpoint of a batch in the ledger, and removes it after the last.
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

// outcome says, for an error, how far the import has come and how it goes on.
func (im *importer) outcome() string {
	n := fmt.Sprintf("%d activities before line %d are imported", im.done.Imported, im.done.Position.Line)
	if im.source.ID == "" {
		return n + ", and it cannot be continued"
	}
	return n + "; run the same command again to continue"
}
