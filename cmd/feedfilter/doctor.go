package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
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
	config := doctor.Config{Filter: flags.Filter, Pages: flags.pages(), Logger: log}
	if flags.Ledger != noLedger {
		config.Ledger = flags.ledgerURL()
	}
	servers, err := flags.redisServers()
	if err != nil {
		return config, usageError{err}
	}
	if servers != nil {
		if servers.Managed != nil {
			servers.Managed.Config.File = descriptionFile(flags.DataDir) // only read
		}
		config.Redis = servers
	}
	if inDirectory := flags.Ledger == ""; inDirectory || servers == nil || servers.Managed != nil {
		config.DataDir = flags.DataDir
	}
	config.Kinds, config.Correct, config.Invalid = c.problem()
	return config, nil
}

// problem returns the number of kinds. If a mistake in the flags keeps the service from starting,
// it returns the mistake and its remedy.
func (c *doctorCmd) problem() (kinds int, todo string, err error) {
	all, err := c.Data.kinds()
	if err != nil {
		return 0, "Correct the file: the service does not start with it.", err
	}
	if c.Data.Redis != "" {
		if _, err := redisstore.New(nil, c.Data.Filter); err != nil {
			return 0, "Correct --filter: the service does not start with it.", err
		}
	}
	if c.Data.Redis == "" {
		if err := c.Data.checkSort(); err != nil {
			return 0, "Correct --ledger or --data-dir: the service does not start with them.", err
		}
	}
	return len(all.All()), "", nil
}
