package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// describeTimeout is how long a start waits for AWS to describe the cache.
const describeTimeout = 30 * time.Second

// redisClients holds clients of the servers that --redis names.
type redisClients struct {
	pages    redis.UniversalClient
	replicas redis.UniversalClient // for feeds; nil: feeds read primaries
	cache    *elasticache.Cache    // nil unless --redis names an ElastiCache cache
	addrs    string                // for people to read
}

// connect returns clients of s with circuit breakers, which log to log. The servers may be down.
// The directory dir has the description of an ElastiCache cache.
func connect(
	ctx context.Context, s *redisurl.Servers, meter *metrics.Redis, log *slog.Logger, dir string,
) (*redisClients, error) {
	c, err := newClients(ctx, s, log, filepath.Join(dir, "elasticache.json"))
	if err != nil {
		return nil, err
	}
	guardClient(meter, meteredPages, c.pages, log)
	if c.replicas != nil {
		guardClient(meter, meteredReplicas, c.replicas, log)
	}
	return c, nil
}

// newClients returns clients of s. For an ElastiCache cache, it asks AWS for a description, and
// stores it in file, unless that is "", for later starts without AWS.
func newClients(
	ctx context.Context, s *redisurl.Servers, log *slog.Logger, file string,
) (*redisClients, error) {
	redis.SetLogger(redisLog{log}) // one for all clients of the process
	m := s.Managed
	if m == nil {
		return &redisClients{addrs: s.Name(), pages: s.Client()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	config := m.Config
	config.Logger, config.File = log, file
	cache, err := elasticache.Open(ctx, config)
	if errors.Is(err, elasticache.ErrConfig) {
		return nil, usageError{err}
	}
	if err != nil {
		return nil, err
	}
	c := &redisClients{cache: cache, addrs: fmt.Sprintf("%s (%s)", &m.Config, cache.Addr())}
	if c.pages, err = m.Client(cache, false); err == nil && m.Reader {
		c.replicas, err = m.Client(cache, true)
	}
	if err != nil {
		cache.Close()
		return nil, usageError{err}
	}
	return c, nil
}

func (c *redisClients) close() error {
	err := c.pages.Close()
	if c.replicas != nil {
		err = errors.Join(err, c.replicas.Close())
	}
	if c.cache != nil {
		c.cache.Close()
	}
	return err
}

// redisLog logs the messages of the Redis client at debug level. Callers report failed commands
// themselves.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}
