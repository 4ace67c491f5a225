package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/feedfilter/feedfilter/internal/inspect"
)

type inspectCmds struct {
	Page inspectPageCmd `cmd:"" help:"Show a page's header beside the ledger's state."`
	User inspectUserCmd `cmd:"" help:"Show a user's page, and whether it has all the user's keys of the ledger."`
	Key  inspectKeyCmd  `cmd:"" help:"Show what the pages and the ledger say about an activity."`
}

// show prints a state: of a service, at a path below /v1/ops, or as read from the data.
func show[T any, P interface {
	*T
	Text(w io.Writer) error
}](ctx context.Context, f *insideFlags, std stdio, path []string, read func(*data) (P, error)) (err error) {
	state := P(new(T))
	if f.Service.Server != "" {
		err = f.Service.get(ctx, state, append([]string{"v1", "ops"}, path...)...)
	} else {
		err = f.look(ctx, std, func(d *data) (err error) {
			state, err = read(d)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return f.print(std, state, state.Text)
}

// look opens the data, calls what, and closes the data.
func (f *insideFlags) look(ctx context.Context, std stdio, what func(*data) error) (err error) {
	d, err := f.open(ctx, std)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	return what(d)
}

type inspectPageCmd struct {
	insideFlags

	Number uint32 `arg:"" help:"${inspect_page}"`
}

// Run prints the state of a page.
func (c *inspectPageCmd) Run(ctx context.Context, std stdio) error {
	path := []string{"pages", strconv.FormatUint(uint64(c.Number), 10)}
	return show(ctx, &c.insideFlags, std, path, func(d *data) (*inspect.Page, error) {
		return inspect.ReadPage(ctx, d.activities, c.Number, func(user string) string { return user })
	})
}

type inspectUserCmd struct {
	insideFlags

	ID string `arg:"" help:"${inspect_user}"`
}

// Run prints the state of a user.
func (c *inspectUserCmd) Run(ctx context.Context, std stdio) error {
	return show(ctx, &c.insideFlags, std, []string{"users", c.ID}, func(d *data) (*inspect.User, error) {
		return inspect.ReadUser(ctx, d.activities, c.ID)
	})
}

type inspectKeyCmd struct {
	insideFlags

	Kind   string `arg:"" help:"${inspect_kind}"`
	User   string `arg:"" help:"${inspect_user}"`
	Target string `arg:"" help:"${inspect_target}"`
}

// Run prints the state of an activity.
func (c *inspectKeyCmd) Run(ctx context.Context, std stdio) error {
	path := []string{"users", c.User, "keys", c.Kind, c.Target}
	return show(ctx, &c.insideFlags, std, path, func(d *data) (*inspect.Key, error) {
		return inspect.ReadKey(ctx, d.activities, d.recorder, c.Kind, c.User, c.Target)
	})
}
