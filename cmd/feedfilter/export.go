package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

type exportCmd struct {
	Data dataFlags `embed:""`
	User *string   `help:"${user}"        placeholder:"ID"`
	To   string    `default:"-"           help:"${to}"       placeholder:"FILE"`
	Kind string    `help:"${export_kind}" placeholder:"KIND"`
}

// Check implements [settings.Checker].
func (c *exportCmd) Check(context.Context) error {
	var all checks
	if c.User != nil {
		all.note(activity.CheckID(*c.User, "--user"))
	}
	all.note(c.Data.checkFiles())
	// A typing error must not produce an empty backup.
	if kinds, err := c.Data.kinds(); err == nil && c.Kind != "" {
		k, ok := kinds.Named(c.Kind)
		all.wantf(ok, "--kind: unknown kind %q", c.Kind)
		all.wantf(!ok || k.InLedger(), "--kind: %s has a window, and cannot be exported", c.Kind)
	}
	return all.err()
}

// Run exports to a file or to standard output.
func (c *exportCmd) Run(ctx context.Context, std stdio) (err error) {
	d, err := c.open(ctx, std)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if k, ok := d.activities.Kinds().Named(c.Kind); ok {
		c.Kind = k.Name
	}
	start := time.Now()
	n := 0
	r, err := d.withLedger("an export")
	if err == nil {
		n, err = c.export(ctx, r, std)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	noteWindows(d.activities.Kinds(), std)
	took := time.Since(start)
	std.note(fmt.Sprintf(
		"exported %d activities in %v, %.0f/s",
		n, took.Round(time.Millisecond), float64(n)/took.Seconds(),
	))
	return nil
}

// exporter is an *activity.Recorder. Tests use an interface to interrupt it.
type exporter interface {
	Export(ctx context.Context, user string, each func(activity.Activity) error) error
}

// open opens the data without changing it.
func (c *exportCmd) open(ctx context.Context, std stdio) (*data, error) {
	if err := c.Data.checkThere(ctx); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	c.Data.passive = true
	d, err := c.Data.open(ctx, c.Data.logger(std), nil)
	if errors.Is(err, ledger.ErrInUse) {
		err = fmt.Errorf("%w; or export one user through the service, at /v1/users/{user}/export", err)
	}
	return d, err
}

// export writes the output, and returns the number of activities in it.
func (c *exportCmd) export(ctx context.Context, from exporter, std stdio) (n int, err error) {
	out, err := createOutput(c.To, std)
	if err != nil {
		return 0, err
	}
	n, err = c.write(ctx, from, out.file)
	return n, out.end(err)
}

// write writes the activities until ctx ends, and returns their number.
func (c *exportCmd) write(ctx context.Context, from exporter, to io.Writer) (n int, err error) {
	user := ""
	if c.User != nil {
		user = *c.User
	}
	lines := bufio.NewWriterSize(to, 1<<16)
	err = from.Export(ctx, user, func(a activity.Activity) error {
		if c.Kind == "" || a.Kind == c.Kind {
			line, err := activityfile.Line(a)
			if err == nil {
				_, err = lines.Write(line)
			}
			if err != nil {
				return err
			}
			n++
		}
		return context.Cause(ctx)
	})
	if err := causeOr(ctx, err); err != nil {
		return n, err
	}
	return n, lines.Flush()
}

// noteWindows names the kinds that an export leaves out.
func noteWindows(kinds *activity.Kinds, std stdio) {
	var names []string
	for _, k := range kinds.All() {
		if !k.InLedger() {
			names = append(names, k.Name)
		}
	}
	if len(names) > 0 {
		list := strings.Join(names, ", ")
		std.note("not exported: " + list + " (kinds with a window cannot be listed)")
	}
}
