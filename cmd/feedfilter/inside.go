package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// insideFlags are the flags of commands that ask a service for its pages. Without --server, the
// service is one in this process, over the data.
type insideFlags struct {
	Data    dataFlags    `embed:""`
	Service serviceFlags `embed:""`
	Result  resultFlags  `embed:""`
}

// Check implements [settings.Checker] for the commands that embed the flags.
func (f *insideFlags) Check(ctx context.Context) error {
	var all checks
	all.wantf(f.Service.Server != "" || f.Data.Redis != "", "--redis or --server: required, "+
		"because without --redis the pages are in the process of the service")
	all.note(f.Service.Check(ctx))
	all.note(f.Data.Check(ctx))
	all.note(f.Data.checkFiles())
	return all.err()
}

// with calls do with the service, whose pages do not change by themselves if it is in this process.
func (f *insideFlags) with(ctx context.Context, std stdio, do func(s *client.Client) error) error {
	if f.Service.Server == "" {
		f.Data.passive = true
	}
	return f.Service.with(ctx, &f.Data, std, do)
}

// with calls do with the service that --server names, or with one in this process over the data,
// which must exist.
func (f *serviceFlags) with(
	ctx context.Context, flags *dataFlags, std stdio, do func(s *client.Client) error,
) (err error) {
	if f.Server != "" {
		c, err := f.service(1)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(c)
	}
	if err := flags.checkThere(ctx); err != nil {
		return err
	}
	flags.Pages = nil // the ledger knows the number
	log := flags.logger(std)
	d, err := flags.open(ctx, log, nil)
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
	//nolint:contextcheck // requests have their own
	handler := httpapi.New(httpapi.Config{
		Activities: d.activities, Logger: log, Timeout: inProcessTimeout,
	})
	c, halt, err := inProcess(handler, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, halt()) }()
	return do(c)
}

// get sends a GET request to the service. path is given in parts.
func get(ctx context.Context, s *client.Client, into any, path ...string) error {
	return s.Call(ctx, http.MethodGet, path, nil, nil, into)
}

// post sends a POST request to the service.
func post(ctx context.Context, s *client.Client, body, into any, path ...string) error {
	return s.Call(ctx, http.MethodPost, path, nil, body, into)
}
