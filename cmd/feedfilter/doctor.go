package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/doctor"
)

type doctorCmd struct {
	Data    dataFlags     `embed:""`
	Timeout time.Duration `default:"30s"           help:"${doctor_timeout}" placeholder:"DURATION"`
	Strict  bool          `help:"${doctor_strict}"`
	Result  resultFlags   `embed:""`
	Colour  colourFlags   `embed:""`
}

// Help is shown by kong below the summary.
func (*doctorCmd) Help() string {
	return "Connects as the service would with the same flags, and prints one line per check: the finding, and what to do. " +
		"Changes nothing: it creates and migrates no ledger, and writes no page. It may run beside the service. Exits with 0 if no " +
		"check failed, 1 if one did, 2 if the flags are invalid. A check that the server does not permit is skipped, not failed."
}

// Check implements [settings.Checker].
func (c *doctorCmd) Check(context.Context) error {
	if c.Timeout < 100*time.Millisecond || c.Timeout > time.Hour {
		return fmt.Errorf("--timeout: %v is not in 100ms to 1h", c.Timeout)
	}
	return nil
}

// Run runs all checks and prints their findings.
func (c *doctorCmd) Run(ctx context.Context, std stdio) error {
	log := slog.New(slog.DiscardHandler) // the report has the errors
	if c.Data.LogLevel == "debug" {
		log = c.Data.logger(std)
	}
	redis.SetLogger(redisLog{log})
	config, err := c.config(log)
	if err != nil {
		return err
	}
	return c.run(ctx, config, std)
}

func (c *doctorCmd) run(ctx context.Context, config doctor.Config, std stdio) error {
	p := &doctorPrinter{out: std.out, json: c.Result.json(), colours: c.Colour.on(std.out)}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	err := doctor.Run(limited, config, p.add)
	if err == nil {
		err = p.end(c.Strict)
	}
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	return nil
}

// config returns the configuration of a service with the same flags.
func (c *doctorCmd) config(log *slog.Logger) (doctor.Config, error) {
	flags := &c.Data
	servers, err := flags.redisServers()
	if err != nil {
		return doctor.Config{}, usageError{err}
	}
	config := doctor.Config{Redis: servers, Filter: flags.Filter, Pages: flags.pages(), Logger: log}
	if flags.Ledger != noLedger {
		config.Ledger = flags.ledgerURL()
	}
	managed := servers != nil && servers.Managed != nil
	if managed {
		servers.Managed.Config.File = descriptionFile(flags.DataDir) // only read
	}
	if flags.Ledger == "" || servers == nil || managed {
		config.DataDir = flags.DataDir
	}
	if kinds, err := flags.kinds(); err == nil {
		config.Kinds = len(kinds.All())
	}
	config.Invalid = flags.checkFiles()
	if servers == nil {
		config.Invalid = errors.Join(config.Invalid, flags.checkSort())
	}
	return config, nil
}
