package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/feedfilter/feedfilter/activity/ledger"
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
