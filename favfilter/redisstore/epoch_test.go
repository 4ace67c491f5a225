package redisstore_test

import (
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestEpochOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 1)
	s := openStore(t, dialCluster(t, cluster.Addrs()), "epoch")
	epochs := []string{epoch(t, s)}
	for i, change := range []func() error{
		func() error { return cluster.MoveSlots(t.Context(), cluster.Nodes()[0], cluster.Nodes()[1], []int{7}) },
		func() error { return cluster.Failover(t.Context(), cluster.Nodes()[2], "") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.WaitOK(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := epoch(t, s)
		if slices.Contains(epochs, now) {
			t.Errorf("after change %d the epoch is still %q", i, now)
		}
		if again := epoch(t, s); again != now {
			t.Errorf("at rest the epoch went from\n%q to\n%q", now, again)
		}
		epochs = append(epochs, now)
	}
}

func TestEpochOfAServer(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := openStore(t, server.Client(), "epoch")
	before := epoch(t, s)
	server.Kill()
	server.Restart()
	after := epoch(t, s)
	if before == after {
		t.Errorf("the server was restarted and the epoch is still %q", after)
	}
	if epoch(t, s) != after {
		t.Error("the epoch changes by itself")
	}
	// A server that refuses INFO has no epoch.
	must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-info"))
	if got, err := s.Epoch(t.Context()); err == nil {
		t.Errorf("without INFO the epoch is %q", got)
	}
}

func epoch(t *testing.T, s *redisstore.Store) string {
	t.Helper()
	e, err := s.Epoch(t.Context())
	if err != nil || e == "" {
		t.Fatalf("epoch %q, %v", e, err)
	}
	return e
}
