package doctor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// Time limits of checks. When a server hangs, the check fails and the next one starts.
const (
	checkLimit    = 3 * time.Second
	describeLimit = 10 * time.Second // AWS may throttle
	ledgerLimit   = 6 * time.Second  // its URL may name several servers
)

// Doctor runs the checks. Use it once, from one goroutine.
type Doctor struct {
	config  Config
	servers redisurl.Servers // --redis, completed by the answer of AWS
	checks  []check
	examined
}

// examined holds what checks have learnt, for later checks.
type examined struct {
	cache   *elasticache.Cache // once AWS has described it
	reached []string           // addresses that accept connections
	primary string             // as Sentinel reports it

	seed       *redis.Client // signed in; nil: not signed in
	nodes      []*server     // the server, or all primaries of the cluster, even those that do not answer
	pages      redis.UniversalClient
	clusterErr error // why the cluster's nodes are unknown

	ledger  *ledger.Inspection // nil: unknown
	closers []func() error
}

// New returns a Doctor for the configuration c.
func New(c Config) *Doctor {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	d := &Doctor{config: c}
	if c.Redis != nil {
		d.servers = *c.Redis
	}
	d.checks = d.all()
	return d
}

// Checks returns the names of the checks, in their order.
func (d *Doctor) Checks() []string {
	names := make([]string, len(d.checks))
	for i, c := range d.checks {
		names[i] = c.name
	}
	return names
}

// Run runs the checks, and calls tell with each result at once. A check that starts after ctx's
// deadline fails. Run returns an error if ctx is cancelled, if tell fails, or if a connection
// cannot be closed.
func (d *Doctor) Run(ctx context.Context, tell func(Result) error) (report *Report, err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	report = &Report{}
	for _, c := range d.checks {
		began := time.Now()
		f := c.make(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, context.Cause(ctx)
		}
		r := Result{Name: c.name, Status: f.status, Found: printable(f.found), Todo: printable(f.todo), Took: time.Since(began)}
		report.Results = append(report.Results, r)
		if err := tell(r); err != nil {
			return nil, err
		}
	}
	return report, nil
}

func (d *Doctor) close() error {
	errs := make([]error, 0, len(d.closers))
	for _, closer := range slices.Backward(d.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// check is one check.
type check struct {
	name  string
	limit time.Duration // 0: checkLimit
	look  func(context.Context) finding
}

// make runs the check, within its limit and ctx.
func (c check) make(ctx context.Context) finding {
	if ctx.Err() != nil {
		return fail("not checked: time limit reached", "Raise --timeout, or fix the failed checks above first.")
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.limit, checkLimit))
	defer cancel()
	return c.look(ctx)
}

// all returns the checks for the configuration. Later checks build on earlier ones.
func (d *Doctor) all() []check {
	checks := []check{{name: "configuration", look: d.checkConfiguration}}
	switch {
	case d.config.Redis == nil:
		checks = append(checks, check{name: "redis", look: func(context.Context) finding {
			return skipf("pages are in the process (no --redis)")
		}})
	default:
		checks = append(checks, d.redisChecks()...)
	}
	if d.config.DataDir != "" {
		checks = append(checks, check{name: "data dir", look: d.checkDataDir})
	}
	if d.config.Ledger == "" {
		checks = append(checks, check{name: "ledger", look: func(context.Context) finding {
			return skipf("no ledger (--ledger none)")
		}})
	} else {
		checks = append(checks, check{name: "ledger", limit: ledgerLimit, look: d.checkLedger})
	}
	if d.config.Redis != nil {
		checks = append(checks, check{name: "commands", look: d.checkCommands})
	}
	return append(checks, check{name: "clocks", look: d.checkClocks})
}

func (d *Doctor) redisChecks() []check {
	var checks []check
	if d.servers.Managed != nil {
		checks = append(checks, check{name: "aws", limit: describeLimit, look: d.checkAWS})
	}
	checks = append(checks,
		check{name: "network", look: d.checkNetwork},
		check{name: "tls", look: d.checkTLS})
	if d.servers.Failover != nil {
		checks = append(checks, check{name: "sentinel", look: d.checkSentinel})
	}
	return append(checks,
		check{name: "sign-in", look: d.checkSignIn},
		check{name: "server", look: d.checkServer},
		check{name: "topology", look: d.checkTopology},
		check{name: "memory", look: func(context.Context) finding { return summarize(d.nodes, d.judgeMemory) }})
}

// checkConfiguration reports mistakes in the configuration, or summarizes it.
func (d *Doctor) checkConfiguration(context.Context) finding {
	if d.config.Invalid != nil {
		return fail(words(d.config.Invalid), d.config.Correct)
	}
	pages := "in the process"
	if d.config.Redis != nil {
		pages = "in Redis at " + d.servers.Name()
	}
	name := "none"
	if d.config.Ledger != "" {
		name = ledgerName(d.config.Ledger)
	}
	return okf("pages of filter %s %s, ledger %s, %d kinds", d.config.Filter, pages, name, d.config.Kinds)
}
