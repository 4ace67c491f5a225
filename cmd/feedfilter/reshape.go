package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/client"
)

const (
	// askInterval is the time between two questions about progress.
	askInterval = 500 * time.Millisecond
	// maxSilence is the number of times in a row that the service may fail to answer.
	maxSilence = 10
)

type reshapeCmd struct {
	Data    dataFlags    `embed:""`
	Service serviceFlags `embed:""`
	Result  resultFlags  `embed:""`

	Force bool `help:"${reshape_force}"`
}

// Check implements [settings.Checker].
func (c *reshapeCmd) Check(context.Context) error {
	var all checks
	all.wantf(c.Data.Pages != nil, "--pages: required")
	all.wantf(
		c.Service.Server != "" || c.Data.Ledger != noLedger,
		"--ledger: required to change the number of pages",
	)
	all.note(c.Data.checkFiles())
	return all.err()
}

// Run raises the number of pages.
func (c *reshapeCmd) Run(ctx context.Context, std stdio) (err error) {
	pages := c.Data.pages()
	far := newProgress(std, "pages")
	start := time.Now()
	c.Data.ScrubRate = 1
	err = c.Service.with(ctx, &c.Data, std, func(s *client.Client) error {
		return c.ask(ctx, s, pages, far)
	})
	err = causeOr(ctx, err)
	switch refusal(err) {
	case activity.CodeTooManyPages:
		return usageError{fmt.Errorf("reshape: %w; --force allows it", err)}
	case activity.CodeOutOfRange:
		return usageError{fmt.Errorf("reshape: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("reshape: %w; %s", err, c.outcome(far))
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
	return ""
}

// outcome describes, after an error, how many pages are built and how the reshape continues.
func (c *reshapeCmd) outcome(far *progress) string {
	done := "no page is built yet"
	if far.all > 0 {
		done = fmt.Sprintf("%d of %d pages are built", far.done, far.all)
	}
	if c.Service.Server != "" && far.all > 0 {
		return done + "; the service continues while it runs"
	}
	return done + "; run the same command again to continue"
}

// ask tells a service to reshape, and waits until all users are on the new pages and the old ones
// are removed. A service completes a reshape in progress first.
func (c *reshapeCmd) ask(
	ctx context.Context, service *client.Client, pages uint32, far *progress,
) error {
	ask := service.Reshape
	if c.Force {
		ask = service.ForceReshape
	}
	var s client.Pages
	troubled := ""
	begin := func() (err error) { s, err = ask(ctx, pages); return err }
	again := func() (err error) { s, err = service.Pages(ctx); return err }
	return await(ctx, begin, again, func() (ended bool, err error) {
		if s.Pages > pages {
			return false, fmt.Errorf(
				"another request has asked the service for %d pages meanwhile", s.Pages,
			)
		}
		far.show(int(int64(s.Reshaped)*int64(s.Pages)/int64(s.Homes)), int(s.Pages))
		if !s.Reshaping && s.SharedPages != int(pages) {
			why := cmp.Or(s.Trouble, "it was restarted")
			return false, fmt.Errorf("the service stopped the reshape: %s", why)
		}
		if s.Reshaping && s.Trouble != troubled && s.Trouble != "" {
			far.std.note("the service waits: " + s.Trouble)
		}
		troubled = s.Trouble
		return !s.Reshaping, nil
	})
}

// await has a service begin work, and asks it again and again until seen reports that the work has
// ended, or fails. It gives up if begin fails, or ask fails maxSilence times in a row.
func await(
	ctx context.Context, begin, ask func() error, seen func() (ended bool, err error),
) error {
	if err := begin(); err != nil {
		return err
	}
	for silent := 0; ; {
		if silent == 0 {
			if ended, err := seen(); ended || err != nil {
				return err
			}
		}
		if err := pause(ctx, askInterval); err != nil {
			return err
		}
		silent++
		err := ask()
		if err == nil {
			silent = 0
		} else if silent == maxSilence || ctx.Err() != nil {
			return err
		}
	}
}

// pause waits, and returns an error if ctx ends meanwhile.
func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
