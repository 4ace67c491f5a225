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

// How long a check may take: a server that hangs is noticed, and the next check is begun.
const (
	checkLimit    = 3 * time.Second
	describeLimit = 10 * time.Second // AWS may throttle
	ledgerLimit   = 6 * time.Second  // its URL may name several servers
)

// Doctor makes the checks. It is for one use, by one goroutine.
type Doctor struct {
	config  Config
	servers redisurl.Servers // what is known of them: AWS may have been asked
	checks  []check
	examined
}

// examined is what checks have learnt, for the next ones.
type examined struct {
	cache   *elasticache.Cache // once AWS has described it
	reached []string           // addresses that take connections
	primary string             // what Sentinel says it is

	seed       *redis.Client // signed in; nil: not
	nodes      []*server     // the server, or the primaries of the cluster; of those none is left out that does not answer
	pages      redis.UniversalClient
	clusterErr error // why the cluster's nodes are not known

	ledger  *ledger.Inspection // nil: not known
	closers []func() error
}

// New returns a Doctor who looks at what c says.
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

// Run makes the checks, and hands each result to tell when it is there; those that ctx leaves no
// time for count as failed. It returns an error if ctx is cancelled, if tell does, and if
// connections cannot be closed.
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

// check is one thing to look at.
type check struct {
	name  string
	limit time.Duration // 0: checkLimit
	look  func(context.Context) finding
}

// make looks, within the check's limit and what is left of ctx.
func (c check) make(ctx context.Context) finding {
	if ctx.Err() != nil {
		return fail("not looked at: the time was over", "Give it more time with --timeout, or see first to what failed above.")
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.limit, checkLimit))
	defer cancel()
	return c.look(ctx)
}

// all are the checks that the configuration calls for, in the order in which one builds on another.
func (d *Doctor) all() []check {
	checks := []check{{name: "configuration", look: d.checkConfiguration}}
	switch {
	case d.config.Redis == nil:
		checks = append(checks, check{name: "redis", look: func(context.Context) finding {
			return skipf("pages are held in the process (no --redis)")
		}})
	default:
		checks = append(checks, d.redisChecks()...)
	}
	if d.config.DataDir != "" {
		checks = append(checks, check{name: "data dir", look: d.checkDataDir})
	}
	if d.config.Ledger == "" {
		checks = append(checks, check{name: "ledger", look: func(context.Context) finding {
			return skipf("there is none (--ledger none)")
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

// checkConfiguration reports which Redis and ledger the doctor checks.
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
