package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/inspect"
)

// insideFlags are the flags of commands that inspect a service's data, directly or through the
// service.
type insideFlags struct {
	Data    dataFlags    `embed:""`
	Service serviceFlags `embed:""`
	Result  resultFlags  `embed:""`
}

// Check implements [settings.Checker] for the commands that embed the flags.
func (f *insideFlags) Check(ctx context.Context) error {
	var all checks
	all.wantf(f.Service.Server != "" || f.Data.Redis != "",
		"--redis or --server: required, because without --redis the pages are in the process of the service")
	all.note(f.Service.Check(ctx))
	all.note(f.Data.Check(ctx))
	all.note(f.Data.checkFiles())
	return all.err()
}

// open opens the data without changing it.
func (f *insideFlags) open(ctx context.Context, std stdio) (*data, error) {
	if err := f.Data.checkThere(ctx); err != nil {
		return nil, err
	}
	f.Data.Pages = nil // the ledger knows the number
	f.Data.passive = true
	d, err := f.Data.open(ctx, f.Data.logger(std), nil)
	if errors.Is(err, ledger.ErrInUse) {
		return nil, fmt.Errorf("%w, or use it with --server", err)
	}
	if err != nil {
		return nil, err
	}
	if err := d.pingRedis(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// print writes an answer as JSON, or calls write to write it as text.
func (f *insideFlags) print(std stdio, answer any, write func(io.Writer) error) error {
	if f.Result.json() {
		return writeJSON(std.out, answer)
	}
	return write(std.out)
}

// styleFlags are the flags of drawings.
type styleFlags struct {
	ASCII   bool        `help:"${inside_ascii}"`
	Colours colourFlags `embed:""`
}

// style returns the style of drawings on std.out.
func (f *styleFlags) style(std stdio) inspect.Style {
	return inspect.Style{ASCII: f.ASCII || !speaksUTF8(os.Getenv), Colors: f.Colours.on(std.out) && !f.ASCII}
}

// speaksUTF8 reports whether the locale uses UTF-8, by the first variable that is set.
func speaksUTF8(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToUpper(env(name)); locale != "" {
			return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
		}
	}
	return false
}
