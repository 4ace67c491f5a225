package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
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
	return "The number only grows: --pages must be a power of two above the present number. New pages are built beside the old " +
		"ones and then replace them, while feeds and writes continue. On PostgreSQL, the command runs beside the services and " +
		"needs their --redis, --filter, --kinds and --false-positive-rate. On SQLite, use --server, or stop the service first. " +
		"A reshape that has begun cannot be undone. If it is interrupted, run the command again or restart a service: either " +
		"continues it. Remove or update --pages of services before their next start. With --server, the token needs ops:read and " +
		"ops:write."
}

// Check implements [settings.Checker].
func (c *reshapeCmd) Check(context.Context) error {
	var all checks
	all.wantf(c.Data.Pages != nil, "--pages: required")
	all.wantf(c.Service.Server != "" || c.Data.Ledger != noLedger, "--ledger: required to change the number of pages")
	all.note(c.Data.checkFiles())
	return all.err()
}

// Run raises the number of pages.
func (c *reshapeCmd) Run(ctx context.Context, std stdio) (err error) {
	pages := c.Data.pages()
	bar := &pagesBar{std: std}
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
	switch refusal(err) {
	case activity.CodeTooManyPages:
		return usageError{fmt.Errorf("reshape: %w; --force allows it", err)}
	case activity.CodeOutOfRange:
		return usageError{fmt.Errorf("reshape: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("reshape: %w; %s", err, c.outcome(bar))
	}
	took := time.Since(start)
	if c.Result.json() {
		return writeJSON(std.out, struct {
			Pages   uint32  `json:"pages"`
			Seconds float64 `json:"seconds"`
		}{pages, took.Seconds()})
	}
	_, err = fmt.Fprintf(std.out, "reshaped to %d pages in %v\n", pages, took.Round(time.Millisecond))
	return err
}

// refusal returns the code of an error that refuses the number; "" for other errors.
func refusal(err error) string {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Code
	}
	if refused, ok := errors.AsType[*activity.InvalidError](err); ok {
		return refused.Code
	}
	return ""
}

// outcome describes, after an error, how many pages are built and how the reshape continues.
func (c *reshapeCmd) outcome(bar *pagesBar) string {
	done := "no page is built yet"
	if bar.pages > 0 {
		done = fmt.Sprintf("%d of %d pages are built", bar.done, bar.pages)
	}
	if c.Service.Server != "" && bar.pages > 0 {
		return done + "; the service continues while it runs"
	}
	return done + "; run the same command again to continue"
}

// reshape reshapes in this process.
func (c *reshapeCmd) reshape(ctx context.Context, number uint32, bar *pagesBar) (err error) {
	if err := c.Data.checkThere(ctx); err != nil {
		return err
	}
	c.Data.Pages = nil // the ledger knows the present number
	c.Data.ScrubRate = 1
	d, err := c.Data.open(ctx, c.Data.logger(bar.std), nil)
	if errors.Is(err, ledger.ErrInUse) {
		return fmt.Errorf("%w, or use it with --server", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.pingRedis(ctx); err != nil {
		return err
	}
	var options []pages.GrowOption
	if c.Force {
		options = append(options, pages.ForceGrow)
	}
	r, err := d.withLedger("a reshape")
	if err != nil {
		return err
	}
	return r.Grower().Grow(ctx, number, bar.show, options...)
}

// pagesBar shows on a terminal how many pages are done. Without a terminal, it shows nothing.
type pagesBar struct {
	std         stdio
	bar         *progressbar.ProgressBar // nil: no terminal
	done, pages int
}

func (b *pagesBar) show(done, pages int) {
	switch {
	case b.pages == 0 && term.IsTerminal(int(b.std.err.Fd())):
		b.bar = progressbar.NewOptions(pages, append(barOptions(b.std),
			progressbar.OptionSetDescription("pages"),
			progressbar.OptionSetPredictTime(true))...)
	case b.pages != pages && b.bar != nil:
		b.bar.ChangeMax(pages)
	}
	b.done, b.pages = done, pages
	if b.bar != nil {
		_ = b.bar.Set(done)
	}
}

// note writes a line above the bar.
func (b *pagesBar) note(line string) {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
	b.std.note(line)
}

// end removes the bar.
func (b *pagesBar) end() {
	if b.bar != nil {
		_ = b.bar.Exit()
		_ = b.bar.Clear()
	}
}
