package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

const (
	maxSettle        = 10 * time.Minute
	shownDifferences = 20 // without --differences
)

// compareCmds compare the service with an app's own data.
type compareCmds struct {
	Sets compareSetsCmd `cmd:"" help:"${compare_sets}"`
	File compareFileCmd `cmd:"" help:"${compare_file}"`
}

// compareFlags are the flags of every comparison.
type compareFlags struct {
	Service     serviceFlags  `embed:""`
	Data        dataFlags     `embed:""`
	Settle      time.Duration `default:"2s"          help:"${settle}"   placeholder:"DURATION"`
	Differences string        `help:"${differences}" placeholder:"FILE"`
	Result      resultFlags   `embed:""`
}

// Check implements [settings.Checker].
func (f *compareFlags) Check(context.Context) error {
	if f.Settle < 0 || f.Settle > maxSettle {
		return fmt.Errorf("--settle: %v is not in 0s to %v", f.Settle, maxSettle)
	}
	return nil
}

type compareSetsCmd struct {
	Sets setsFlags    `embed:""`
	With compareFlags `embed:""`
}

// Help is shown by kong below the summary.
func (*compareSetsCmd) Help() string {
	return "Asks the service for feeds with the members of each set, which must be dropped (or annotated), and compares each " +
		"user's list with the set. Repeats the check of a difference until it is gone or --settle has passed, so the app may keep " +
		"writing to both. Exits with 1 if anything differs. Changes nothing: import the file of --differences to make the " +
		"service match the sets. Without --server, it also finds users whose set no longer exists."
}

// Run compares.
func (c *compareSetsCmd) Run(ctx context.Context, std stdio) error {
	return c.Sets.use(ctx, c.With.Data.logger(std), std, "compare", func(sets *migrate.Sets) error {
		return c.With.run(ctx, std, sets, c.Sets.Kind)
	})
}

type compareFileCmd struct {
	With   compareFlags `embed:""`
	Kind   string       `help:"${file_kind}" placeholder:"KIND"     required:""`
	Format string       `default:""          enum:"csv,ndjson,"     help:"${format}" placeholder:"FORMAT"`
	File   string       `arg:""              help:"${compare_what}"`
}

// Help is shown by kong below the summary.
func (*compareFileCmd) Help() string {
	return "Works like compare sets, with a file sorted by user, such as an export of a SQL table. The differences include what the " +
		"app wrote after the export: compare with a second export, and import only what differs both times."
}

// Run compares.
func (c *compareFileCmd) Run(ctx context.Context, std stdio) error {
	if err := checkFormat(c.File, c.Format); err != nil {
		return usageError{err}
	}
	kinds, err := c.With.Data.kinds()
	if err != nil {
		return err
	}
	source, err := activityfile.Open(c.File, c.Format, std.in)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	defer source.Close()
	lines, err := activityfile.NewReader(ctx, source, kinds.Check, activityfile.Checkpoint{})
	if err == nil {
		err = c.With.run(ctx, std, &migrate.File{Lines: lines, Kind: c.Kind}, c.Kind)
	}
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	return nil
}

// run compares a source with the service, and prints the result.
func (f *compareFlags) run(ctx context.Context, std stdio, source migrate.Source, kind string) (err error) {
	service, d, halt, err := f.reach(ctx, std, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, halt()) }()
	list := &output{keep: true}
	if f.Differences != "" {
		if list, err = createOutput(f.Differences, std); err != nil {
			return fmt.Errorf("--differences: %w", err)
		}
	}
	bar, start := newProgress(std, -1, 0), time.Now()
	c := &migrate.Comparison{
		Source: source, Service: service, Settle: f.Settle,
		Done: func(activities int) { bar.advance(0, activities) },
	}
	if _, once := source.(*migrate.File); d != nil && !once {
		c.All = func(ctx context.Context, each func(activity.Activity) error) error {
			return d.recorder.Export(ctx, "", each)
		}
	}
	sum, found, err := c.Run(ctx)
	bar.end()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
	case f.Differences == "":
		noteDifferences(found, std)
	default:
		err = writeDifferences(list.file, found, kind)
	}
	if err := list.end(err); err != nil {
		return err
	}
	report := std.out
	if f.Differences == "-" {
		report = std.err // the differences are on standard output
	}
	if err := f.print(report, kind, sum, time.Since(start)); err != nil {
		return err
	}
	switch {
	case len(found) > 0:
		return fmt.Errorf("%d activities differ", len(found))
	case sum.Groups == 0:
		return errors.New("nothing to compare: check --from and --keys, or the file")
	default:
		return nil
	}
}

// reach returns the service that --server names, or an in-process service over the data, which
// changes nothing.
func (f *compareFlags) reach(ctx context.Context, std stdio, kind string) (s *migrate.Service, d *data, halt func() error, err error) {
	if f.Service.Server == "" {
		f.Data.passive = true
		if err := f.Data.checkThere(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	return f.Service.reach(ctx, &f.Data, std, kind)
}

// noteDifferences prints the first differences.
func noteDifferences(found []migrate.Difference, std stdio) {
	for _, d := range found[:min(len(found), shownDifferences)] {
		std.note(fmt.Sprintf("%s: user %q, target %q", d.What, d.User, d.Target))
	}
	if more := len(found) - shownDifferences; more > 0 {
		std.note(fmt.Sprintf("and %d more: --differences lists all", more))
	}
}

// writeDifferences writes lines that correct the differences when they are imported. They add what
// the service lacks, and remove what only the service has.
func writeDifferences(to io.Writer, found []migrate.Difference, kind string) error {
	lines := bufio.NewWriter(to)
	for _, d := range found {
		line, err := activityfile.Line(activity.Activity{
			User: d.User, Kind: kind, Target: d.Target, Remove: d.What == migrate.Extra,
		})
		if err != nil {
			return err
		}
		_, _ = lines.Write(line) // Flush tells
	}
	return lines.Flush()
}

// print prints the result.
func (f *compareFlags) print(out io.Writer, kind string, sum migrate.Compared, took time.Duration) error {
	if f.Result.json() {
		return writeJSON(out, struct {
			Kind string `json:"kind"`
			migrate.Compared
			Seconds float64 `json:"seconds"`
		}{kind, sum, took.Seconds()})
	}
	_, err := fmt.Fprintf(out, `compared %d activities of %d users in %v
  missed    %d (feeds show them)
  unlisted  %d (not in the ledger)
  ending    %d (in the ledger, but end within minutes)
  extra     %d (only in the ledger)
  leaving   %d (only in the ledger, and end within minutes)
  invalid   %d (cannot be recorded)
`, sum.Activities, sum.Groups, took.Round(time.Millisecond), sum.Missed, sum.Unlisted, sum.Ending, sum.Extra, sum.Leaving, sum.Invalid)
	return err
}
