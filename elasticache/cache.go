// Package elasticache connects go-redis to Amazon ElastiCache, node-based or serverless:
// it asks AWS where a cache is and what it wants, signs in with IAM or with a secret, and
// notices when the endpoint moves.
//
// [Open] describes a cache by its name. [Cache.Configure] or [Cache.ConfigureCluster]
// then set what follows from the description in a client's options; the other options
// are the caller's.
package elasticache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go/logging"
)

// Errors that those of this package wrap, for callers who tell them apart.
var (
	ErrConfig       = errors.New("invalid configuration")
	ErrNotFound     = errors.New("there is no such cache")
	ErrNotAvailable = errors.New("the cache is not available")
	ErrAccessDenied = errors.New("AWS denied access")
	ErrNoTLS        = errors.New("IAM authentication needs encryption in transit")
)

const (
	// refreshInterval is how often a cache is described again, give or take a fifth.
	refreshInterval = 5 * time.Minute
	// refreshPause is the least time between two descriptions that failed connections
	// asked for.
	refreshPause = 10 * time.Second
	// describeTimeout bounds one description, retries of the SDK included.
	describeTimeout = 15 * time.Second
	// recallAfter is how long Open waits for an answer before it goes by what it was told before.
	recallAfter = 3 * time.Second
	// openPause is the time before the second try of Open; it doubles, up to
	// refreshPause.
	openPause = 500 * time.Millisecond
)

// Config says which cache, and how to sign in.
type Config struct {
	_ struct{} // fields are named

	// Name is the id of a replication group, or the name of a serverless cache.
	Name       string
	Serverless bool

	// Region is that of the cache. Default: the one of AWS.
	Region string

	// User is the user to sign in as with IAM: its id, which is its name too, in lower case.
	// The caller's AWS identity needs elasticache:Connect on the cache and on the user.
	User string

	// Secret is the name or ARN of a secret in Secrets Manager that holds the AUTH token, or a JSON
	// object with a "password" and, where there is one, a "username". It is read again
	// when connections are made, so that it may be rotated at any time that the cache
	// accepts the old token and the new. Not with User.
	Secret string

	// AWS is how AWS is reached. Default: the SDK's own, from the environment, shared
	// files, or the machine's role.
	AWS *aws.Config

	// File is where the last description is kept, without secrets, for processes that start while AWS
	// cannot be asked: they go by it, and ask on. Default: it is not kept.
	File string

	Logger *slog.Logger // default: discards
}

func (c *Config) check() error {
	switch {
	case c.Name == "":
		return fmt.Errorf("%w: no name of a cache", ErrConfig)
	case c.User != "" && c.Secret != "":
		return fmt.Errorf("%w: both a user for IAM and a secret", ErrConfig)
	case c.User != strings.ToLower(c.User):
		return fmt.Errorf("%w: user %q is not in lower case, as IAM wants it", ErrConfig, c.User)
	}
	return nil
}

// String is the kind and name of the cache.
func (c *Config) String() string {
	if c.Serverless {
		return "serverless cache " + c.Name
	}
	return "replication group " + c.Name
}

// describer asks AWS about caches; what [elasticache.Client] has of it.
type describer interface {
	elasticache.DescribeReplicationGroupsAPIClient
	elasticache.DescribeServerlessCachesAPIClient
}

// Cache is a described cache. It is safe for concurrent use.
type Cache struct {
	config Config
	api    describer
	signIn func(context.Context) (user, password string, err error) // nil: nobody has to
	log    *slog.Logger

	opened description // by which clients are configured
	told   description // by AWS, last; refresh's own once it runs
	now    atomic.Pointer[description]
	asked  chan struct{} // a connection failed: describe again
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// Open describes the cache, again and again while AWS throttles, cannot be reached, or
// says that the cache is being created, until ctx ends, or for half a minute if it never
// does. From then on the description is kept fresh, until [Cache.Close].
//
// Errors wrap [ErrConfig], [ErrNotFound], [ErrNotAvailable], [ErrAccessDenied] or
// [ErrNoTLS] where they apply, and say what can be done.
func Open(ctx context.Context, c Config) (*Cache, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("open %s: %w", &c, err)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	conf, err := c.aws(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", &c, err)
	}
	c.Region = conf.Region
	conf.Logger = logger{c.Logger}
	cache := &Cache{
		config: c,
		api:    elasticache.NewFromConfig(conf),
		log:    c.Logger,
		asked:  make(chan struct{}, 1),
	}
	switch {
	case c.User != "":
		cache.signIn = newSigner(c, conf.Credentials).signIn
	case c.Secret != "":
		cache.signIn = (&secret{id: c.Secret, api: secretsmanager.NewFromConfig(conf), log: cache.log}).signIn
	}
	if err := cache.describeFirst(ctx); err != nil {
		return nil, fmt.Errorf("open %s in %s: %w", &c, conf.Region, err)
	}
	ctx, cache.stop = context.WithCancel(context.WithoutCancel(ctx))
	cache.done.Go(func() { cache.refresh(ctx) })
	return cache, nil
}

// aws returns how AWS is reached, with a region.
func (c *Config) aws(ctx context.Context) (aws.Config, error) {
	var conf aws.Config
	if c.AWS != nil {
		conf = c.AWS.Copy()
	} else {
		var err error
		if conf, err = config.LoadDefaultConfig(ctx, config.WithLogger(logger{c.Logger})); err != nil {
			return conf, fmt.Errorf("read the configuration of AWS: %w", err)
		}
	}
	if c.Region != "" {
		conf.Region = c.Region
	}
	switch {
	case conf.Region == "":
		return conf, fmt.Errorf("%w: no region is given, and AWS_REGION is not set", ErrConfig)
	case strings.Trim(conf.Region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return conf, fmt.Errorf("%w: %q is no region", ErrConfig, conf.Region)
	case conf.Credentials == nil:
		return conf, fmt.Errorf("%w: no AWS credentials", ErrConfig)
	}
	return conf, nil
}

// describeFirst describes the cache until it is there.
func (c *Cache) describeFirst(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*describeTimeout)
		defer cancel()
	}
	pause := openPause
	before, recalled := c.recall()
	for {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if recalled {
			limited, cancel = context.WithTimeout(ctx, recallAfter)
		}
		d, err := c.describe(limited)
		cancel()
		if err == nil {
			err = c.usable(d)
		}
		if err == nil {
			c.remember(ctx, d)
			c.use(d)
			return nil
		}
		if !passing(err) {
			return err
		}
		if recalled && !errors.Is(err, ErrNotAvailable) {
			c.log.WarnContext(ctx, "the cache cannot be described; it is taken to be where it was", "cache", c.config.String(),
				"addr", before.addr, "error", err)
			c.use(before)
			c.failed() // ask on
			return nil
		}
		if !sleep(ctx, pause) {
			return err
		}
		pause = min(2*pause, refreshPause)
		c.log.WarnContext(ctx, "the cache cannot be described yet", "cache", c.config.String(), "error", err)
	}
}

// use has clients configured by d.
func (c *Cache) use(d description) {
	c.opened, c.told = d, d
	c.now.Store(&d)
}

// sleep waits for about d, and reports whether ctx still runs then: a wait that ctx would cut short is not begun.
func sleep(ctx context.Context, d time.Duration) bool {
	d = d*4/5 + rand.N(d*2/5) //nolint:gosec // a predictable pause is one too
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// usable says why clients that are told of d could not connect.
func (c *Cache) usable(d description) error {
	switch {
	case c.config.User != "" && !d.tls:
		return fmt.Errorf("user %s: %w, which the cache has not enabled", c.config.User, ErrNoTLS)
	case d.token && c.config.Secret == "":
		return fmt.Errorf("%w: the cache wants an AUTH token: name the secret that holds it", ErrConfig)
	}
	return nil
}

// refresh describes the cache now and then, when connections fail, and soon again when that failed.
func (c *Cache) refresh(ctx context.Context) {
	var last time.Time
	interval := refreshInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval*4/5 + rand.N(interval*2/5)): //nolint:gosec // no secret
		case <-c.asked:
			if wait := refreshPause - time.Since(last); wait > 0 && !sleep(ctx, wait) {
				return
			}
		}
		last = time.Now()
		d, err := c.describe(ctx)
		if err != nil {
			interval = refreshPause
			if ctx.Err() == nil {
				c.log.WarnContext(ctx, "the cache cannot be described; its endpoint is taken to be the same",
					"cache", c.config.String(), "error", err)
			}
			continue
		}
		interval = refreshInterval
		c.update(ctx, d)
	}
}

// update has new connections go where d says.
func (c *Cache) update(ctx context.Context, d description) {
	if d == c.told {
		return
	}
	c.told = d
	c.remember(ctx, d)
	now := *c.now.Load()
	if d.cluster != now.cluster || d.tls != now.tls {
		c.log.ErrorContext(ctx, "the cache was changed in a way that needs a restart of this process: until then it is used as before",
			"cache", c.config.String(), "cluster_mode", d.cluster, "tls", d.tls)
		return
	}
	d.reader = cmp.Or(d.reader, now.reader)
	if d.addr == now.addr && d.reader == now.reader {
		return
	}
	c.now.Store(&d)
	c.log.InfoContext(ctx, "the cache has another endpoint", "cache", c.config.String(), "addr", d.addr, "reader", d.reader)
}

// failed asks for another description, as a connection could not be made.
func (c *Cache) failed() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// ClusterMode tells whether clients have to speak the protocol of a cluster: always, of a
// serverless cache.
func (c *Cache) ClusterMode() bool { return c.opened.cluster }

// TLS tells whether connections are encrypted.
func (c *Cache) TLS() bool { return c.opened.tls }

// Addr is the host and port of the endpoint as AWS described it last: the configuration
// endpoint in cluster mode, the primary's without, the only one of a serverless cache.
func (c *Cache) Addr() string { return c.now.Load().addr }

// Close ends the refreshing. Clients go on with what is known.
func (c *Cache) Close() {
	c.stop()
	c.done.Wait()
}

// logger takes what the SDK has to say.
type logger struct{ log *slog.Logger }

// Logf implements [logging.Logger].
func (l logger) Logf(kind logging.Classification, format string, args ...any) {
	level := slog.LevelDebug
	if kind == logging.Warn {
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, "AWS SDK", "message", fmt.Sprintf(format, args...))
}
