package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

const (
	elastiCache           = "elasticache"
	elastiCacheServerless = "elasticache-serverless"
	userParameter         = "user" // in the query

	// describeTimeout is how long a start waits for AWS to say where the cache is.
	describeTimeout = 30 * time.Second
)

// managedCache is a cache of Amazon ElastiCache, as --redis names it.
type managedCache struct {
	config elasticache.Config
	reader bool       // feeds are read from replicas
	query  url.Values // settings of the client
}

// parseManaged reads elasticache://<name>?region=&user=&secret=&reader=, and settings of the client.
func parseManaged(text string) (*managedCache, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errNotURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errNotURL // with the error, part of the query would show
	}
	m := &managedCache{query: query}
	m.config.Name, m.config.Serverless = u.Host, u.Scheme == elastiCacheServerless
	switch {
	case u.User != nil:
		return nil, errors.New("who signs in goes into the query: user=..., or secret=... for a token")
	case u.Port() != "" || u.Path != "" && u.Path != "/" || u.Fragment != "" || u.Host == "":
		return nil, errors.New("what follows :// is not the name of a cache alone: AWS is asked for its endpoint")
	}
	take := func(name string) string {
		defer m.query.Del(name)
		return m.query.Get(name)
	}
	m.config.Region, m.config.User, m.config.Secret = take("region"), take(userParameter), take("secret")
	if text := take("reader"); text != "" {
		if m.reader, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("reader: %q is neither true nor false", text)
		}
	}
	if m.config.User != "" && m.config.Secret != "" {
		return nil, errors.New("both a user and a secret: the one is for IAM, the other for a token")
	}
	if _, err := m.single(); err != nil {
		return nil, err
	}
	_, err = m.cluster()
	return m, err
}

// settings are those of the client as [redis.ParseURL] takes them; the address is made up.
func (m *managedCache) settings(defaults map[string]string) string {
	return "redis://cache/?" + withDefaults(m.query.Encode(), defaults)
}

func (m *managedCache) single() (*redis.Options, error) {
	o, err := redis.ParseURL(m.settings(redisDefaults()))
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1 // the retries of commands dial again
	return o, nil
}

func (m *managedCache) cluster() (*redis.ClusterOptions, error) {
	for _, name := range []string{"addr", "read_only", "route_by_latency", "route_randomly"} {
		if m.query.Has(name) {
			return nil, fmt.Errorf("unexpected option: %s", name)
		}
	}
	o, err := redis.ParseClusterURL(m.settings(clusterDefaults()))
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	return o, nil
}

// descriptionFile returns where what AWS says of the cache is kept.
func descriptionFile(dir string) string { return filepath.Join(dir, "elasticache.json") }

// connect asks AWS where the cache is, and keeps the answer in file for a time when AWS cannot be asked.
func (m *managedCache) connect(ctx context.Context, log *slog.Logger, file string, meter *metrics.Redis) (*redisClients, error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	config := m.config
	config.Logger, config.File = log, file
	cache, err := elasticache.Open(ctx, config)
	if errors.Is(err, elasticache.ErrConfig) {
		return nil, usageError{err}
	}
	if err != nil {
		return nil, err
	}
	c := &redisClients{cache: cache, addrs: fmt.Sprintf("%s (%s)", &m.config, cache.Addr())}
	if c.pages, err = m.client(cache, false); err == nil && m.reader {
		c.replicas, err = m.client(cache, true)
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
func (m *managedCache) client(cache *elasticache.Cache, reader bool) (redis.UniversalClient, error) {
	single, cluster, err := m.options(cache, reader)
	switch {
	case err != nil:
		return nil, err
	case cluster != nil:
		return redis.NewClusterClient(cluster), nil
	}
	return redis.NewClient(single), nil
}

// options returns those of a client of the cache, one of the two.
func (m *managedCache) options(cache *elasticache.Cache, reader bool) (*redis.Options, *redis.ClusterOptions, error) {
	if cache.ClusterMode() {
		o, err := m.cluster()
		if err != nil {
			return nil, nil, err
		}
		return nil, o, cache.ConfigureCluster(o, reader)
	}
	o, err := m.single()
	if err != nil {
		return nil, nil, err
	}
	return o, nil, cache.Configure(o, reader)
}
