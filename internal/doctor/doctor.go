// Package doctor checks the dependencies of a service as the service would use them, and says what
// to fix. It creates or migrates no ledger, and writes no page and no file of the service. Its own
// key in Redis lasts as long as a check of scripts.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/settings"
)

// Config is the configuration that a service would start with.
type Config struct {
	Invalid error // mistakes that keep the service from starting; nil: none

	// Connect returns the service's client of Redis, and a function that closes it. nil: the pages
	// are in the process.
	Connect    func(context.Context) (redis.UniversalClient, func() error, error)
	Redis      string // names the servers, for people
	Serverless bool   // AWS controls the replicas and the settings of the cache

	Filter  string // name of the filter
	Pages   uint32 // number asked for; 0: that of the data
	Kinds   int    // number of configured kinds
	Ledger  string // argument of [ledger.Inspect]; "": no ledger
	DataDir string // directory of the service's files, which it creates; "": it has no files
	// Source returns what the source looks like that the service would follow; nil: it follows none.
	Source func(context.Context) (follow.Report, error)
}

// Result is the result of a check. Its texts are one line of printable text each.
type Result struct {
	Name       string  `json:"name"`
	Status     Status  `json:"status"`
	Found      string  `json:"found"`
	Todo       string  `json:"todo,omitzero"` // what to do, in a sentence or two; "" if nothing
	DurationMS float64 `json:"duration_ms"`   // to the microsecond
}

// check is one check. A server that hangs takes no longer than its limit. look returns no finding
// if there is nothing to check.
type check struct {
	name  string
	limit time.Duration
	look  func(*doctor, context.Context) finding
}

// all returns all checks in their order. Later ones use what earlier ones found. AWS may throttle,
// and the URL of a ledger may name several servers.
func all() []check {
	const usual = 3 * time.Second
	return []check{
		{"configuration", usual, (*doctor).configuration},
		{"redis", 10 * time.Second, (*doctor).redis},
		{"tls", usual, (*doctor).tls},
		{"topology", usual, (*doctor).topology},
		{"memory", usual, (*doctor).memory},
		{"commands", usual, (*doctor).commands},
		{"data dir", usual, (*doctor).dataDir},
		{"ledger", 2 * usual, (*doctor).checkLedger},
		{"sources", 2 * usual, (*doctor).sources},
		{"pages", usual, (*doctor).pages},
	}
}

// doctor holds the configuration, and what checks have found.
type doctor struct {
	Config

	client  redis.UniversalClient // nil: not connected
	close   func() error          // closes client
	servers []*server             // the server, or the cluster's primaries, that answer
	ledger  *ledger.Inspection    // nil: unknown
}

// Run runs the checks, and calls tell with each result at once. A check that starts after ctx's
// deadline fails. Run returns an error if ctx is cancelled, if tell fails, or if the client cannot
// be closed.
func Run(ctx context.Context, c Config, tell func(Result) error) (err error) {
	d := &doctor{Config: c}
	defer func() {
		if d.close != nil {
			err = errors.Join(err, d.close())
		}
	}()
	return d.run(ctx, all(), tell)
}

func (d *doctor) run(ctx context.Context, checks []check, tell func(Result) error) error {
	for _, c := range checks {
		began := time.Now()
		f := d.make(ctx, c)
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		if f.found == "" {
			continue
		}
		took := float64(time.Since(began).Microseconds()) / 1000
		r := Result{c.name, f.status, printable(f.found), printable(f.todo), took}
		if err := tell(r); err != nil {
			return err
		}
	}
	return nil
}

// make makes a check, within its limit and ctx.
func (d *doctor) make(ctx context.Context, c check) finding {
	if ctx.Err() != nil {
		return fail(
			"not checked: time limit reached",
			"Raise --timeout, or fix the failed checks above first.",
		)
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	return c.look(d, ctx)
}

// configuration reports mistakes in the configuration, or summarizes it.
func (d *doctor) configuration(context.Context) finding {
	if d.Invalid != nil {
		return fail(words(d.Invalid), "Correct it: the service does not start with it.")
	}
	return okf("pages of filter %s in %s, ledger %s, %d kinds",
		d.Filter, cmp.Or(d.Redis, "the process"), cmp.Or(settings.Masked(d.Ledger), "none"), d.Kinds)
}
