// Peers compares feed checks with other ways to store who blocked, hid and saw what. All ways use
// the same data and take turns in the same run. Peers starts its own Redis and PostgreSQL servers,
// and prints tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options holds the values of the command line.
type options struct {
	activities, users  int
	seed               uint64
	rate               float64
	duration           time.Duration
	skip               map[string]bool
	redisArgs          []string
	growth, wire, load bool
	service            string
	serviceArgs        []string
	plot               string
	limits             growthLimits
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := execute(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{skip: make(map[string]bool)}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.IntVar(&o.activities, "activities", 2_000_000, "activities, each side of a block counted")
	flags.IntVar(&o.users, "users", 20_000, "users who have them; few have most")
	flags.Uint64Var(&o.seed, "seed", 1, "number that activities and feeds follow from")
	flags.Float64Var(&o.rate, "rate", 0.001,
		"share of clean candidates that may be dropped wrongly; a key gets a quarter of it")
	flags.DurationVar(&o.duration, "duration", 10*time.Second,
		"about how long each figure is measured")
	redisArgs := flags.String("redis-args", "",
		`further arguments of redis-server, such as "--loadmodule /path/redisbloom.so"`)
	skip := flags.String("skip", "",
		"ways to leave out, by the words in parentheses in the table, separated by commas")
	flags.BoolVar(&o.growth, "growth", false,
		"measure only how the cost of feed checks grows: "+
			"with candidates, users and activities, and beside other ways")
	flags.BoolVar(&o.wire, "wire", false,
		"measure only feed checks as an app gets them: "+
			"from exact sets, and from the service by JSON, Protobuf and gRPC")
	flags.BoolVar(&o.load, "load", false,
		"measure only the service under load: "+
			"latency by the number of connections, and how many requests it refuses")
	flags.StringVar(&o.service, "service", "",
		"with -wire and -load, feedfilter to run as the service; default: it is built from source")
	serve := flags.String("service-args", "",
		`with -wire and -load, further flags of the service, such as "--max-requests 64"`)
	flags.StringVar(&o.plot, "plot", "",
		"with -growth, directory for charts of it, growth-*.svg; it has to exist")
	flags.IntVar(&o.limits.users, "grow-users", 1e7, "with -growth, most users, 1,000 or more")
	flags.IntVar(&o.limits.activities, "grow-activities", 1e6,
		"with -growth, most activities of one viewer")
	flags.IntVar(&o.limits.mean, "grow-mean", 50, "with -growth, activities a user")
	flags.IntVar(&o.limits.recorded, "grow-recorded", 1e6,
		"with -growth, most activities to record; "+
			"more are simulated by a share of the users on a share of the pages")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	if !(o.rate >= 1e-8 && o.rate <= 0.1) {
		return o, fmt.Errorf("-rate: %g is not in 1e-8 to 0.1", o.rate)
	}
	if g := o.limits; min(g.users/1000, g.activities, g.mean, g.recorded/1000) < 1 {
		return o, errors.New("-grow-users and -grow-recorded are at least 1000, " +
			"every other limit of -growth at least 1")
	}
	if o.plot != "" && !o.growth {
		return o, errors.New("-plot: there is a chart with -growth only")
	}
	if (o.wire || o.load) && o.growth || o.wire && o.load {
		return o, errors.New("-wire, -load and -growth: one at a time")
	}
	if o.wire || o.load {
		o.fewer(flags)
	}
	o.redisArgs, o.serviceArgs = strings.Fields(*redisArgs), strings.Fields(*serve)
	for name := range strings.SplitSeq(*skip, ",") {
		o.skip[name] = true
	}
	return o, nil
}

// fewer sets smaller defaults for -wire and -load, so that they take a few minutes.
func (o *options) fewer(flags *flag.FlagSet) {
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["activities"] && !given["users"] {
		o.activities, o.users = 500_000, 5_000
	}
	if !given["duration"] {
		o.duration = time.Second
	}
}

// execute compares, and writes the tables to out.
func execute(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	h := &host{ctx: ctx}
	var r *report
	err = guarded(func() (err error) {
		r, err = compare(ctx, h, o)
		return err
	})
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if ended := h.end(); err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := drawCharts(o.plot, r.charts); err != nil {
			return err
		}
	}
	return r.write(out)
}
