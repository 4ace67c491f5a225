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

// The cache closes IAM connections 12 hours after they signed in. Clients replace them earlier, and
// not all at once.
const (
	connLifetime       = 11 * time.Hour
	connLifetimeJitter = 30 * time.Minute

	dialTimeout = 5 * time.Second
)

// Configure sets in o the options that a client needs to reach a cache without cluster mode:
// address, dialler, credentials, connection lifetime, and no maintenance notifications. With
// reader, the client connects to the replicas, whose data may be stale.
//
// If the cache requires TLS, connections use o.TLSConfig, which may be nil. Configure honours
// o.DialTimeout; 0 means 5 seconds. It fails if the cache is in cluster mode, or if reader is true
// and there is no endpoint for reads from replicas.
func (c *Cache) Configure(o *redis.Options, reader bool) error {
	addr, err := c.seed(false, reader)
	if err != nil {
		return err
	}
	o.Addr = addr
	o.Dialer = c.dialer(addr, o.TLSConfig, o.DialTimeout, reader)
	o.TLSConfig = nil // the dialler uses it
	o.CredentialsProviderContext = c.signIn
	o.MaintNotificationsConfig = noMaintNotifications()
	if c.config.User != "" {
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = lifetime(
			o.ConnMaxLifetime, o.ConnMaxLifetimeJitter,
		)
	}
	return nil
}

// ConfigureCluster is like [Cache.Configure] for a cache in cluster mode. With reader, the client
// sends read-only commands to replicas.
func (c *Cache) ConfigureCluster(o *redis.ClusterOptions, reader bool) error {
	addr, err := c.seed(true, reader)
	if err != nil {
		return err
	}
	o.Addrs = []string{addr}
	o.ReadOnly = reader
	o.Dialer = c.dialer(addr, o.TLSConfig, o.DialTimeout, reader)
	o.TLSConfig = nil
	o.CredentialsProviderContext = c.signIn
	o.MaintNotificationsConfig = noMaintNotifications()
	if c.config.User != "" {
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = lifetime(
			o.ConnMaxLifetime, o.ConnMaxLifetimeJitter,
		)
	}
	return nil
}

// seed returns the address in the options of a client, which may use the cluster protocol. It is
// always that of the first description.
func (c *Cache) seed(cluster, reader bool) (string, error) {
	switch {
	case c.opened.Cluster && !cluster:
		return "", fmt.Errorf("%s: %w: it is in cluster mode", &c.config, ErrConfig)
	case cluster && !c.opened.Cluster:
		return "", fmt.Errorf("%s: %w: it is not in cluster mode", &c.config, ErrConfig)
	case !reader:
		return c.opened.Addr, nil
	case c.opened.Reader == "":
		return "", fmt.Errorf(
			"%s: %w: it has no endpoint for reads from replicas", &c.config, ErrConfig,
		)
	default:
		return c.opened.Reader, nil
	}
}

// lifetime returns the caller's connection lifetime and jitter if they are short enough, and the
// defaults otherwise.
func lifetime(longest, jitter time.Duration) (time.Duration, time.Duration) {
	if longest > 0 && longest+jitter <= connLifetime+connLifetimeJitter {
		return longest, jitter
	}
	return connLifetime, connLifetimeJitter
}

// noMaintNotifications disables maintenance notifications, because the cache refuses the command
// that requests them.
func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// dialer returns a dialler for the addresses that a cluster reports. It replaces the endpoint of
// the first description, seed, by that of the last one.
func (c *Cache) dialer(
	seed string, conf *tls.Config, timeout time.Duration, reader bool,
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	timeout = cmp.Or(timeout, dialTimeout)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if now := c.now.Load(); addr == seed {
			addr = now.Addr
			if reader {
				addr = now.Reader
			}
		}
		conn, err := c.connect(ctx, network, addr, conf, timeout)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.failed()
		}
		return conn, err
	}
}

func (c *Cache) connect(
	ctx context.Context, network, addr string, conf *tls.Config, timeout time.Duration,
) (net.Conn, error) {
	if !c.opened.TLS {
		d := net.Dialer{Timeout: timeout}
		return d.DialContext(ctx, network, addr)
	}
	if name := c.serverName(addr); name != "" && (conf == nil || conf.ServerName == "") {
		conf = cmp.Or(conf, &tls.Config{MinVersion: tls.VersionTLS12}).Clone()
		conf.ServerName = name
	}
	return tlsdial.Dial(ctx, network, addr, conf, timeout)
}

// serverName returns the name in a node's certificate if that is not the host in addr. Nodes with
// numeric addresses use the name of the endpoint, whose certificate they share.
func (c *Cache) serverName(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	name, _, _ := net.SplitHostPort(c.Addr())
	if net.ParseIP(host) == nil || net.ParseIP(name) != nil {
		return ""
	}
	return name
}
