// Package elasticache connects go-redis to Amazon ElastiCache, node-based or serverless. It asks
// AWS for the endpoint and the settings of a cache, and notices when the endpoint changes. It signs
// in with IAM or with a secret.
//
// [Open] describes a cache by its name. [Cache.Configure] or [Cache.ConfigureCluster] then sets the
// client options that follow from the description. The caller sets all other options.
package elasticache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go/logging"

	"github.com/feedfilter/feedfilter/internal/pause"
)

// These errors distinguish the failures of this package, whose errors wrap them.
var (
	ErrConfig       = errors.New("invalid configuration")
	ErrNotFound     = errors.New("there is no such cache")
	ErrNotAvailable = errors.New("the cache is not available")
	ErrAccessDenied = errors.New("AWS denied access")
	ErrNoTLS        = errors.New("IAM authentication needs encryption in transit")
)

const (
	// refreshInterval is the mean time between two descriptions of a cache.
	refreshInterval = 5 * time.Minute
	// refreshPause is the minimum time between two descriptions caused by failed connections.
	refreshPause = 10 * time.Second
	// describeTimeout is the timeout of one description, including retries of the SDK.
	describeTimeout = 15 * time.Second
	// recallAfter is how long Open waits for an answer before it uses a saved description.
	recallAfter = 3 * time.Second
	// openPause is the pause before the second attempt of Open. It doubles with each attempt, up
	// to refreshPause.
	openPause = 500 * time.Millisecond
)

// Config identifies a cache and configures how to sign in.
type Config struct {
	_ struct{} // fields are named

	// Name is the ID of a replication group, or the name of a serverless cache.
	Name       string
	Serverless bool

	// Region is the AWS region of the cache. Default: the region of AWS.
	Region string

	// User is the user to sign in as with IAM: its ID, which must also be its name, in lower case.
	// The caller's AWS identity needs the permission elasticache:Connect on the cache and on the
	// user.
	User string

	// Secret is the name or ARN of a secret in Secrets Manager. The secret is the AUTH token, or a
	// JSON object with a "password" and optionally a "username". It is read again when connections
	// are made. So it may be rotated at any time while the cache accepts both the old token and the
	// new one. Secret and User cannot be combined.
	Secret string

	// AWS configures access to AWS. Default: the SDK's default, from the environment, shared files,
	// or the role of the machine.
	AWS *aws.Config

	// File is the name of a file that stores the last description, without secrets. A process that
	// starts while AWS is unavailable uses that description, and keeps asking AWS. Default: the
	// description is not stored.
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

// String returns the kind and name of the cache.
func (c *Config) String() string {
	if c.Serverless {
		return "serverless cache " + c.Name
	}
	return "replication group " + c.Name
}

// Cache is a described cache. It is safe for concurrent use.
type Cache struct {
	config Config
	api    *elasticache.Client
	signIn func(context.Context) (user, password string, err error) // nil: no sign-in
	log    *slog.Logger

	opened description // description at Open, which sets the options of clients
	told   description // last description by AWS; after Open only refresh uses it
	now    atomic.Pointer[description]
	asked  chan struct{} // has an element if a connection failed: describe the cache again
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// Open describes the cache. It retries while AWS throttles, is unreachable, or reports that the
// cache is being created. It gives up when ctx ends, or after half a minute if ctx has no deadline.
// If Config.File holds a description, and AWS is unavailable or does not answer within 3 seconds,
// Open uses that description instead of retrying. The Cache then refreshes the description until
// [Cache.Close].
//
// Errors wrap [ErrConfig], [ErrNotFound], [ErrNotAvailable], [ErrAccessDenied] or [ErrNoTLS] if one
// of them applies, and say what to do.
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
		cache.signIn = (&secret{
			id:  c.Secret,
			api: secretsmanager.NewFromConfig(conf),
			log: cache.log,
		}).signIn
	}
	if err := cache.describeFirst(ctx); err != nil {
		return nil, fmt.Errorf("open %s in %s: %w", &c, conf.Region, err)
	}
	ctx, cache.stop = context.WithCancel(context.WithoutCancel(ctx))
	cache.done.Go(func() { cache.refresh(ctx) })
	return cache, nil
}

// aws returns the configuration of access to AWS, with a region.
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
	conf.Region = cmp.Or(c.Region, conf.Region)
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

// describeFirst describes the cache, and retries until it is available.
func (c *Cache) describeFirst(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*describeTimeout)
		defer cancel()
	}
	before, recalled := c.recall()
	for failures := 1; ; failures++ {
		timeout := describeTimeout
		if recalled {
			timeout = recallAfter
		}
		d, err := c.describe(ctx, timeout)
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
			c.log.WarnContext(
				ctx, "the cache cannot be described; it is taken to be where it was",
				"cache", c.config.String(), "addr", before.Addr, "error", err,
			)
			c.use(before)
			c.failed() // makes refresh ask AWS soon
			return nil
		}
		if !pause.Sleep(ctx, pause.About(pause.Doubled(openPause, refreshPause, failures))) {
			return err
		}
		c.log.WarnContext(
			ctx, "the cache cannot be described yet", "cache", c.config.String(), "error", err,
		)
	}
}

// use makes d the description for clients.
func (c *Cache) use(d description) {
	c.opened, c.told = d, d
	c.now.Store(&d)
}

// usable returns an error if clients could not connect with d.
func (c *Cache) usable(d description) error {
	switch {
	case c.config.User != "" && !d.TLS:
		return fmt.Errorf("user %s: %w, which the cache has not enabled", c.config.User, ErrNoTLS)
	case d.Token && c.config.Secret == "":
		return fmt.Errorf("%w: the cache wants an AUTH token: name the secret that holds it", ErrConfig)
	}
	return nil
}

// refresh describes the cache periodically, and when connections fail. After a failed description
// it retries sooner.
func (c *Cache) refresh(ctx context.Context) {
	var last time.Time
	interval := refreshInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.About(interval)):
		case <-c.asked:
			if wait := refreshPause - time.Since(last); wait > 0 && !pause.Sleep(ctx, pause.About(wait)) {
				return
			}
		}
		last = time.Now()
		d, err := c.describe(ctx, describeTimeout)
		if err != nil {
			interval = refreshPause
			if ctx.Err() == nil {
				c.log.WarnContext(
					ctx, "the cache cannot be described; its endpoint is taken to be the same",
					"cache", c.config.String(), "error", err,
				)
			}
			continue
		}
		interval = refreshInterval
		c.update(ctx, d)
	}
}

// update directs new connections to the endpoints in d.
func (c *Cache) update(ctx context.Context, d description) {
	if d == c.told {
		return
	}
	c.told = d
	c.remember(ctx, d)
	now := *c.now.Load()
	if d.Cluster != now.Cluster || d.TLS != now.TLS {
		c.log.ErrorContext(
			ctx,
			"the cache was changed in a way that needs a restart of this process: "+
				"until then it is used as before",
			"cache", c.config.String(), "cluster_mode", d.Cluster, "tls", d.TLS,
		)
		return
	}
	d.Reader = cmp.Or(d.Reader, now.Reader)
	if d.Addr == now.Addr && d.Reader == now.Reader {
		return
	}
	c.now.Store(&d)
	c.log.InfoContext(
		ctx, "the cache has another endpoint",
		"cache", c.config.String(), "addr", d.Addr, "reader", d.Reader,
	)
}

// failed requests another description, because a connection could not be made.
func (c *Cache) failed() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// ClusterMode reports whether clients must use the cluster protocol. It is always true for a
// serverless cache.
func (c *Cache) ClusterMode() bool { return c.opened.Cluster }

// TLS reports whether connections are encrypted.
func (c *Cache) TLS() bool { return c.opened.TLS }

// Addr returns the host and port of the endpoint in the last description by AWS. In cluster mode it
// is the configuration endpoint, without it the endpoint of the primary. A serverless cache has
// only one endpoint.
func (c *Cache) Addr() string { return c.now.Load().Addr }

// Close stops refreshing the description. Clients continue to use the last known description.
func (c *Cache) Close() {
	c.stop()
	c.done.Wait()
}

// logger forwards log messages of the SDK.
type logger struct{ log *slog.Logger }

// Logf implements [logging.Logger].
func (l logger) Logf(kind logging.Classification, format string, args ...any) {
	level := slog.LevelDebug
	if kind == logging.Warn {
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, "AWS SDK", "message", fmt.Sprintf(format, args...))
}
