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

// Help is shown by kong below the summary.
func (*importCmds) Help() string {
	return "Without a subcommand, \"import\" is \"import file\": feedfilter import blocks.csv. See docs/MIGRATION.md."
}

type importSetsCmd struct {
	Sets    setsFlags    `embed:""`
	Service serviceFlags `embed:""`
	Data    dataFlags    `embed:""`
	OnError string       `default:"stop" enum:"stop,skip" help:"${on_error_member}" placeholder:"POLICY"`
	Result  resultFlags  `embed:""`
}

// Help is shown by kong below the summary.
func (*importSetsCmd) Help() string {
	return "Scans a Redis server, or all primaries of a cluster, for sets and sorted sets, one per user, and records their members. " +
		"The app may keep writing, to the sets first and then to the service: activities that it undoes meanwhile stay undone. " +
		"After an interruption, run the import again from the start; repeating is safe. While a service runs on a SQLite ledger, " +
		"import through it with --server. \"feedfilter compare sets\" shows the differences afterwards."
}

// Run imports the sets.
func (c *importSetsCmd) Run(ctx context.Context, std stdio) (err error) {
	fail := func(err error) error { return fmt.Errorf("import %s: %w", c.Sets.Keys, err) }
	sets, stop, err := c.Sets.open(ctx, c.Data.logger(std))
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	service, _, halt, err := c.Service.reach(ctx, &c.Data, std)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, halt()) }()
	kind, err := service.Kind(ctx, c.Sets.Kind)
	if err != nil {
		return fail(err)
	}
	bar, start := newCounter(std), time.Now()
	im := &migrate.Import{
		Source: sets, Service: service, Kind: kind,
		Skip: c.OnError == "skip",
		Bad:  func(problem error) { bar.note(problem.Error()) },
		Done: bar.advance,
	}
	sum, err := im.Run(ctx)
	bar.end()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fail(fmt.Errorf("%w; %d members imported so far: correct this, and run the same command again", err, sum.Changed))
	}
	c.warn(sets, sum, std)
	err = c.report(sum, time.Since(start), std)
	if sum.Read > 0 && sum.Skipped == sum.Read {
		err = errors.Join(err, fail(fmt.Errorf("all %d members were skipped", sum.Read)))
	}
	return err
}

func (c *importSetsCmd) report(sum migrate.Imported, took time.Duration, std stdio) error {
	if c.Result.json() {
		return writeJSON(std.out, struct {
			migrate.Imported
			Seconds float64 `json:"seconds"`
		}{sum, took.Seconds()})
	}
	_, err := fmt.Fprintf(std.out, "imported %d members of %d sets (%d changed, %d undone meanwhile, %d skipped) in %v, %.0f/s\n",
		sum.Read, sum.Groups, sum.Changed, sum.Undone, sum.Skipped, took.Round(time.Millisecond), float64(sum.Read)/took.Seconds())
	return err
}

// warn reports members and keys that were not imported.
func (*importSetsCmd) warn(sets *migrate.Sets, sum migrate.Imported, std stdio) {
	noteOthers(sets, std)
	if sum.Groups == 0 {
		std.note("warning: found no sets: check --keys, and the database number in --from")
	}
	if sum.OverLimit > 0 {
		std.note(fmt.Sprintf("warning: %d members were not recorded: their users have reached the limit of the kind", sum.OverLimit))
	}
}
