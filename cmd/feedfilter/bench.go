package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// cleanTimeout limits the removal of the filter.
const cleanTimeout = time.Minute

type benchCmd struct {
	Redis      string        `help:"${bench_redis}" placeholder:"URL"`
	Activities int           `default:"100000"      help:"${bench_activities}"   placeholder:"N"`
	Duration   time.Duration `default:"2s"          help:"${bench_duration}"     placeholder:"DURATION"`
	LogLevel   string        `default:"warn"        enum:"debug,info,warn,error" help:"${level}"        placeholder:"LEVEL"`
	Config     string        `help:"${config}"      placeholder:"FILE"`
}

// Check implements [settings.Checker].
func (c *benchCmd) Check(context.Context) error {
	var all checks
	n, d := c.Activities, c.Duration
	all.wantf(n >= 1000 && n <= 1e8, "--activities: %d is not in 1000 to 100000000", n)
	all.wantf(
		d >= 10*time.Millisecond && d <= 10*time.Minute,
		"--duration: %v is not in 10ms to 10m", d,
	)
	_, err := c.data().redisServers()
	all.note(err)
	return all.err()
}

func (c *benchCmd) data() *dataFlags { return &dataFlags{Redis: c.Redis, LogLevel: c.LogLevel} }

// Run measures and prints.
func (c *benchCmd) Run(ctx context.Context, std stdio) (err error) {
	dir, err := os.MkdirTemp("", "feedfilter-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := bench.Config{
		Store:    &favfilter.Memory{},
		Dir:      dir,
		Entries:  c.Activities,
		Duration: c.Duration,
	}
	if c.Redis == "" {
		err = bench.Run(ctx, config, std.out)
	} else {
		err = c.onRedis(ctx, config, std)
	}
	if err := causeOr(ctx, err); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// onRedis runs the benchmark with a temporary filter in Redis.
func (c *benchCmd) onRedis(ctx context.Context, config bench.Config, std stdio) error {
	servers, err := c.data().redisServers()
	if err != nil {
		return err
	}
	clients, err := connect(ctx, servers, nil, c.data().logger(std), config.Dir)
	if err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	d := &data{redis: clients}
	if err := d.pingRedis(ctx); err != nil {
		return errors.Join(err, d.close())
	}
	filter := "bench-" + strings.ToLower(rand.Text())
	std.note(fmt.Sprintf("measuring with the temporary filter %s on %s", filter, clients.addrs))
	config.Redis = clients.pages
	if config.Store, err = redisstore.New(clients.pages, filter); err == nil {
		err = bench.Run(ctx, config, std.out)
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if gone := bench.Remove(cleaning, clients.pages, filter); gone != nil {
		err = errors.Join(err, fmt.Errorf("filter %s was not removed: %w", filter, gone))
	}
	return errors.Join(err, d.close())
}
