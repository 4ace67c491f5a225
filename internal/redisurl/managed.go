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

// Managed is a cache of Amazon ElastiCache that a URL names.
type Managed struct {
	Config elasticache.Config
	Reader bool // feeds read from replicas

	query url.Values // settings of the client
}

// parseManaged parses elasticache://<name>?region=&user=&secret=&reader=, with settings of the
// client.
func parseManaged(text string) (*Managed, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errNotURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errNotURL // the error itself would contain part of the query
	}
	m := &Managed{query: query}
	m.Config.Name, m.Config.Serverless = u.Host, u.Scheme == elastiCacheServerless
	switch {
	case u.User != nil:
		return nil, errors.New("credentials belong in the query: user=..., or secret=... for a token")
	case u.Port() != "" || u.Path != "" && u.Path != "/" || u.Fragment != "" || u.Host == "":
		return nil, errors.New("only the name of a cache may follow ://; its endpoint comes from AWS")
	}
	take := func(name string) string {
		defer m.query.Del(name)
		return m.query.Get(name)
	}
	m.Config.Region = take("region")
	m.Config.User = take(userParameter)
	m.Config.Secret = take("secret")
	if text := take("reader"); text != "" {
		if m.Reader, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("reader: %q is neither true nor false", text)
		}
	}
	if m.Config.User != "" && m.Config.Secret != "" {
		return nil, errors.New(
			"a user and a secret exclude each other: the user is for IAM, a secret for a token",
		)
	}
	if _, err := m.single(); err != nil {
		return nil, err
	}
	_, err = m.cluster()
	return m, err
}

// settings returns the client's settings in a URL for [redis.ParseURL], with a placeholder address.
func (m *Managed) settings(defaults map[string]string) string {
	return "redis://cache/?" + withDefaults(m.query.Encode(), defaults)
}

func (m *Managed) single() (*redis.Options, error) {
	return serverOptions(m.settings(serverDefaults()))
}

func (m *Managed) cluster() (*redis.ClusterOptions, error) {
	if m.query.Has("addr") {
		return nil, errors.New("unexpected option: addr")
	}
	return clusterOptions(m.settings(clusterDefaults()))
}

// Client returns a client of the cache. With reader, the client reads from replicas.
//
//nolint:ireturn // one of two types
func (m *Managed) Client(cache *elasticache.Cache, reader bool) (redis.UniversalClient, error) {
	if cache.ClusterMode() {
		o, err := m.cluster()
		if err == nil {
			err = cache.ConfigureCluster(o, reader)
		}
		if err != nil {
			return nil, err
		}
		return redis.NewClusterClient(o), nil
	}
	o, err := m.single()
	if err == nil {
		err = cache.Configure(o, reader)
	}
	if err != nil {
		return nil, err
	}
	return redis.NewClient(o), nil
}
