package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestClusterStarts(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	nodes := c.Nodes()
	if len(nodes) != 6 {
		t.Fatalf("%d nodes, want 6", len(nodes))
	}
	for i, node := range nodes {
		if c.Addrs()[i] != node.Addr() {
			t.Errorf("Addrs()[%d] = %s, want the node's, %s", i, c.Addrs()[i], node.Addr())
		}
	}
	if want := "redis+cluster://" + strings.Join(c.Addrs(), ","); c.URL() != want {
		t.Errorf("URL() = %q, want %q", c.URL(), want)
	}
	wantPrimaries(t, c, nodes[:3]...)
	for i, primary := range nodes[:3] {
		replicas, err := c.ReplicasOf(t.Context(), primary)
		if err != nil || !slices.Equal(replicas, nodes[3+i:4+i]) {
			t.Errorf("primary %d has the replicas %v, %v; want node %d", i, replicas, err, 3+i)
		}
	}
	held := make(map[*redistest.Server]int64)
	for i := range 100 {
		key := strconv.Itoa(i)
		if err := c.Client().Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
		held[primaryOf(t, c, key)]++
	}
	for i, node := range nodes[:3] {
		if n := node.Client().DBSize(t.Context()).Val(); n == 0 || n != held[node] {
			t.Errorf("primary %d holds %d keys, want %d", i, n, held[node])
		}
	}
}

func TestClusterWithoutReplicas(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 1, 0, "--appendonly", "yes", "--appendfsync", "always")
	setInCluster(t, c, "key", "value")
	node := primaryOf(t, c, "key")
	node.Kill()
	if _, err := c.Primary(t.Context(), "key"); err == nil {
		t.Error("Primary names a node, but none is running")
	}
	node.Restart()
	waitOK(t, c)
	wantInCluster(t, c, "key", "value")
}

func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	for _, mode := range []string{"", "FORCE", "TAKEOVER"} {
		setInCluster(t, c, "key", "value of "+mode)
		old := primaryOf(t, c, "key")
		if err := old.Client().Wait(t.Context(), 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		replica := replicaOf(t, c, old)
		for range 2 { // the second call is a no-op
			if err := c.Failover(t.Context(), replica, mode); err != nil {
				t.Fatalf("failover %q: %v", mode, err)
			}
		}
		waitOK(t, c)
		if got := primaryOf(t, c, "key"); got != replica {
			t.Errorf("after failover %q the primary is %s, want the replica, %s", mode, got.Addr(), replica.Addr())
		}
		if got := replicaOf(t, c, replica); got != old {
			t.Errorf("after failover %q its replica is %s, want the old primary, %s", mode, got.Addr(), old.Addr())
		}
		wantInCluster(t, c, "key", "value of "+mode)
	}
}

func TestClusterTakeoverWithoutMajority(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 1)
	primaries := c.Nodes()[:2]
	for _, primary := range primaries {
		primary.Pause()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	replica := c.Nodes()[2]
	if err := c.Failover(ctx, replica, "FORCE"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("FORCE without a majority of primaries: %v, want it to wait until ctx ends", err)
	}
	if err := c.Failover(t.Context(), replica, "TAKEOVER"); err != nil {
		t.Fatal(err)
	}
	wantPrimaries(t, c, replica)
}

func TestClusterReplacesALostPrimary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		lose, regain func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart},
		{"paused", (*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, 3, 1)
			setInCluster(t, c, "key", "value")
			old := primaryOf(t, c, "key")
			if err := old.Client().Wait(t.Context(), 1, 0).Err(); err != nil {
				t.Fatal(err)
			}
			replica := replicaOf(t, c, old)
			test.lose(old)
			waitOK(t, c)
			if got := primaryOf(t, c, "key"); got != replica {
				t.Errorf("the primary is %s, want the replica, %s", got.Addr(), replica.Addr())
			}
			wantInCluster(t, c, "key", "value")
			setInCluster(t, c, "key", "new value")
			test.regain(old)
			waitOK(t, c)
			if got := replicaOf(t, c, replica); got != old {
				t.Errorf("the replica is %s, want the old primary, %s", got.Addr(), old.Addr())
			}
			wantPrimaries(t, c, slices.DeleteFunc(slices.Concat(c.Nodes()[:3], []*redistest.Server{replica}),
				func(s *redistest.Server) bool { return s == old })...)
			wantInCluster(t, c, "key", "new value")
		})
	}
}

func TestClusterWaitOKTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	lost := primaryOf(t, c, "key")
	lost.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.WaitOK(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "last attempt") {
		t.Errorf("WaitOK with half of the slots lost: %v, want the deadline, and why", err)
	}
	if _, err := c.Primary(t.Context(), "key"); err == nil || !strings.Contains(err.Error(), "serves slot") {
		t.Errorf("Primary of a lost slot: %v, want an error", err)
	}
	lost.Restart()
	waitOK(t, c)
}

func TestLongClusterBehindProxies(t *testing.T) {
	t.Parallel()
	proxies := make(map[string]*proxytest.Proxy) // by the proxy's address
	c := redistest.StartClusterVia(t, 3, 1, func(addr string) string {
		proxy := proxytest.Start(t, addr)
		proxies[proxy.Addr()] = proxy
		return proxy.Addr()
	})
	setInCluster(t, c, "key", "value")
	wantProxies := func() {
		t.Helper()
		slots, err := c.Nodes()[0].Client().ClusterShards(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		told := make(map[string]bool)
		for _, shard := range slots {
			for _, node := range shard.Nodes {
				told[fmt.Sprintf("%s:%d", node.IP, node.Port)] = true
			}
		}
		for i, addr := range c.Addrs() {
			if proxies[addr] == nil || !told[addr] || c.Nodes()[i].Addr() == addr {
				t.Errorf("Addrs()[%d] = %s, want one of the proxies that the cluster names to clients: %v", i, addr, told)
			}
		}
		if len(proxies) != 6 || len(told) != 6 {
			t.Errorf("%d proxies, and the cluster names %d nodes to clients; want 6", len(proxies), len(told))
		}
	}
	wantProxies()
	primary := primaryOf(t, c, "key")
	proxy := proxies[c.Addrs()[slices.Index(c.Nodes(), primary)]]
	proxy.Cut()
	if err := c.Client().Set(t.Context(), "key", "lost", 0).Err(); err == nil {
		t.Error("SET through a cut proxy succeeds")
	}
	if err := primary.Client().Get(t.Context(), "key").Err(); err != nil {
		t.Errorf("GET past the cut proxy: %v", err)
	}
	if got := primaryOf(t, c, "key"); got != primary {
		t.Errorf("the primary is %s, want %s, which the other nodes still reach", got.Addr(), primary.Addr())
	}
	proxy.Reset()
	waitOK(t, c)
	if got, err := c.Client().Get(t.Context(), "key").Result(); err != nil || got != "value" {
		t.Errorf("GET through the proxy again = %q, %v; want %q", got, err, "value")
	}
	wantInCluster(t, c, "key", "value")
	primary.Kill()
	waitOK(t, c)
	primary.Restart()
	waitOK(t, c)
	wantProxies()
	wantInCluster(t, c, "key", "value")
}

func waitOK(t *testing.T, c *redistest.Cluster) {
	t.Helper()
	if err := c.WaitOK(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func primaryOf(t *testing.T, c *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	primary, err := c.Primary(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return primary
}

// replicaOf returns the only replica of the primary.
func replicaOf(t *testing.T, c *redistest.Cluster, primary *redistest.Server) *redistest.Server {
	t.Helper()
	replicas, err := c.ReplicasOf(t.Context(), primary)
	if err != nil || len(replicas) != 1 {
		t.Fatalf("%s has the replicas %v, %v; want one", primary.Addr(), replicas, err)
	}
	return replicas[0]
}

// wantPrimaries checks that these are all primaries, in any order.
func wantPrimaries(t *testing.T, c *redistest.Cluster, want ...*redistest.Server) {
	t.Helper()
	got, err := c.Primaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if addrs(got) != addrs(want) {
		t.Errorf("the primaries are %s, want %s", addrs(got), addrs(want))
	}
}

func addrs(servers []*redistest.Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// setInCluster writes through the primary's own client. The cluster's client learns of a new
// primary only after the old one fails.
func setInCluster(t *testing.T, c *redistest.Cluster, key, value string) {
	t.Helper()
	set(t, primaryOf(t, c, key).Client(), key, value)
}

func wantInCluster(t *testing.T, c *redistest.Cluster, key, want string) {
	t.Helper()
	if got, err := primaryOf(t, c, key).Client().Get(t.Context(), key).Result(); err != nil || got != want {
		t.Errorf("GET %s = %q, %v; want %q", key, got, err, want)
	}
}
