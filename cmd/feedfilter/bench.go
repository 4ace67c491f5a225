package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
)

const (
	// benchPrefix keeps a filter that somebody uses from being taken for one to be removed.
	benchPrefix = "bench-"
	// cleanTimeout is how long what was measured on may take to be removed.
	cleanTimeout = time.Minute
)

type benchCmd struct {
	Redis      string        `help:"${bench_redis}"  placeholder:"URL"`
	Filter     string        `help:"${bench_filter}" placeholder:"NAME"`
	Activities int           `default:"100000"       help:"${bench_activities}" placeholder:"N"`
	Users      int           `help:"${bench_users}"  placeholder:"N"`
	Duration   time.Duration `default:"2s"           help:"${bench_duration}"   placeholder:"DURATION"`
	Seed       uint64        `default:"1"            help:"${bench_seed}"       placeholder:"N"`

	FalsePositiveRate float64 `default:"0.001" help:"${rate}" placeholder:"RATE"`

	JSON bool   `help:"${bench_json}"`
	Plot string `help:"${bench_plot}" placeholder:"DIR"`

	LogLevel string `default:"warn"   enum:"debug,info,warn,error" help:"${level}" placeholder:"LEVEL"`
	Config   string `help:"${config}" placeholder:"FILE"`
}

// Help is shown by kong below the summary.
func (*benchCmd) Help() string {
	return "Records activities in a ledger of its own, SQLite in a temporary directory, and in pages of its own, in Redis or in the " +
		"process, and prints what feed checks, writes and rebuilds take, with the project's goals beside them; us are microseconds. Data " +
		"that is there is not touched. What was made is removed at the end, also after a signal; kill -9 leaves it. Times on Redis " +
		"are to be compared as multiples of PING's, which take turns with what is measured. Memory and CPU of Redis are what it " +
		"says itself, so nobody else should use it meanwhile; to find the filter's keys, all of its keys are looked at."
}

// Validate is called by kong when all flags are set.
func (c *benchCmd) Validate() error {
	if c.Activities < 1000 || c.Activities > 1e8 {
		return fmt.Errorf("--activities: %d is not in 1000 to 100000000", c.Activities)
	}
	if c.Users != 0 && (c.Users < 10 || c.Users > c.Activities) {
		return fmt.Errorf("--users: %d is not in 10 to %d, the number of activities", c.Users, c.Activities)
	}
	if d := c.Duration; d < 10*time.Millisecond || d > 10*time.Minute {
		return fmt.Errorf("--duration: %v is not in 10ms to 10m", d)
	}
	if r := c.FalsePositiveRate; !(r >= 1e-8 && r <= 0.5) {
		return fmt.Errorf("--false-positive-rate: %g is not in 1e-8 to 0.5", r)
	}
	if c.Filter != "" {
		if !strings.HasPrefix(c.Filter, benchPrefix) {
			return fmt.Errorf("--filter: %q does not begin with %s, so it may be in use", c.Filter, benchPrefix)
		}
		for _, name := range bench.Filters(c.Filter) {
			if _, err := redisstore.New(nil, name); err != nil {
				return fmt.Errorf("--filter: %w", err)
			}
		}
	}
	_, err := c.data().redisServers()
	return err
}

// data is where the pages are.
func (c *benchCmd) data() *dataFlags {
	return &dataFlags{Redis: c.Redis, Filter: c.Filter, LogLevel: c.LogLevel}
}

// Run measures and prints.
func (c *benchCmd) Run(ctx context.Context, std stdio) error {
	report, err := c.measure(ctx, std)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("bench: %w", errors.Join(context.Cause(ctx), leftBehind(err)))
	case err != nil:
		return fmt.Errorf("bench: %w", err)
	}
	if c.Plot != "" {
		if err := c.plot(report, std); err != nil {
			return fmt.Errorf("--plot %s: %w", c.Plot, err)
		}
	}
	if !c.JSON {
		return report.WriteText(std.out)
	}
	text, err := json.Marshal(report, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = std.out.Write(append(text, '\n'))
	return err
}

// leftBehind is what of err says more than that the run was interrupted.
func leftBehind(err error) error {
	if left, ok := errors.AsType[*notRemovedError](err); ok {
		return left
	}
	return nil
}

// notRemovedError says what a run has left behind.
type notRemovedError struct {
	what string
	err  error
}

func (e *notRemovedError) Error() string { return fmt.Sprintf("%s is left behind: %v", e.what, e.err) }

func (e *notRemovedError) Unwrap() error { return e.err }

// measure runs the benchmark on data of its own, and removes that.
func (c *benchCmd) measure(ctx context.Context, std stdio) (report *bench.Report, err error) {
	dir, err := os.MkdirTemp("", "feedfilter-bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if gone := os.RemoveAll(dir); gone != nil {
			err = errors.Join(err, &notRemovedError{dir, gone})
		}
	}()
	config := bench.Config{
		Open: func(string) (favfilter.Store, error) { return &favfilter.Memory{}, nil },
		Dir:  dir, Users: c.Users, Entries: c.Activities, Seed: c.Seed, Duration: c.Duration, Sizes: bench.Sizes(),
		FalsePositiveRate: c.FalsePositiveRate,
		Progress:          func(string) {},
	}
	if config.Users == 0 {
		config.Users = c.Activities / 100
	}
	if c.Plot != "" {
		config.Sizes = bench.MoreSizes()
	}
	if term.IsTerminal(int(std.err.Fd())) {
		config.Progress = func(step string) { std.note("measuring: " + step) }
	}
	if c.Redis == "" {
		return bench.Run(ctx, config)
	}
	return c.onRedis(ctx, config, std)
}

// onRedis runs the benchmark in a filter of its own in Redis, and removes it.
func (c *benchCmd) onRedis(ctx context.Context, config bench.Config, std stdio) (report *bench.Report, err error) {
	config.Filter = c.Filter
	if config.Filter == "" {
		config.Filter = benchPrefix + randomName()
	}
	flags := c.data()
	servers, err := flags.redisServers()
	if err != nil {
		return nil, err
	}
	clients, err := servers.connect(ctx, flags.logger(std), config.Dir)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	d := &data{redis: clients}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.pingRedis(ctx); err != nil {
		return nil, err
	}
	config.Server = &bench.Server{Client: clients.pages}
	config.Open = func(filter string) (favfilter.Store, error) { return redisstore.New(clients.pages, filter) }
	names := bench.Filters(config.Filter)
	switch there, err := config.Server.Holds(ctx, names...); {
	case err != nil:
		return nil, err
	case there:
		return nil, usageError{fmt.Errorf("--filter: there is a filter %s on %s already", config.Filter, clients.addrs)}
	}
	std.note(fmt.Sprintf("measuring in filter %s on %s, which is removed at the end", config.Filter, clients.addrs))
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		if gone := config.Server.Remove(cleaning, names...); gone != nil {
			err = errors.Join(err, &notRemovedError{"filter " + config.Filter, gone})
		}
	}()
	return bench.Run(ctx, config)
}

func randomName() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// plot writes the charts, each of which appears when it is whole.
func (c *benchCmd) plot(report *bench.Report, std stdio) error {
	if err := os.MkdirAll(c.Plot, 0o750); err != nil {
		return err
	}
	for name, drawn := range report.Charts() {
		out, err := createOutput(filepath.Join(c.Plot, name), std)
		if err != nil {
			return err
		}
		if err := drawn.WriteSVG(out.file); err != nil {
			return errors.Join(err, out.discard())
		}
		if err := out.commit(); err != nil {
			return errors.Join(err, out.discard())
		}
	}
	return nil
}
