package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/elasticache"
)

// How long a check may take: a server that hangs is noticed, and the next check is begun.
const (
	checkLimit    = 3 * time.Second
	describeLimit = 10 * time.Second // AWS may throttle
	ledgerLimit   = 6 * time.Second  // its URL may name several servers
)

type doctorCmd struct {
	Data    dataFlags     `embed:""`
	Timeout time.Duration `default:"30s"           help:"${doctor_timeout}" placeholder:"DURATION"`
	Strict  bool          `help:"${doctor_strict}"`
	JSON    bool          `help:"${doctor_json}"   name:"json"`
}

// Help is shown by kong below the summary.
func (*doctorCmd) Help() string {
	return "Connects as the service would with the same flags, and says what is right, what is not, and what to do about it, " +
		"a check a line. Nothing is changed: no ledger is made or migrated, no page is written. It may run beside " +
		"the service. The exit status is 0 if no check failed, 1 if one did, 2 if the flags cannot be followed. What a server " +
		"refuses to tell is skipped, and is no failure."
}

// Validate is called by kong when all flags are set.
func (c *doctorCmd) Validate() error {
	if c.Timeout < 100*time.Millisecond || c.Timeout > time.Hour {
		return fmt.Errorf("--timeout: %v is not in 100ms to 1h", c.Timeout)
	}
	return nil
}

// Run makes all checks and prints what they find.
func (c *doctorCmd) Run(ctx context.Context, std stdio) error {
	log := slog.New(slog.DiscardHandler) // what goes wrong is in the report
	if c.Data.LogLevel == "debug" {
		log = c.Data.logger(std)
	}
	redis.SetLogger(redisLog{log})
	return c.run(ctx, newDoctor(&c.Data, log), std)
}

func (c *doctorCmd) run(ctx context.Context, d *doctor, std stdio) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	checks := d.checks()
	report := newDoctorReport(std.out, c.JSON, checks)
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for _, check := range checks {
		began := time.Now()
		f := check.make(limited)
		if ctx.Err() != nil {
			return fmt.Errorf("doctor: %w", context.Cause(ctx))
		}
		if err := report.add(check.name, f, time.Since(began)); err != nil {
			return fmt.Errorf("doctor: %w", err)
		}
	}
	return report.end(c.Strict)
}

// doctor looks at the servers and files that a service with the same flags would use. Each check leaves
// what it learnt for the next ones.
type doctor struct {
	flags *dataFlags
	log   *slog.Logger
	now   func() time.Time // this machine's clock

	managed  *managedCache          // nil unless --redis names a cache of ElastiCache
	cache    *elasticache.Cache     // once AWS has described it
	single   *redis.Options         // one of the three, once it is known
	cluster  *redis.ClusterOptions  // ...
	failover *redis.FailoverOptions // ...
	reached  []string               // addresses that take connections
	primary  string                 // what Sentinel says it is

	seed       *redis.Client // signed in; nil: not
	nodes      []*redisNode  // the server, or the primaries of the cluster; of those none is left out that does not answer
	pages      redis.UniversalClient
	clusterErr error // why the cluster's nodes are not known

	ledger    *ledger.Inspection // nil: not known
	ledgerErr error
	closers   []func() error
}

func newDoctor(flags *dataFlags, log *slog.Logger) *doctor {
	d := &doctor{flags: flags, log: log, now: time.Now}
	if servers, err := flags.redisServers(); err == nil && servers != nil { // an error was found when the flags were read
		d.managed, d.single, d.cluster, d.failover = servers.managed, servers.single, servers.cluster, servers.failover
	}
	return d
}

func (d *doctor) close() error {
	errs := make([]error, 0, len(d.closers))
	for _, closer := range d.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// doctorCheck is one thing to look at.
type doctorCheck struct {
	name  string
	limit time.Duration // 0: checkLimit
	look  func(context.Context) finding
}

// make looks, within the check's limit and what is left of ctx.
func (c doctorCheck) make(ctx context.Context) finding {
	if ctx.Err() != nil {
		return fail("not looked at: the time was over", "Give it more time with --timeout, or see first to what failed above.")
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.limit, checkLimit))
	defer cancel()
	return c.look(ctx)
}

// checks are those that the flags call for, in the order in which one builds on another.
func (d *doctor) checks() []doctorCheck {
	checks := []doctorCheck{{name: "configuration", look: d.checkConfiguration}}
	switch {
	case d.flags.Redis == "":
		checks = append(checks, doctorCheck{name: "redis", look: func(context.Context) finding {
			return skipf("pages are held in the process (no --redis)")
		}})
	default:
		checks = append(checks, d.redisChecks()...)
	}
	if d.flags.Ledger == noLedger {
		checks = append(checks, doctorCheck{name: "ledger", look: func(context.Context) finding {
			return skipf("there is none (--ledger none)")
		}})
	} else {
		checks = append(checks,
			doctorCheck{name: "ledger", limit: ledgerLimit, look: d.checkLedger},
			doctorCheck{name: "ledger schema", look: d.checkSchema},
			doctorCheck{name: "ledger pages", look: d.checkPageCount},
			doctorCheck{name: "durability", look: d.checkDurability})
	}
	if d.flags.Redis != "" {
		checks = append(checks, doctorCheck{name: "page read", look: d.checkPageRead})
	}
	return append(checks, doctorCheck{name: "clocks", look: d.checkClocks})
}

func (d *doctor) redisChecks() []doctorCheck {
	var checks []doctorCheck
	if d.managed != nil {
		checks = append(checks, doctorCheck{name: "aws", limit: describeLimit, look: d.checkAWS})
	}
	checks = append(checks,
		doctorCheck{name: "network", look: d.checkNetwork},
		doctorCheck{name: "tls", look: d.checkTLS})
	if d.failover != nil {
		checks = append(checks, doctorCheck{name: "sentinel", look: d.checkSentinel})
	}
	return append(checks,
		doctorCheck{name: "sign-in", look: d.checkSignIn},
		doctorCheck{name: "server", look: d.checkServer},
		doctorCheck{name: "cluster", look: d.checkCluster},
		doctorCheck{name: "role", look: d.across(d.judgeRole)},
		doctorCheck{name: "memory", look: d.across(judgeMemory)},
		doctorCheck{name: "eviction", look: d.across(d.judgeEviction)},
		doctorCheck{name: "replication", look: d.across(d.judgeReplication)},
		doctorCheck{name: "scripts", look: d.checkScripts},
		doctorCheck{name: "round trip", look: d.checkRoundTrip})
}

// checkConfiguration says what the flags come to, and whether what they name can be read.
func (d *doctor) checkConfiguration(context.Context) finding {
	kinds, err := d.flags.kinds()
	if err != nil {
		return fail(words(err), "Correct the file: the service does not start with it.")
	}
	pages := "in the process"
	if d.flags.Redis != "" {
		servers := redisServers{d.single, d.cluster, d.failover, d.managed}
		pages = "in Redis at " + servers.addrs()
		if err := checkFilterName(d.flags.Filter); err != nil {
			return fail(words(err), "Correct --filter: the service does not start with it.")
		}
	}
	return okf("pages of filter %s %s, ledger %s, %d kinds", d.flags.Filter, pages, ledgerName(d.flags.ledgerURL()), len(kinds.All()))
}
