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
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore/tlsdial"
	"github.com/feedfilter/feedfilter/internal/redisurl"
	"github.com/feedfilter/feedfilter/internal/settings"
)

// Config is the configuration that a service would start with.
type Config struct {
	Invalid error             // mistakes that keep the service from starting; nil: none
	Redis   *redisurl.Servers // nil: the pages are in the process
	Filter  string            // name of the filter
	Pages   uint32            // number asked for; 0: that of the data
	Kinds   int               // number of configured kinds
	Ledger  string            // argument of [ledger.Inspect]; "": no ledger
	DataDir string            // directory of the service's files, which it creates; "": it has no files
	Logger  *slog.Logger      // default: discards
	Now     func() time.Time  // this machine's clock; default: [time.Now]
}

// Result is the result of a check. Its texts are one line of printable text each.
type Result struct {
	Name       string  `json:"name"`
	Status     Status  `json:"status"`
	Found      string  `json:"found"`
	Todo       string  `json:"todo,omitzero"` // what to do, in a sentence or two; "" if nothing
	DurationMS float64 `json:"duration_ms"`   // to the microsecond
}

// check is one check.
type check struct {
	name   string
	when   string        // a fact of the configuration without which there is no such check
	unless string        // a fact because of which the check is skipped, which is also the finding
	limit  time.Duration // a server that hangs takes no longer
	look   func(context.Context, *doctor) finding
}

// Facts because of which checks are skipped.
const (
	inProcess    = "pages are in the process (no --redis)"
	noLedger     = "no ledger (--ledger none)"
	noAddress    = "the address of the cache is unknown"
	noConnection = "no connection"
	noSession    = "not signed in"
)

// all returns all checks in their order. Later ones build on earlier ones. AWS may throttle, and
// the URL of a ledger may name several servers.
func all() []check {
	const usual = 3 * time.Second
	return []check{
		{"configuration", "", "", usual, checkConfiguration},
		{"redis", inProcess, inProcess, usual, nil},
		{"aws", "managed", "", 10 * time.Second, checkAWS},
		{"network", "redis", noAddress, usual, checkNetwork},
		{"tls", "redis", noConnection, usual, checkTLS},
		{"sentinel", "failover", noConnection, usual, checkSentinel},
		{"sign-in", "redis", noConnection, usual, checkSignIn},
		{"server", "redis", noSession, usual, checkServer},
		{"topology", "redis", noSession, usual, checkTopology},
		{"memory", "redis", noSession, usual, checkMemory},
		{"data dir", "data dir", "", usual, checkDataDir},
		{"ledger", "ledger", "", 2 * usual, checkLedger},
		{"ledger", noLedger, noLedger, usual, nil},
		{"commands", "redis", noSession, usual, checkCommands},
		{"clocks", "", "", usual, checkClocks},
	}
}

// doctor holds the configuration, and what checks have learnt, for later checks.
type doctor struct {
	Config
	facts   map[string]bool
	closers []func() error

	options        redis.Options // of a client of one server, without its address
	user           string        // describes the user of connections
	login          string        // that user in a URL, with a placeholder for the password; "": no user
	clusterOptions *redis.ClusterOptions

	// The servers to connect to; once connected, those that accept connections; once signed in, the
	// server, or all primaries of the cluster, even those that do not answer.
	nodes   []*server
	cluster *redis.ClusterClient // nil: the nodes are not those of a cluster
	unknown error                // why the cluster's nodes are unknown

	ledger *ledger.Inspection // nil: unknown
}

func newDoctor(c Config) *doctor {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	d := &doctor{Config: c, facts: map[string]bool{
		"": true, "data dir": c.DataDir != "", "redis": c.Redis != nil, inProcess: c.Redis == nil,
		"ledger": c.Ledger != "", noLedger: c.Ledger == "", "postgres": strings.HasPrefix(c.Ledger, "postgres"),
		noAddress: true, noConnection: true, noSession: true,
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
	var given any = s
	var addrs []string
	switch {
	case c != nil:
		given, addrs = c, c.Addrs
	case f != nil:
		given, addrs = f, f.SentinelAddrs
	default:
		addrs = []string{s.Addr}
	}
	for _, addr := range addrs {
		d.nodes = append(d.nodes, &server{addr: addr})
	}
	o := &d.options
	from, to := reflect.ValueOf(given).Elem(), reflect.ValueOf(o).Elem()
	for _, field := range reflect.VisibleFields(to.Type()) { // all that the three kinds of options share
		if value := from.FieldByName(field.Name); field.IsExported() && value.IsValid() {
			to.FieldByIndex(field.Index).Set(value)
		}
	}
	o.Network = cmp.Or(o.Network, "tcp")
	// Without retries, so that occasional failures show.
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.TLSConfig != nil && o.Dialer == nil {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return tlsdial.Dial(ctx, network, addr, o.TLSConfig, o.DialTimeout)
		}
	}
	d.clusterOptions = c
	d.facts[noAddress], d.facts["cluster"], d.facts["tls"] = false, c != nil, d.facts["tls"] || o.TLSConfig != nil
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
		took := float64(time.Since(began).Microseconds()) / 1000
		if err := tell(Result{c.name, f.status, printable(f.found), printable(f.todo), took}); err != nil {
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
	case c.unless != "" && d.facts[c.unless]:
		return skipf("%s", c.unless)
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	return c.look(ctx, d)
}

// checkConfiguration reports mistakes in the configuration, or summarizes it.
func checkConfiguration(_ context.Context, d *doctor) finding {
	if d.Invalid != nil {
		return fail(words(d.Invalid), "Correct it: the service does not start with it.")
	}
	pages := "in the process"
	if d.Redis != nil {
		pages = "in Redis at " + d.Redis.Name()
	}
	return okf("pages of filter %s %s, ledger %s, %d kinds", d.Filter, pages, cmp.Or(settings.Masked(d.Config.Ledger), "none"), d.Kinds)
}
