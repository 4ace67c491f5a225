// Package doctor checks the dependencies of a service as the service would use them, and says what
// to fix. It changes nothing: it creates or migrates no ledger, and writes no page and no file of
// the service.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore/tlsdial"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// Config is the configuration that a service would start with.
type Config struct {
	Invalid error  // a mistake that keeps the service from starting; nil: none
	Correct string // what to do about Invalid

	Redis   *redisurl.Servers // nil: the pages are in the process
	Filter  string            // name of the filter
	Pages   uint32            // number asked for; 0: that of the data
	Kinds   int               // number of configured kinds
	Ledger  string            // argument of [ledger.Inspect]; "": no ledger
	DataDir string            // directory of the service's files, which it creates; "": it has no files

	Logger *slog.Logger     // default: discards
	Now    func() time.Time // this machine's clock; default: [time.Now]
}

// Result is the result of a check.
type Result struct {
	Name   string
	Status Status
	Found  string        // one line of printable text, like Todo
	Todo   string        // what to do, in a sentence or two; "" if nothing
	Took   time.Duration // how long the check took
}

// check is one check.
type check struct {
	name  string
	when  string        // a fact of the configuration without which there is no such check
	needs string        // a fact that an earlier check finds out; without it, the check is skipped
	limit time.Duration // a server that hangs takes no longer
	look  func(context.Context, *doctor) finding
}

// all returns all checks in their order. Later ones build on earlier ones. AWS may throttle, and
// the URL of a ledger may name several servers.
func all() []check {
	const usual = 3 * time.Second
	return []check{
		{"configuration", "", "", usual, checkConfiguration},
		{"redis", "no redis", "redis", usual, nil},
		{"aws", "managed", "", 10 * time.Second, checkAWS},
		{"network", "redis", "address", usual, checkNetwork},
		{"tls", "redis", "connection", usual, checkTLS},
		{"sentinel", "failover", "connection", usual, checkSentinel},
		{"sign-in", "redis", "connection", usual, checkSignIn},
		{"server", "redis", "session", usual, checkServer},
		{"topology", "redis", "session", usual, checkTopology},
		{"memory", "redis", "session", usual, checkMemory},
		{"data dir", "data dir", "", usual, checkDataDir},
		{"ledger", "ledger", "", 2 * usual, checkLedger},
		{"ledger", "no ledger", "ledger", usual, nil},
		{"commands", "redis", "session", usual, checkCommands},
		{"clocks", "", "", usual, checkClocks},
	}
}

// lacking says why a check is skipped for want of a fact.
func lacking(fact string) finding {
	return skipf("%s", map[string]string{
		"redis":      "pages are in the process (no --redis)",
		"address":    "the address of the cache is unknown",
		"connection": "no connection",
		"session":    "not signed in",
		"ledger":     "no ledger (--ledger none)",
	}[fact])
}

// doctor holds the configuration, and what checks have learnt, for later checks.
type doctor struct {
	Config
	facts   map[string]bool
	closers []func() error

	network        string
	addrs          []string      // to connect to first; once that succeeded, those that accept connections
	dial           dialer        // opens encrypted connections like the client; nil: the client uses no TLS
	options        redis.Options // of a client of one server, without its address
	user           string        // describes the user of connections
	login          string        // that user in a URL, with a placeholder for the password; "": no user
	nodes          []*server     // the server, or all primaries of the cluster, even those that do not answer
	pages          redis.UniversalClient
	clusterOptions *redis.ClusterOptions // nil: not a cluster
	cluster        *redis.ClusterClient  // nil: pages are on one server
	unknown        error                 // why the cluster's nodes are unknown

	ledger *ledger.Inspection // nil: unknown
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func newDoctor(c Config) *doctor {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	d := &doctor{Config: c, facts: map[string]bool{
		"": true, "data dir": c.DataDir != "", "redis": c.Redis != nil, "no redis": c.Redis == nil,
		"ledger": c.Ledger != "", "no ledger": c.Ledger == "", "postgres": strings.HasPrefix(c.Ledger, "postgres"),
	}}
	if c.Redis == nil {
		return d
	}
	d.facts["failover"] = c.Redis.Failover != nil
	if m := c.Redis.Managed; m != nil {
		d.facts["managed"], d.facts["serverless"] = true, m.Config.Serverless
		d.facts["iam"], d.facts["secret"] = m.Config.User != "", m.Config.Secret != ""
	} else {
		d.connect(c.Redis.Single, c.Redis.Cluster, c.Redis.Failover)
	}
	return d
}

// connect takes over the options of clients, of which one is not nil.
func (d *doctor) connect(s *redis.Options, c *redis.ClusterOptions, f *redis.FailoverOptions) {
	d.facts["address"], d.facts["cluster"], d.facts["single"] = true, c != nil, s != nil
	o := &d.options
	d.clusterOptions = c
	switch {
	case s != nil:
		d.network, d.addrs, *o = s.Network, []string{s.Addr}, *s
	case c != nil:
		d.addrs = c.Addrs
		*o = redis.Options{
			ClientName: c.ClientName, Protocol: c.Protocol, Dialer: c.Dialer, TLSConfig: c.TLSConfig,
			Username: c.Username, Password: c.Password, CredentialsProviderContext: c.CredentialsProviderContext,
			DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
		}
	case f != nil:
		d.addrs = f.SentinelAddrs
		*o = redis.Options{
			ClientName: f.ClientName, Protocol: f.Protocol, TLSConfig: f.TLSConfig,
			Username: f.Username, Password: f.Password, DB: f.DB,
			DialTimeout: f.DialTimeout, ReadTimeout: f.ReadTimeout, WriteTimeout: f.WriteTimeout,
		}
		if f.TLSConfig != nil {
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return tlsdial.Dial(ctx, network, addr, f.TLSConfig, f.DialTimeout)
			}
		}
	}
	d.network = cmp.Or(d.network, "tcp")
	if d.facts["tls"] = d.facts["tls"] || o.TLSConfig != nil; d.facts["tls"] {
		d.dial = o.Dialer
	}
	// Without retries, so that occasional failures show.
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case d.facts["iam"]:
		d.user = "user " + d.Redis.Managed.Config.User + " (IAM)"
	case d.facts["secret"]:
		d.user = "a token from secret " + d.Redis.Managed.Config.Secret
	case o.Username != "":
		d.user, d.login = "user "+o.Username, url.User(o.Username).String()+":<password>@"
	case o.Password != "":
		d.user, d.login = "the default user, with a password", ":<password>@"
	default:
		d.user = "without a user or password"
	}
}

// client returns a client of one server.
func (d *doctor) client(addr string) *redis.Client {
	o := d.options
	o.Addr = addr
	return redis.NewClient(&o)
}

// Run runs the checks, and calls tell with each result at once. A check that starts after ctx's
// deadline fails. Run returns an error if ctx is cancelled, if tell fails, or if a connection
// cannot be closed.
func Run(ctx context.Context, c Config, tell func(Result) error) (err error) {
	d := newDoctor(c)
	defer func() {
		for _, closer := range slices.Backward(d.closers) {
			err = errors.Join(err, closer())
		}
	}()
	return d.run(ctx, all(), tell)
}

func (d *doctor) run(ctx context.Context, checks []check, tell func(Result) error) error {
	for _, c := range checks {
		if !d.facts[c.when] {
			continue
		}
		began := time.Now()
		f := d.make(ctx, c)
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		if err := tell(Result{c.name, f.status, printable(f.found), printable(f.todo), time.Since(began)}); err != nil {
			return err
		}
	}
	return nil
}

// make makes a check, within its limit and ctx.
func (d *doctor) make(ctx context.Context, c check) finding {
	switch {
	case ctx.Err() != nil:
		return fail("not checked: time limit reached", "Raise --timeout, or fix the failed checks above first.")
	case !d.facts[c.needs]:
		return lacking(c.needs)
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	return c.look(ctx, d)
}

// checkConfiguration reports mistakes in the configuration, or summarizes it.
func checkConfiguration(_ context.Context, d *doctor) finding {
	if d.Invalid != nil {
		return fail(words(d.Invalid), d.Correct)
	}
	pages := "in the process"
	if d.Redis != nil {
		pages = "in Redis at " + d.Redis.Name()
	}
	return okf("pages of filter %s %s, ledger %s, %d kinds", d.Filter, pages, ledgerName(d.Config.Ledger), d.Kinds)
}
