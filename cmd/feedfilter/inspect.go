package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/feedfilter/feedfilter/internal/inspect"
)

type inspectCmds struct {
	Page inspectPageCmd `cmd:"" help:"Show a page's header beside the ledger's state, and draw the page."`
	User inspectUserCmd `cmd:"" help:"Show a user's page, and whether it has all the user's keys of the ledger."`
	Key  inspectKeyCmd  `cmd:"" help:"Show the bits of an activity's key, and what an undo would do."`
}

type inspectPageCmd struct {
	insideFlags
	styleFlags

	Number uint32 `arg:"" help:"${inspect_page}"`
}

// Run prints the state of a page.
func (c *inspectPageCmd) Run(ctx context.Context, std stdio) (err error) {
	var page inspect.Page
	style := c.style(std)
	if c.Service.Server != "" {
		err = c.Service.get(ctx, &page, url.Values{"cells": {strconv.Itoa(style.Cells())}},
			"v1", "ops", "pages", strconv.FormatUint(uint64(c.Number), 10))
	} else {
		err = c.look(ctx, std, func(d *data) error {
			inside, err := d.activities.Inside().InspectPage(ctx, c.Number)
			if err == nil {
				page = inspect.PageOf(inside, style.Cells(), func(user string) string { return user })
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return c.print(std, page, func(w io.Writer) error { return page.Text(w, style) })
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

type inspectUserCmd struct {
	insideFlags

	ID string `arg:"" help:"${inspect_user}"`
}

// Run prints the state of a user.
func (c *inspectUserCmd) Run(ctx context.Context, std stdio) (err error) {
	var user inspect.User
	if c.Service.Server != "" {
		err = c.Service.get(ctx, &user, nil, "v1", "ops", "users", c.ID)
	} else {
		err = c.look(ctx, std, func(d *data) error {
			inside, err := inspect.ReadUser(ctx, d.activities, c.ID)
			if err == nil {
				user = inspect.UserOf(inside)
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return c.print(std, user, user.Text)
}

type inspectKeyCmd struct {
	insideFlags
	styleFlags

	Kind   string `arg:"" help:"${inspect_kind}"`
	User   string `arg:"" help:"${inspect_user}"`
	Target string `arg:"" help:"${inspect_target}"`
}

// Run prints the state of an activity.
func (c *inspectKeyCmd) Run(ctx context.Context, std stdio) (err error) {
	var key inspect.Key
	if c.Service.Server != "" {
		err = c.Service.get(ctx, &key, nil, "v1", "ops", "users", c.User, "keys", c.Kind, c.Target)
	} else {
		err = c.look(ctx, std, func(d *data) error {
			inside, err := inspect.ReadKey(ctx, d.activities, d.recorder, c.Kind, c.User, c.Target)
			if err == nil {
				key = inspect.KeyOf(inside)
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return c.print(std, key, func(w io.Writer) error { return key.Text(w, c.style(std)) })
}
