package main

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
)

type growthCmd struct {
	Redis  string `help:"${growth_redis}" placeholder:"URL"  required:""`
	Filter string `help:"${bench_filter}" placeholder:"NAME"`

	Candidates int           `default:"5000"     help:"${growth_candidates}" placeholder:"N"`
	Users      int           `default:"10000000" help:"${growth_users}"      placeholder:"N"`
	Activities int           `default:"1000000"  help:"${growth_activities}" placeholder:"N"`
	Mean       int           `default:"50"       help:"${growth_mean}"       placeholder:"N"`
	Memory     int           `default:"512"      help:"${growth_memory}"     placeholder:"MB"`
	Duration   time.Duration `default:"2s"       help:"${bench_duration}"    placeholder:"DURATION"`
	Seed       uint64        `default:"1"        help:"${bench_seed}"        placeholder:"N"`

	Result resultFlags `embed:""`
	Plot   string      `help:"${growth_plot}" placeholder:"DIR"`

	LogLevel string `default:"warn"   enum:"debug,info,warn,error" help:"${level}" placeholder:"LEVEL"`
	Config   string `help:"${config}" placeholder:"FILE"`
}

// Help is shown by kong below the summary.
func (*growthCmd) Help() string {
	return "Measures feed checks with more and more candidates, among more and more users, and for viewers with more and more " +
		"activities; each point has the median and the 99th percentile, both beside PINGs that take turns with it, the bytes that are read " +
		"from Redis and its memory. Pages that would take more than --memory are not all made: those points say that they are simulated, and " +
		"how. Takes some minutes, and at ten million users 700 MB of memory. Otherwise as \"feedfilter bench\"."
}

// Validate is called by kong when all flags are set.
func (c *growthCmd) Validate() error {
	var all checks
	for _, n := range []struct {
		flag             string
		value, low, high int
	}{
		{"candidates", c.Candidates, 10, 5000},
		{"users", c.Users, 1000, 1e7},
		{"activities", c.Activities, 1, 1e7},
		{"mean", c.Mean, 1, 100},
		{"memory", c.Memory, 1, 1e6},
	} {
		all.wantf(n.value >= n.low && n.value <= n.high, "--%s: %d is not in %d to %d", n.flag, n.value, n.low, n.high)
	}
	d := c.Duration
	all.wantf(d >= 10*time.Millisecond && d <= 10*time.Minute, "--duration: %v is not in 10ms to 10m", d)
	all.note(c.place().validate())
	return all.err()
}

func (c *growthCmd) place() *benchPlace {
	return &benchPlace{dataFlags{Redis: c.Redis, Filter: c.Filter, LogLevel: c.LogLevel}, bench.GrowthFilters}
}

// Run measures and prints.
func (c *growthCmd) Run(ctx context.Context, std stdio) error {
	var report *bench.Growth
	err := inScratch(func(dir string) error {
		return c.place().use(ctx, dir, std, func(on benchFilter) (err error) {
			report, err = bench.Grow(ctx, bench.GrowthConfig{
				Open: on.open, Filter: on.name, Server: on.server, Dir: dir, Seed: c.Seed, Mean: c.Mean, Memory: float64(c.Memory) * 1e6,
				Candidates: upTo(c.Candidates, bench.MoreSizes()),
				Users:      upTo(c.Users, []int{1e3, 1e4, 1e5, 1e6, 1e7}),
				Activities: upTo(c.Activities, []int{1, 10, 100, 1000, 2000, 3000, 1e4, 1e5, 3e5, 1e6, 3e6, 1e7}),
				Duration:   c.Duration, Progress: steps(std),
			})
			return err
		})
	})
	if err != nil {
		return benchError(ctx, err)
	}
	return show(report, c.Plot, c.Result.json(), std)
}

// upTo is the numbers below most, and most.
func upTo(most int, ascending []int) []int {
	points := make([]int, 0, len(ascending)+1)
	for _, n := range ascending {
		if n < most {
			points = append(points, n)
		}
	}
	return append(points, most)
}
