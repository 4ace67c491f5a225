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

// describeTimeout is how long a start waits for AWS to say where the cache is.
const describeTimeout = 30 * time.Second

// redisClients are clients of the servers that --redis names.
type redisClients struct {
	pages    redis.UniversalClient
	replicas redis.UniversalClient // for feeds; nil: they are not read
	cache    *elasticache.Cache    // nil unless the servers are one
	addrs    string                // for people to read
}

// connect returns clients of s that leave servers alone for a while that fail, and tell log. The servers need not be
// up; but where they are is asked of AWS, if they are a cache there, and kept in the directory dir.
func connect(
	ctx context.Context, s *redisurl.Servers, meter *metrics.Redis, log *slog.Logger, dir string,
) (*redisClients, error) {
	redis.SetLogger(redisLog{log}) // one for all clients of the process
	if s.Managed != nil {
		return connectManaged(ctx, s.Managed, meter, log, descriptionFile(dir))
	}
	c := &redisClients{addrs: s.Name(), pages: s.Client()}
	guardClient(meter, meteredPages, c.pages, log)
	return c, nil
}

// descriptionFile returns where what AWS says of the cache is kept.
func descriptionFile(dir string) string { return filepath.Join(dir, "elasticache.json") }

// connectManaged asks AWS where the cache is, and keeps the answer in file for a time when AWS cannot be asked.
func connectManaged(
	ctx context.Context, m *redisurl.Managed, meter *metrics.Redis, log *slog.Logger, file string,
) (*redisClients, error) {
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
	if c.pages, err = managedClient(m, cache, false); err == nil && m.Reader {
		c.replicas, err = managedClient(m, cache, true)
	}
	if err != nil {
		cache.Close()
		return nil, usageError{err}
	}
	guardClient(meter, meteredPages, c.pages, log)
	if c.replicas != nil {
		guardClient(meter, meteredReplicas, c.replicas, log)
	}
	return c, nil
}

//nolint:ireturn // there are two kinds
func managedClient(m *redisurl.Managed, cache *elasticache.Cache, reader bool) (redis.UniversalClient, error) {
	single, cluster, err := m.Options(cache, reader)
	switch {
	case err != nil:
		return nil, err
	case cluster != nil:
		return redis.NewClusterClient(cluster), nil
	}
	return redis.NewClient(single), nil
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

// redisLog takes what the Redis client has to say. Failed commands are reported by
// whoever sent them, so this is for looking into a problem only.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}
