package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/migrate"
)

const maxSettle = 10 * time.Minute

// compareCmds compare the service with an app's own data.
type compareCmds struct {
	Sets compareSetsCmd `cmd:"" help:"${compare_sets}"`
}

type compareSetsCmd struct {
	Sets   setsFlags     `embed:""`
	Settle time.Duration `default:"2s" help:"${settle}" placeholder:"DURATION"`
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
	return c.Sets.use(ctx, std, "compare", c.compare)
}

func (c *compareSetsCmd) compare(
	ctx context.Context, std stdio, sets *migrate.Sets, service *migrate.Service,
) error {
	far, start := newProgress(std, "members"), time.Now()
	sum, corrections, err := (&migrate.Comparison{
		Sets: sets, Service: service, Settle: c.Settle,
		Done: func(more int) { far.show(far.done+more, 0) },
	}).Run(ctx)
	if err := causeOr(ctx, err); err != nil {
		return err
	}
	if err := printActivities(std.out, slices.Values(corrections)); err != nil {
		return err
	}
	std.note(fmt.Sprintf(`compared %d activities of %d users in %v
  missing   %d (not in the ledger, or ending there within minutes)
  extra     %d (only in the ledger)
  invalid   %d (cannot be recorded)`,
		sum.Activities, sum.Groups, time.Since(start).Round(time.Millisecond),
		sum.Missing, sum.Extra, sum.Invalid))
	switch {
	case len(corrections) > 0:
		return fmt.Errorf("%d activities differ", len(corrections))
	case sum.Groups == 0:
		return errors.New("nothing to compare: check --from and --keys")
	default:
		return nil
	}
}

// printActivities prints activities as lines that import reads.
func printActivities(to io.Writer, all iter.Seq[activity.Activity]) error {
	lines := bufio.NewWriter(to)
	for a := range all {
		line, err := activityfile.Line(a)
		if err != nil {
			return err
		}
		_, _ = lines.Write(line) // Flush tells
	}
	return lines.Flush()
}
