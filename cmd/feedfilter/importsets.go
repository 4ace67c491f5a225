package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/internal/migrate"
)

// importCmds are the sources to import from. "import" alone is "import file".
type importCmds struct {
	File importCmd     `cmd:"" default:"withargs"    help:"${import_file}"`
	Sets importSetsCmd `cmd:"" help:"${import_sets}"`
}

type importSetsCmd struct {
	Sets   setsFlags `embed:""`
	Scores string    `default:"ignore" enum:"ignore,seconds,milliseconds" help:"${scores}" placeholder:"UNIT"`
}

// Run imports the sets.
func (c *importSetsCmd) Run(ctx context.Context, std stdio) error {
	return c.Sets.use(ctx, std, "import "+c.Sets.Keys.String(), c.record)
}

func (c *importSetsCmd) record(
	ctx context.Context, std stdio, sets *migrate.Sets, service *migrate.Service,
) error {
	sets.Scores = migrate.Scores(c.Scores)
	far, start := newProgress(std, "members"), time.Now()
	sum, err := (&migrate.Import{
		Sets: sets, Service: service,
		Bad:  func(problem error) { std.note(problem.Error()) },
		Done: func(more int) { far.show(far.done+more, 0) },
	}).Run(ctx)
	if err := causeOr(ctx, err); err != nil {
		return fmt.Errorf(
			"%w; %d members imported so far: correct this, and run the same command again",
			err, sum.Changed,
		)
	}
	if sum.OverLimit > 0 {
		std.note(fmt.Sprintf(
			"warning: %d members were not recorded: their users have reached the limit of the kind",
			sum.OverLimit,
		))
	}
	took := time.Since(start)
	_, err = fmt.Fprintf(std.out, "imported %d members of %d sets "+
		"(%d changed, %d undone meanwhile, %d skipped) in %v, %.0f/s\n",
		sum.Read, sum.Groups, sum.Changed, sum.Undone, sum.Skipped,
		took.Round(time.Millisecond), float64(sum.Read)/took.Seconds())
	switch {
	case sum.Groups == 0:
		none := errors.New("found no sets: check --keys, and the database number in --from")
		err = errors.Join(err, none)
	case sum.Read > 0 && sum.Skipped == sum.Read:
		err = errors.Join(err, fmt.Errorf("all %d members were skipped", sum.Read))
	}
	return err
}
