package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/doctor"
	"github.com/feedfilter/feedfilter/internal/follow"
)

type doctorCmd struct {
	Data    dataFlags     `embed:""`
	Follow  string        `help:"${follow}"        placeholder:"FILE"`
	Source  sourceFlags   `embed:""`
	Timeout time.Duration `default:"30s"           help:"${doctor_timeout}" placeholder:"DURATION"`
	Strict  bool          `help:"${doctor_strict}"`
	Result  resultFlags   `embed:""`
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
	config, err := c.config(log)
	if err != nil {
		return err
	}
	p := &doctorPrinter{out: std.out, json: c.Result.json()}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err = doctor.Run(limited, config, p.add); err == nil {
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
	invalid := errors.Join(flags.checkFiles(), c.Source.check(flags, "follow", c.Follow))
	config := doctor.Config{Invalid: invalid, Filter: flags.Filter, Pages: flags.pages()}
	if flags.Ledger != noLedger {
		config.Ledger = flags.ledgerURL()
	}
	managed := servers != nil && servers.Managed != nil
	if flags.Ledger == "" || servers == nil || managed {
		config.DataDir = flags.DataDir
	}
	if kinds, err := flags.kinds(); err == nil {
		config.Kinds = len(kinds.All())
		// Without a looker, --follow is refused, or not given.
		if f, err := c.Source.looker(kinds, c.Follow, log); err == nil {
			config.Source = func(ctx context.Context) (follow.Report, error) {
				return f.Check(ctx, false)
			}
		}
	}
	if servers == nil {
		config.Invalid = errors.Join(config.Invalid, flags.checkSort())
		return config, nil
	}
	config.Redis = "Redis at " + servers.Name()
	config.Serverless = managed && servers.Managed.Config.Serverless
	config.Connect = func(ctx context.Context) (redis.UniversalClient, func() error, error) {
		clients, err := newClients(ctx, servers, log, "") // no description is stored
		if err != nil {
			return nil, nil, err
		}
		return clients.pages, clients.close, nil
	}
	return config, nil
}

// doctorPrinter prints each result at once as text, or all at the end as JSON.
type doctorPrinter struct {
	out     io.Writer
	json    bool
	results []doctor.Result
	counts  [doctor.Fail + 1]int // by status
}

func (p *doctorPrinter) add(r doctor.Result) error {
	p.results = append(p.results, r)
	p.counts[r.Status]++
	if p.json {
		return nil
	}
	const width = len("configuration") // the longest name
	line := fmt.Sprintf("%-4s  %-*s  %s\n", r.Status, width, r.Name, r.Found)
	if r.Todo != "" {
		line += fmt.Sprintf("%*s-> %s\n", len("warn  ")+width+len("  "), "", r.Todo)
	}
	_, err := io.WriteString(p.out, line)
	return err
}

// end prints the summary or the JSON report. It returns an error if a check failed, or, with
// strict, if a check warned.
func (p *doctorPrinter) end(strict bool) (err error) {
	all, failed, warned := len(p.results), p.counts[doctor.Fail], p.counts[doctor.Warn]
	healthy := failed == 0 && (!strict || warned == 0)
	if p.json {
		err = writeJSON(p.out, struct {
			OK     bool            `json:"ok"`
			Checks []doctor.Result `json:"checks"`
		}{healthy, p.results})
	} else {
		_, err = fmt.Fprintf(p.out, "\n%d checks: %d ok, %d skipped, %d warned, %d failed\n",
			all, p.counts[doctor.OK], p.counts[doctor.Skip], warned, failed)
	}
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, all)
	case !healthy:
		return fmt.Errorf("%d of %d checks warned (--strict)", warned, all)
	}
	return nil
}
