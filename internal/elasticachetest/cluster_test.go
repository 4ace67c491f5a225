package elasticachetest_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/elasticachetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// TestCluster checks that the cluster names only proxies to clients, and that replicas follow
// through them.
func TestCluster(t *testing.T) {
	t.Parallel()
	authority, err := redistest.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	cache := elasticachetest.New(t, elasticachetest.Serverless, server)
	cluster := redistest.StartClusterVia(t, 2, 1, cache.Via)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()[:1], TLSConfig: config, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	for i := range 100 {
		if err := client.Set(t.Context(), fmt.Sprint("k", i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	met := make(map[string]bool)
	var mu sync.Mutex
	if err := client.ForEachShard(t.Context(), func(ctx context.Context, shard *redis.Client) error {
		mu.Lock()
		met[shard.Options().Addr] = true
		mu.Unlock()
		return shard.Ping(ctx).Err()
	}); err != nil {
		t.Fatal(err)
	}
	for _, addr := range cluster.Addrs() {
		if !met[addr] {
			t.Errorf("the client met %v, but not %s", met, addr)
		}
	}
	if len(met) != 4 {
		t.Errorf("the client met %v, want the four proxies", met)
	}
	told := func(what, addr string) {
		if !slices.Contains(cluster.Addrs(), addr) {
			t.Errorf("%s names %s to clients, which is not a proxy", what, addr)
		}
	}
	shards, err := client.ClusterShards(t.Context()).Result()
	if err != nil || len(shards) != 2 {
		t.Fatalf("%d shards, %v", len(shards), err)
	}
	for _, shard := range shards {
		for _, node := range shard.Nodes {
			told("CLUSTER SHARDS", net.JoinHostPort(node.IP, fmt.Sprint(node.Port)))
		}
	}
	nodes, err := client.ClusterNodes(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(nodes) {
		addr, _, _ := strings.Cut(strings.Fields(line)[1], "@")
		told("CLUSTER NODES", addr)
	}
	violated(t, cache, "client maint_notifications") // of a client that asks for them
}
