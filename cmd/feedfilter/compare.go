package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

const (
	maxSample = 500
	maxSettle = 10 * time.Minute
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
	Sample      int           `default:"20"          help:"${sample}"   placeholder:"N"`
	Settle      time.Duration `default:"2s"          help:"${settle}"   placeholder:"DURATION"`
	Differences string        `help:"${differences}" placeholder:"FILE"`
	Result      resultFlags   `embed:""`
}

// Check implements [settings.Checker].
func (f *compareFlags) Check(context.Context) error {
	if f.Sample < 0 || f.Sample > maxSample {
		return fmt.Errorf("--sample: %d is not in 0 to %d", f.Sample, maxSample)
	}
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
		"writing to both. Measures the false-positive rate with unrelated candidates. Exits with 1 if anything differs, or if the " +
		"rate is too high. Changes nothing: import the file of --differences to make the service match the sets. Without " +
		"--server, it also finds users whose set no longer exists."
}

// Run compares.
func (c *compareSetsCmd) Run(ctx context.Context, std stdio) (err error) {
	sets, stop, err := c.Sets.open(ctx, c.With.Data.logger(std))
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	comparison := &migrate.Comparison{Source: sets}
	err = c.With.run(ctx, std, comparison, c.Sets.Kind)
	noteOthers(sets, std)
	return err
}

// run compares as the flags say.
func (f *compareFlags) run(ctx context.Context, std stdio, c *migrate.Comparison, kind string) (err error) {
	service, d, halt, err := f.reach(ctx, std)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	defer func() { err = errors.Join(err, halt()) }()
	if c.Kind, err = service.Kind(ctx, kind); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	if _, once := c.Source.(*migrate.Records); d != nil && !once {
		c.All = func(ctx context.Context, each func(activity.Activity) error) error {
			r, err := d.withLedger("a comparison")
			if err != nil {
				return err
			}
			return r.Export(ctx, "", each)
		}
	}
	list, err := f.list(c.Kind.Name, std)
	if err != nil {
		return fmt.Errorf("compare: --differences: %w", err)
	}
	bar, start := newCounter(std), time.Now()
	c.Service, c.Sample, c.Settle, c.Found, c.Done = service, f.Sample, f.Settle, list.add, bar.advance
	sum, err := c.Run(ctx)
	bar.end()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, list.end(err)); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	report := std.out
	if f.Differences == "-" {
		report = std.err // the differences are on standard output
	}
	if err := f.print(report, c.Kind.Name, sum, time.Since(start)); err != nil {
		return err
	}
	return f.judge(sum)
}

// reach returns the service that --server names, or an in-process service over the data, which
// changes nothing.
func (f *compareFlags) reach(ctx context.Context, std stdio) (s *migrate.Service, d *data, halt func() error, err error) {
	if f.Service.Server == "" {
		f.Data.passive = true
		if err := f.Data.checkThere(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	return f.Service.reach(ctx, &f.Data, std)
}

// judge returns an error if anything differs, or if the false-positive rate is too high.
func (f *compareFlags) judge(sum migrate.Compared) error {
	switch {
	case sum.Differences() > 0:
		return fmt.Errorf("compare: %d activities differ", sum.Differences())
	case sum.Groups == 0:
		return errors.New("compare: nothing to compare: check --from and --keys, or the file")
	case sum.RateLow > f.Data.FalsePositiveRate:
		return fmt.Errorf("compare: %.3g of clean candidates are dropped, more than --false-positive-rate %g",
			sum.Rate, f.Data.FalsePositiveRate)
	default:
		return nil
	}
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
  dropped by chance: %d of %d clean candidates, %.2g (%.2g to %.2g with 99 %% confidence)
`, sum.Activities, sum.Groups, took.Round(time.Millisecond),
		sum.Missed, sum.Unlisted, sum.Ending, sum.Extra, sum.Leaving, sum.Invalid,
		sum.FalsePositives, sum.Clean, sum.Rate, sum.RateLow, sum.RateHigh)
	return err
}
