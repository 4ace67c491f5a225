package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/inspect"
)

type inspectCmds struct {
	Page inspectPageCmd `cmd:"" help:"Show a page's header beside the ledger's state."`
	User inspectUserCmd `cmd:"" help:"Show a user's page, and whether it has all the user's keys of the ledger."`
	Key  inspectKeyCmd  `cmd:"" help:"Show what the pages and the ledger say about an activity."`
}

// show prints what the service has at a path below /v1/ops.
func (f *insideFlags) show(
	ctx context.Context, std stdio, state interface{ Text(w io.Writer) error }, path ...string,
) error {
	err := f.with(ctx, std, func(s *client.Client) error {
		return get(ctx, s, state, append([]string{"v1", "ops"}, path...)...)
	})
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return f.Result.write(std, state, state.Text)
}

type inspectPageCmd struct {
	insideFlags

	Number uint32 `arg:"" help:"${inspect_page}"`
}

// Run prints the state of a page.
func (c *inspectPageCmd) Run(ctx context.Context, std stdio) error {
	return c.show(ctx, std, &inspect.Page{}, "pages", strconv.FormatUint(uint64(c.Number), 10))
}

type inspectUserCmd struct {
	insideFlags

	ID string `arg:"" help:"${inspect_user}"`
}

// Run prints the state of a user.
func (c *inspectUserCmd) Run(ctx context.Context, std stdio) error {
	return c.show(ctx, std, &inspect.User{}, "users", c.ID)
}

type inspectKeyCmd struct {
	insideFlags

	Kind   string `arg:"" help:"${inspect_kind}"`
	User   string `arg:"" help:"${inspect_user}"`
	Target string `arg:"" help:"${inspect_target}"`
}

// Run prints the state of an activity.
func (c *inspectKeyCmd) Run(ctx context.Context, std stdio) error {
	return c.show(ctx, std, &inspect.Key{}, "users", c.User, "keys", c.Kind, c.Target)
}
