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
}

type compareSetsCmd struct {
	Sets        setsFlags     `embed:""`
	Settle      time.Duration `default:"2s"          help:"${settle}"   placeholder:"DURATION"`
	Differences string        `help:"${differences}" placeholder:"FILE"`
	Result      resultFlags   `embed:""`
}

// Help is shown by kong below the summary.
func (*compareSetsCmd) Help() string {
	return "Compares the set of each user with the user's list in the ledger of a running service. Repeats the check of a " +
		"difference until it is gone or --settle has passed, so the app may keep writing to both. Exits with 1 if anything " +
		"differs. Changes nothing: import the file of --differences to make the ledger match the sets. Does not look for users " +
		"who have no set."
}

// Check implements [settings.Checker].
func (c *compareSetsCmd) Check(context.Context) error {
	if c.Settle < 0 || c.Settle > maxSettle {
		return fmt.Errorf("--settle: %v is not in 0s to %v", c.Settle, maxSettle)
	}
	return nil
}

// Run compares.
func (c *compareSetsCmd) Run(ctx context.Context, std stdio) error {
	return c.Sets.use(ctx, std, "compare", func(sets *migrate.Sets, service *migrate.Service) error {
		return c.run(ctx, std, sets, service)
	})
}

// run compares the sets with the service, and prints the result.
func (c *compareSetsCmd) run(ctx context.Context, std stdio, sets *migrate.Sets, service *migrate.Service) (err error) {
	list := &output{keep: true}
	if c.Differences != "" {
		if list, err = createOutput(c.Differences, std); err != nil {
			return fmt.Errorf("--differences: %w", err)
		}
	}
	bar, start := newProgress(std, -1, 0), time.Now()
	sum, found, err := (&migrate.Comparison{
		Sets: sets, Service: service, Settle: c.Settle,
		Done: func(activities int) { bar.advance(0, activities) },
	}).Run(ctx)
	bar.end()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
	case c.Differences == "":
		noteDifferences(found, std)
	default:
		err = writeDifferences(list.file, found, c.Sets.Kind)
	}
	if err := list.end(err); err != nil {
		return err
	}
	report := std.out
	if c.Differences == "-" {
		report = std.err // the differences are on standard output
	}
	if err := c.print(report, sum, time.Since(start)); err != nil {
		return err
	}
	switch {
	case len(found) > 0:
		return fmt.Errorf("%d activities differ", len(found))
	case sum.Groups == 0:
		return errors.New("nothing to compare: check --from and --keys")
	default:
		return nil
	}
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
func (c *compareSetsCmd) print(out io.Writer, sum migrate.Compared, took time.Duration) error {
	if c.Result.json() {
		return writeJSON(out, struct {
			Kind string `json:"kind"`
			migrate.Compared
			Seconds float64 `json:"seconds"`
		}{c.Sets.Kind, sum, took.Seconds()})
	}
	_, err := fmt.Fprintf(out, `compared %d activities of %d users in %v
  missing   %d (not in the ledger, or ending there within minutes)
  extra     %d (only in the ledger)
  invalid   %d (cannot be recorded)
`, sum.Activities, sum.Groups, took.Round(time.Millisecond), sum.Missing, sum.Extra, sum.Invalid)
	return err
}
