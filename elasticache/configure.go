package elasticache

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/favfilter/redisstore/tlsdial"
)

// The cache cuts connections that were made with IAM 12 hours after they signed in.
// They are replaced before, and not all at once.
const (
	connLifetime       = 11 * time.Hour
	connLifetimeJitter = 30 * time.Minute

	dialTimeout = 5 * time.Second
)

// dial makes a connection; a [redis.Options.Dialer].
type dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// Configure sets in o what a client needs to reach the cache, which is not in cluster
// mode: address, dialler, credentials, the lifetime of connections, and no maintenance
// notifications. With reader, the client goes to the replicas: what it reads may be old.
//
// o.TLSConfig, if any, is what connections are encrypted with where the cache wants it.
// o.DialTimeout holds; zero: 5 seconds.
func (c *Cache) Configure(o *redis.Options, reader bool) error {
	if c.opened.cluster {
		return fmt.Errorf("%s: %w: it is in cluster mode", &c.config, ErrConfig)
	}
	addr, err := c.seed(reader)
	if err != nil {
		return err
	}
	o.Addr = addr
	o.Dialer = c.dialer(o.TLSConfig, o.DialTimeout, reader)
	o.TLSConfig = nil // the dialler's
	o.CredentialsProviderContext = c.signIn
	o.MaintNotificationsConfig = noMaintNotifications()
	if c.config.User != "" {
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = lifetime(o.ConnMaxLifetime, o.ConnMaxLifetimeJitter)
	}
	return nil
}

// ConfigureCluster is [Cache.Configure] for a cache in cluster mode. With reader, what
// reads only is asked of replicas.
func (c *Cache) ConfigureCluster(o *redis.ClusterOptions, reader bool) error {
	if !c.opened.cluster {
		return fmt.Errorf("%s: %w: it is not in cluster mode", &c.config, ErrConfig)
	}
	addr, err := c.seed(reader)
	if err != nil {
		return err
	}
	o.Addrs = []string{addr}
	o.ReadOnly = reader
	o.Dialer = c.dialer(o.TLSConfig, o.DialTimeout, reader)
	o.TLSConfig = nil
	o.CredentialsProviderContext = c.signIn
	o.MaintNotificationsConfig = noMaintNotifications()
	if c.config.User != "" {
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = lifetime(o.ConnMaxLifetime, o.ConnMaxLifetimeJitter)
	}
	return nil
}

// seed is the address that a client is told of; it stays that of the first description.
func (c *Cache) seed(reader bool) (string, error) {
	if !reader {
		return c.opened.addr, nil
	}
	if c.opened.reader == "" {
		return "", fmt.Errorf("%s: %w: it has no endpoint for reads from replicas", &c.config, ErrConfig)
	}
	return c.opened.reader, nil
}

// lifetime returns what the caller wants, if that ends soon enough.
func lifetime(longest, jitter time.Duration) (time.Duration, time.Duration) {
	if longest > 0 && longest+jitter <= connLifetime+connLifetimeJitter {
		return longest, jitter
	}
	return connLifetime, connLifetimeJitter
}

// noMaintNotifications: the cache refuses the command that asks for them.
func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// dialer connects to nodes by the addresses that a cluster tells, and to the endpoint of the
// first description by that of the last.
func (c *Cache) dialer(conf *tls.Config, timeout time.Duration, reader bool) dial {
	timeout = cmp.Or(timeout, dialTimeout)
	seed, _ := c.seed(reader)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if now := c.now.Load(); addr == seed {
			addr = now.addr
			if reader {
				addr = now.reader
			}
		}
		conn, err := c.connect(ctx, network, addr, conf, timeout)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.failed()
		}
		return conn, err
	}
}

func (c *Cache) connect(ctx context.Context, network, addr string, conf *tls.Config, timeout time.Duration) (net.Conn, error) {
	if !c.opened.tls {
		d := net.Dialer{Timeout: timeout}
		return d.DialContext(ctx, network, addr)
	}
	if name := c.serverName(addr); name != "" && (conf == nil || conf.ServerName == "") {
		if conf == nil {
			conf = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		conf = conf.Clone()
		conf.ServerName = name
	}
	return tlsdial.Dial(ctx, network, addr, conf, timeout)
}

// serverName is the name that a node's certificate has, where that is not the host in addr: nodes that are known by
// their numbers have that of the endpoint, for which there is one certificate.
func (c *Cache) serverName(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	name, _, _ := net.SplitHostPort(c.Addr())
	if net.ParseIP(host) == nil || net.ParseIP(name) != nil {
		return ""
	}
	return name
}
