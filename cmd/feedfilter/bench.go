package main

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/bench"
)

type benchCmd struct {
	Redis      string        `help:"${bench_redis}"  placeholder:"URL"`
	Filter     string        `help:"${bench_filter}" placeholder:"NAME"`
	Activities int           `default:"100000"       help:"${bench_activities}" placeholder:"N"`
	Users      int           `help:"${bench_users}"  placeholder:"N"`
	Duration   time.Duration `default:"2s"           help:"${bench_duration}"   placeholder:"DURATION"`
	Seed       uint64        `default:"1"            help:"${bench_seed}"       placeholder:"N"`

	FalsePositiveRate float64 `default:"0.001" help:"${rate}" placeholder:"RATE"`

	Result resultFlags `embed:""`

	LogLevel string `default:"warn"   enum:"debug,info,warn,error" help:"${level}" placeholder:"LEVEL"`
	Config   string `help:"${config}" placeholder:"FILE"`
}

// Help is shown by kong below the summary.
func (*benchCmd) Help() string {
	return "Records activities in a temporary SQLite ledger, and in temporary pages, in Redis or in the process. " +
		"Prints how long feed checks, writes and rebuilds take (us: microseconds), beside the project's goals. Does not touch existing " +
		"data. Removes its data at the end, also after a signal, but not after kill -9. Compare times on Redis as multiples of its " +
		"PING, which is measured in turn with them. Redis itself reports memory and CPU, so keep other clients away. The " +
		"command scans all keys of the Redis to find those of the filter."
}

// Check implements [settings.Checker].
func (c *benchCmd) Check(context.Context) error {
	var all checks
	n, d, r := c.Activities, c.Duration, c.FalsePositiveRate
	all.wantf(n >= 1000 && n <= 1e8, "--activities: %d is not in 1000 to 100000000", n)
	all.wantf(c.Users == 0 || c.Users >= 10 && c.Users <= n, "--users: %d is not in 10 to %d, the number of activities", c.Users, n)
	all.wantf(d >= 10*time.Millisecond && d <= 10*time.Minute, "--duration: %v is not in 10ms to 10m", d)
	all.wantf(r >= 1e-8 && r <= 0.5, "--false-positive-rate: %g is not in 1e-8 to 0.5", r)
	all.note(c.place().validate())
	return all.err()
}

// place returns the Redis to measure.
func (c *benchCmd) place() *benchPlace {
	return &benchPlace{dataFlags{Redis: c.Redis, Filter: c.Filter, LogLevel: c.LogLevel}}
}

// Run measures and prints.
func (c *benchCmd) Run(ctx context.Context, std stdio) error {
	report, err := c.measure(ctx, std)
	if err != nil {
		return benchError(ctx, err)
	}
	if c.Result.json() {
		return writeJSON(std.out, report)
	}
	return report.WriteText(std.out)
}

// measure runs the benchmark on temporary data, and removes the data afterwards.
func (c *benchCmd) measure(ctx context.Context, std stdio) (report *bench.Report, err error) {
	config := bench.Config{
		Open:  func(string) (favfilter.Store, error) { return &favfilter.Memory{}, nil },
		Users: c.Users, Entries: c.Activities, Seed: c.Seed, Duration: c.Duration, Sizes: bench.Sizes(),
		FalsePositiveRate: c.FalsePositiveRate, Progress: steps(std),
	}
	if config.Users == 0 {
		config.Users = c.Activities / 100
	}
	err = inScratch(func(dir string) error {
		config.Dir = dir
		if c.Redis == "" {
			report, err = bench.Run(ctx, config)
			return err
		}
		return c.place().use(ctx, dir, std, func(on benchFilter) error {
			config.Open, config.Filter, config.Server = on.open, on.name, on.server
			report, err = bench.Run(ctx, config)
			return err
		})
	})
	return report, err
}
