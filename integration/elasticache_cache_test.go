package integration

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/elasticachetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

var elasticache = flag.String("elasticache", "", //nolint:gochecknoglobals // a flag of the test binary
	"what services have for Redis: a server as it is, without it; or behind the rules of ElastiCache, node (a node-based cache) or serverless")

// authority signs the certificates of the caches. Services trust it.
var authority *redistest.Authority //nolint:gochecknoglobals // set once, before the tests

// plainRedis is the kind of a server without a cache's rules.
const plainRedis elasticachetest.Kind = 0

// asFlagged returns the kind that -elasticache names.
func asFlagged(t testing.TB) elasticachetest.Kind {
	t.Helper()
	switch *elasticache {
	case "":
		return plainRedis
	case "node":
		return elasticachetest.NodeBased
	case "serverless":
		return elasticachetest.Serverless
	}
	t.Fatalf("-elasticache=%s: want node or serverless", *elasticache)
	return plainRedis
}

// cache is a Redis as services reach it. The tests reach the server itself, without a cache's
// rules.
type cache struct {
	*redistest.Server // for a serverless cache: the primary of all slots

	kind elasticachetest.Kind
	addr string
	url  string
}

// Addr returns the address at which services reach the cache.
func (c *cache) Addr() string { return c.addr }

// URL returns the value for --redis.
func (c *cache) URL() string { return c.url }

// startRedis starts a cache of the kind that -elasticache names.
func startRedis(t testing.TB, args ...string) *cache {
	t.Helper()
	return startCache(t, asFlagged(t), direct, args...)
}

// direct adds no network between services and a server.
func direct(addr string) string { return addr }

// startCache starts a cache of a kind. For a serverless cache, network returns the address that
// services get in place of each endpoint. Other kinds name no endpoints to clients, and do not use
// network.
func startCache(t testing.TB, kind elasticachetest.Kind, network func(addr string) string, args ...string) *cache {
	t.Helper()
	if kind == elasticachetest.Serverless {
		// One primary is the endpoint for all slots, and its replica is the one to read from.
		cluster := startCluster(t, kind, 1, network, args...)
		return &cache{Server: cluster.Nodes()[0], kind: kind, addr: cluster.Addrs()[0], url: "rediss+cluster://" + cluster.Addrs()[0]}
	}
	server := redistest.Start(t, args...)
	addr := server.Addr()
	if kind == elasticachetest.NodeBased {
		addr = elasticachetest.New(t, kind, nil).Via(addr)
	}
	return &cache{Server: server, kind: kind, addr: addr, url: "redis://" + addr + "/0"}
}

// startCluster starts a cluster of a kind, with one replica for each primary.
func startCluster(
	t testing.TB, kind elasticachetest.Kind, primaries int, network func(addr string) string, args ...string,
) *redistest.Cluster {
	t.Helper()
	via := network
	switch kind {
	case elasticachetest.NodeBased:
		rules := elasticachetest.New(t, kind, nil)
		via = func(addr string) string { return network(rules.Via(addr)) }
	case elasticachetest.Serverless:
		secure, err := authority.ServerConfig()
		must(t, err)
		rules := elasticachetest.New(t, kind, secure)
		via = func(addr string) string { return network(rules.Via(addr)) }
		args = slices.Concat([]string{"--maxmemory-policy", "volatile-lru"}, args)
	default:
	}
	return redistest.StartClusterVia(t, primaries, 1, via, args...)
}

// clusterURL returns the value for --redis that names all nodes of a cluster of that kind.
func clusterURL(kind elasticachetest.Kind, cluster *redistest.Cluster) string {
	if kind == elasticachetest.Serverless {
		return "rediss+cluster://" + strings.Join(cluster.Addrs(), ",")
	}
	return cluster.URL()
}
