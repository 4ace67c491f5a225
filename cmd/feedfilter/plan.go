package main

import (
	"context"

	"github.com/feedfilter/feedfilter/internal/sizing"
)

// planCmd shares names of flags with serve, so that one --config works for both.
type planCmd struct {
	Input  sizing.Input `embed:""`
	Pages  *uint32      `help:"${plan_pages}" placeholder:"N"`
	Kinds  string       `help:"${kinds}"      placeholder:"FILE"`
	Result resultFlags  `embed:""`
	Config string       `help:"${config}"     placeholder:"FILE"`
}

// Check implements [settings.Checker]. Package sizing checks its input.
func (c *planCmd) Check(context.Context) error {
	var all checks
	n := (&dataFlags{Pages: c.Pages}).pages()
	all.wantf(
		c.Pages == nil || n > 0 && n <= maxPages && n&(n-1) == 0,
		"--pages: %d is not a power of two from 1 to %d", n, maxPages,
	)
	return all.err()
}

// Run prints the plan.
func (c *planCmd) Run(_ context.Context, std stdio) error {
	data := dataFlags{Kinds: c.Kinds, Pages: c.Pages}
	kinds, err := data.kinds()
	if err != nil {
		return err
	}
	plan, err := sizing.New(c.Input, data.pages(), kinds)
	if err != nil {
		return usageError{err}
	}
	return c.Result.write(std, plan, plan.WriteText)
}
