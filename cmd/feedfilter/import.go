package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/favfilter/pagefile"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/importer"
)

// Lines recorded at a time, in one transaction of the ledger. Larger batches write each part of the
// ledger fewer times, and take about 1 KB of memory per line.
const (
	fileBatch   = 200_000
	sharedBatch = 10_000 // other writers wait for the locks of a transaction
	plainBatch  = 5_000  // without a ledger
)

type importCmd struct {
	Data    dataFlags   `embed:""`
	Format  string      `default:""        enum:"csv,ndjson,text," help:"${format}"   placeholder:"FORMAT"`
	OnError string      `default:"stop"    enum:"stop,skip"        help:"${on_error}" placeholder:"POLICY"`
	Batch   int         `default:"0"       help:"${batch}"         placeholder:"N"`
	Restart bool        `help:"${restart}"`
	Sync    syncFlags   `embed:""`
	Result  resultFlags `embed:""`
	File    string      `arg:""            help:"${file}"`
}

// Check implements [settings.Checker].
func (c *importCmd) Check(ctx context.Context) error {
	var all checks
	all.wantf(
		c.Batch >= 0 && c.Batch <= fileBatch,
		"--batch: %d is not in 0 to %d", c.Batch, fileBatch,
	)
	if c.File != "" { // else another command was chosen
		all.note(c.checkFormat())
		all.note(c.checkSync(ctx))
	}
	all.note(c.Data.checkFiles())
	return all.err()
}

// checkFormat returns an error if neither --format nor the name of a file tells its format.
func (c *importCmd) checkFormat() error {
	switch format := cmp.Or(c.Format, activityfile.FormatOf(c.File)); {
	case format == "" && c.Sync.Sync:
		return fmt.Errorf("%s: unknown format: give --format csv, ndjson or text", c.File)
	case format == activityfile.Text && !c.Sync.Sync && c.Format != "":
		return errors.New("--format: text requires --sync")
	case (format == "" || format == activityfile.Text) && !c.Sync.Sync:
		return fmt.Errorf("%s: unknown format: give --format csv or --format ndjson", c.File)
	default:
		return nil
	}
}

// Run imports the file.
func (c *importCmd) Run(ctx context.Context, std stdio) (err error) {
	if c.Sync.Sync {
		return c.sync(ctx, std, func(to importer.Target) importer.Target { return to })
	}
	return c.run(ctx, std, func(d *data) importer.Checkpoints { return d.ledger })
}

func (c *importCmd) run(
	ctx context.Context, std stdio, notes func(*data) importer.Checkpoints,
) (err error) {
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
	im := &importer.Import{
		Source:      source,
		To:          d.activities,
		Ledger:      d.recorder,
		Checkpoints: notes(d),
		Batch:       c.batch(d),
		Skip:        c.OnError == "skip",
	}
	if err := c.record(ctx, im, c.caveat(d), std); err != nil {
		return fmt.Errorf("import %s: %w", source.Name, err)
	}
	return nil
}

// record imports, and prints the result.
func (c *importCmd) record(
	ctx context.Context, im *importer.Import, caveat string, std stdio,
) error {
	if err := im.Begin(ctx, c.Restart); err != nil {
		return err
	}
	from, before := im.Done.Position, im.Done.Imported
	if from.Offset > 0 {
		std.note(fmt.Sprintf(
			"continuing %s at line %d, after %d activities", im.Source.Name, from.Line, before,
		))
	}
	start, far := time.Now(), newProgress(std, "MiB")
	im.Advance = func(offset int64) { far.show(int(offset>>20), int(im.Source.Size>>20)) }
	skippable := false // the line that stopped the import
	im.Bad = func(problem error) {
		bad, line := errors.AsType[*activityfile.LineError](problem)
		skippable = line && !bad.Fatal && !im.Skip
		std.note(problem.Error())
	}
	err := im.Run(ctx)
	took, done := time.Since(start), im.Done
	if err != nil {
		then := "; run the same command again to continue"
		switch {
		case im.Source.ID == "":
			then = ", and the import cannot be continued"
		case skippable:
			then = "; to continue, correct the line, or skip bad ones with --on-error skip, " +
				"and run the same command again"
		}
		return fmt.Errorf(
			"%w; %d activities before line %d are imported%s",
			err, done.Imported, done.Position.Line, then,
		)
	}
	warn(im, caveat, std)
	if c.Result.json() {
		err = writeJSON(std.out, struct {
			Imported  int64   `json:"imported"`
			Changed   int64   `json:"changed"`
			Skipped   int64   `json:"skipped"`
			Ended     int64   `json:"ended"`
			OverLimit int64   `json:"over_limit"`
			Windowed  int     `json:"windowed"`
			Seconds   float64 `json:"seconds"`
		}{
			done.Imported, done.Changed, done.Skipped, done.Ended, done.OverLimit,
			im.Windowed, took.Seconds(),
		})
	} else {
		_, err = fmt.Fprintf(std.out, "imported %d activities (%d changed, %d skipped) in %v, %.0f/s\n",
			done.Imported, done.Changed, done.Skipped, took.Round(time.Millisecond),
			float64(done.Imported-before)/took.Seconds())
	}
	switch {
	case done.Imported == 0 && done.Skipped == 0:
		err = errors.Join(err, errors.New("there are no activities in it"))
	case done.Imported == 0 && done.Skipped > done.Ended:
		err = errors.Join(err, fmt.Errorf("all %d lines were skipped", done.Skipped))
	}
	return err
}

// warn reports activities that were not recorded, or that other processes will not see.
func warn(im *importer.Import, caveat string, std stdio) {
	if im.Windowed > 0 && caveat != "" {
		std.note(fmt.Sprintf(
			"warning: %d activities are of kinds with a window, and %s", im.Windowed, caveat,
		))
	}
	if n := im.Done.OverLimit; n > 0 {
		std.note(fmt.Sprintf(
			"warning: %d activities were not recorded: their users have reached the limit of the kind",
			n,
		))
	}
	if n := im.Done.Ended; n > 0 {
		std.note(fmt.Sprintf("%d of the skipped lines have an until in the past", n))
	}
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
	return min(cmp.Or(c.Batch, most), most)
}

// caveat returns a warning about activities of kinds with a window, if other processes of the
// ledger will not see them.
func (c *importCmd) caveat(d *data) string {
	switch {
	case d.redis != nil || d.ledger == nil || !d.ledger.Shared():
		return ""
	case d.windows == nil:
		return "are lost: another feedfilter uses the data directory; " +
			"record them through it, or import them with --redis"
	default:
		return fmt.Sprintf(
			"are in the data directory %s: "+
				"only a service with this --data-dir and without --redis has them",
			c.Data.DataDir,
		)
	}
}
