package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/client"
)

type reshapeCmd struct {
	Data    dataFlags    `embed:""`
	Service serviceFlags `embed:""`
	Result  resultFlags  `embed:""`

	Force bool `help:"${reshape_force}"`
}

// Help is shown by kong below the summary.
func (*reshapeCmd) Help() string {
	return "Users who share pages are cut into --pages of them, group after group, while feeds and writes go on. What was interrupted goes " +
		"on when the command is run again. With a ledger on Postgres it runs beside the services, and needs their " +
		"--redis, --filter, --kinds and --false-positive-rate. A SQLite ledger is the service's alone: have that do it, with --server, or " +
		"stop it first. A group that was moved within the last minute waits until that is over. Services that were given " +
		"--pages have to be given the new number when they start again, or none. The number that was asked for last counts: to stop a " +
		"reshape, and take it back, ask for the number that there was before. A service needs a token with ops:read and ops:write."
}

// Check implements [settings.Checker].
func (c *reshapeCmd) Check(context.Context) error {
	var all checks
	all.wantf(c.Data.Pages != nil, "--pages: say how many there are to be")
	all.wantf(c.Service.Server != "" || c.Data.Ledger != noLedger, "--ledger: without one, the number of pages cannot be changed")
	all.note(c.Data.checkFiles())
	return all.err()
}

// Run changes the number of pages.
func (c *reshapeCmd) Run(ctx context.Context, std stdio) (err error) {
	pages := c.Data.pages()
	bar := &homesBar{std: std}
	start := time.Now()
	if c.Service.Server != "" {
		err = c.ask(ctx, pages, bar)
	} else {
		err = c.reshape(ctx, pages, bar)
	}
	bar.end()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if tooMany(err) {
		return usageError{fmt.Errorf("reshape: %w; --force allows it", err)}
	}
	if err != nil {
		return fmt.Errorf("reshape: %w; %s", err, c.outcome(bar))
	}
	took := time.Since(start)
	if c.Result.json() {
		return writeJSON(std.out, struct {
			Homes   int     `json:"homes"`
			Pages   uint32  `json:"pages"`
			Seconds float64 `json:"seconds"`
		}{bar.homes, pages, took.Seconds()})
	}
	_, err = fmt.Fprintf(std.out, "reshaped %d homes to %d pages in %v\n", bar.homes, pages, took.Round(time.Millisecond))
	return err
}

// tooMany reports whether many more pages were asked for than are due.
func tooMany(err error) bool {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Code == activity.CodeTooManyPages
	}
	refused, ok := errors.AsType[*activity.InvalidError](err)
	return ok && refused.Code == activity.CodeTooManyPages
}

// outcome says, for an error, how far the reshape has come and how it goes on.
func (c *reshapeCmd) outcome(bar *homesBar) string {
	done := "nothing was reshaped yet"
	if bar.homes > 0 {
		done = fmt.Sprintf("%d of %d homes are reshaped", bar.done, bar.homes)
	}
	if c.Service.Server != "" && bar.homes > 0 {
		return done + "; the service goes on as long as it runs"
	}
	return done + "; run the same command again to continue"
}

// reshape does it in this process.
func (c *reshapeCmd) reshape(ctx context.Context, pages uint32, bar *homesBar) (err error) {
	if err := c.Data.checkThere(); err != nil {
		return err
	}
	c.Data.Pages = nil // what they are now is the ledger's to say
	c.Data.ScrubRate = 1
	d, err := c.Data.open(ctx, c.Data.logger(bar.std), nil)
	if errors.Is(err, ledger.ErrInUse) {
		return fmt.Errorf("%w; or has to do it itself: see --server", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.pingRedis(ctx); err != nil {
		return err
	}
	var options []activity.ReshapeOption
	if c.Force {
		options = append(options, activity.ForceReshape)
	}
	r, err := activity.WithLedger(d.activities, "a reshape")
	if err != nil {
		return err
	}
	return r.Reshape(ctx, pages, bar.show, options...)
}

// homesBar shows on a terminal how far a reshape has come, or whatever else goes through so many of something. Without a
// terminal, it shows nothing.
type homesBar struct {
	std         stdio
	of          string                   // what is counted; "": homes
	bar         *progressbar.ProgressBar // nil: no terminal
	done, homes int
}

func (b *homesBar) show(done, homes int) {
	if b.homes == 0 && term.IsTerminal(int(b.std.err.Fd())) {
		b.bar = progressbar.NewOptions(homes, append(barOptions(b.std),
			progressbar.OptionSetDescription(cmp.Or(b.of, "homes")),
			progressbar.OptionSetPredictTime(true))...)
	}
	b.done, b.homes = done, homes
	if b.bar != nil {
		_ = b.bar.Set(done)
	}
}

// note writes a line above the bar.
func (b *homesBar) note(line string) {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
	b.std.note(line)
}

// end removes the bar.
func (b *homesBar) end() {
	if b.bar != nil {
		_ = b.bar.Exit()
		_ = b.bar.Clear()
	}
}
