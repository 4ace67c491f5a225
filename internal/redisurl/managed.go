package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
)

const (
	elastiCache           = "elasticache"
	elastiCacheServerless = "elasticache-serverless"
	userParameter         = "user" // in the query
)

// Managed is a cache of Amazon ElastiCache, as a URL names it.
type Managed struct {
	Config elasticache.Config
	Reader bool // feeds are read from replicas

	query url.Values // settings of the client
}

// parseManaged reads elasticache://<name>?region=&user=&secret=&reader=, and settings of the client.
func parseManaged(text string) (*Managed, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errNotURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errNotURL // with the error, part of the query would show
	}
	m := &Managed{query: query}
	m.Config.Name, m.Config.Serverless = u.Host, u.Scheme == elastiCacheServerless
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
	m.Config.Region, m.Config.User, m.Config.Secret = take("region"), take(userParameter), take("secret")
	if text := take("reader"); text != "" {
		if m.Reader, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("reader: %q is neither true nor false", text)
		}
	}
	if m.Config.User != "" && m.Config.Secret != "" {
		return nil, errors.New("both a user and a secret: the one is for IAM, the other for a token")
	}
	if _, err := m.single(); err != nil {
		return nil, err
	}
	_, err = m.cluster()
	return m, err
}

// settings returns the client's settings as [redis.ParseURL] returns them. The address is a
// placeholder.
func (m *Managed) settings(defaults map[string]string) string {
	return "redis://cache/?" + withDefaults(m.query.Encode(), defaults)
}

func (m *Managed) single() (*redis.Options, error) {
	o, err := redis.ParseURL(m.settings(serverDefaults()))
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1 // the retries of commands dial again
	return o, nil
}

func (m *Managed) cluster() (*redis.ClusterOptions, error) {
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

// Options returns those of a client of the cache, one of the two; with reader, of one that reads
// from replicas.
func (m *Managed) Options(cache *elasticache.Cache, reader bool) (*redis.Options, *redis.ClusterOptions, error) {
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
