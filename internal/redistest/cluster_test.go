package redistest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

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
		must(t, old.Replicated(t.Context(), 1))
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
	must(t, c.Failover(t.Context(), replica, "TAKEOVER"))
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
			must(t, old.Replicated(t.Context(), 1))
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

func waitOK(t *testing.T, c *redistest.Cluster) {
	t.Helper()
	must(t, c.WaitOK(t.Context()))
}

func primaryOf(t *testing.T, c *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	primary, err := c.Primary(t.Context(), key)
	must(t, err)
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
	must(t, err)
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
