package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// clusterRig is a stateRig on a cluster of three primaries without replicas.
type clusterRig struct {
	*stateRig

	cluster *redistest.Cluster
	pages   map[string]uint32 // by viewer
}

func openClusterStates(t *testing.T) *clusterRig {
	t.Helper()
	c := redistest.StartCluster(t, 3, 0)
	g := &clusterRig{openStates(t, c.URL(), nil), c, make(map[string]uint32)}
	for n := range stateViewers {
		viewer := strconv.Itoa(n)
		v, err := g.recorder.View(t.Context(), viewer, g.recorder.Kinds().All())
		must(t, err)
		g.pages[viewer] = v.Page().Number
	}
	return g
}

// pageKey returns the key of the string that a feed reads of a page.
func pageKey(page uint32) string { return fmt.Sprintf("fav:{feed/%d}:bits", page) }

func (g *clusterRig) owner(t *testing.T, page uint32) *redistest.Server {
	t.Helper()
	s, err := g.cluster.Primary(t.Context(), pageKey(page))
	must(t, err)
	return s
}

func (g *clusterRig) id(t *testing.T, s *redistest.Server) string {
	t.Helper()
	id, err := s.Client().ClusterMyID(t.Context()).Result()
	must(t, err)
	return id
}

// others returns all nodes except s.
func (g *clusterRig) others(s *redistest.Server) []*redistest.Server {
	return slices.DeleteFunc(g.cluster.Nodes(), func(o *redistest.Server) bool { return o == s })
}

func (g *clusterRig) try(t *testing.T, degraded func(viewer string) bool, end func()) {
	t.Helper()
	g.during(t, degraded)
	g.writes(t)
	end()
	g.after(t)
}

// TestLongClusterStates is TestLongRedisStates for errors that only a cluster returns. A fault of
// some slots degrades only the feeds of their users.
func TestLongClusterStates(t *testing.T) {
	t.Parallel()
	g := openClusterStates(t)
	g.after(t)
	page := g.pages["0"]
	owner := g.owner(t, page)
	slot, err := g.cluster.Client().ClusterKeySlot(t.Context(), pageKey(page)).Result()
	must(t, err)
	onPage := func(viewer string) bool { return g.pages[viewer] == page }
	t.Run("slot not served", func(t *testing.T) {
		for _, node := range g.cluster.Nodes() {
			command(t, node, "CLUSTER", "DELSLOTS", slot)
		}
		g.try(t, onPage, func() { command(t, owner, "CLUSTER", "ADDSLOTS", slot) })
	})
	t.Run("slot between nodes", func(t *testing.T) {
		target := g.others(owner)[0]
		command(t, target, "CLUSTER", "SETSLOT", slot, "IMPORTING", g.id(t, owner))
		command(t, owner, "CLUSTER", "SETSLOT", slot, "MIGRATING", g.id(t, target))
		g.try(t, onPage, func() {
			command(t, owner, "CLUSTER", "SETSLOT", slot, "STABLE")
			command(t, target, "CLUSTER", "SETSLOT", slot, "STABLE")
		})
	})
	t.Run("redirected in a circle", func(t *testing.T) {
		target := g.others(owner)[0]
		eventuallyIn(t, "the slot is given away", func() error {
			pipe := owner.Client().Pipeline() // the store creates pages again
			pipe.Del(t.Context(), pageKey(page), fmt.Sprintf("fav:{feed/%d}:regions", page))
			pipe.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", g.id(t, target))
			_, err := pipe.Exec(t.Context())
			return err
		})
		command(t, target, "CLUSTER", "SETSLOT", slot, "NODE", g.id(t, owner))
		g.try(t, onPage, func() { command(t, owner, "CLUSTER", "SETSLOT", slot, "NODE", g.id(t, owner)) })
	})
	t.Run("shard gone", func(t *testing.T) {
		lost := make(map[uint32]bool)
		for _, page := range g.pages {
			lost[page] = g.owner(t, page) == owner
		}
		owner.Kill()
		g.try(t, func(viewer string) bool { return lost[g.pages[viewer]] }, owner.Restart)
	})
	t.Run("cluster down", func(t *testing.T) {
		for _, node := range g.cluster.Nodes() {
			command(t, node, "CONFIG", "SET", "cluster-require-full-coverage", "yes")
		}
		owner.Kill()
		awaitReply(t, g.others(owner)[0], "CLUSTERDOWN")
		g.try(t, func(string) bool { return true }, owner.Restart)
	})
	g.log.await(t, "CLUSTERDOWN")
	g.log.wantFew(t)
}

// TestLongReplicaStates has a replica refuse reads. Feeds then come from the primary without
// waiting for the replica, and later from the replica again.
func TestLongReplicaStates(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	client := redis.NewClient(&redis.Options{Addr: replica.Addr(), ContextTimeoutEnabled: true, MaxRetries: 2, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	g := openStates(t, primary.URL(), client)
	follow := func() {
		command(t, replica, "CONFIG", "SET", "replica-serve-stale-data", "no")
		command(t, replica, "REPLICAOF", host, port)
	}
	copied := func() {
		eventuallyIn(t, "feeds from the replica", func() error {
			before := g.recorder.Stats()
			for n := range stateViewers {
				g.feed(t, strconv.Itoa(n))
			}
			if now := g.recorder.Stats(); now.FromReplica-before.FromReplica < stateViewers {
				return fmt.Errorf("%d of %d feeds", now.FromReplica-before.FromReplica, stateViewers)
			}
			return nil
		})
	}
	follow()
	copied()
	command(t, replica, "REPLICAOF", "127.0.0.1", "1")
	awaitReply(t, replica, "MASTERDOWN")
	before := g.recorder.Stats()
	g.during(t, func(string) bool { return false })
	if now := g.recorder.Stats(); now.FromLedger != before.FromLedger || now.FromStore == before.FromStore {
		t.Errorf("%d feeds from the ledger, %d from the primary", now.FromLedger-before.FromLedger, now.FromStore-before.FromStore)
	}
	follow()
	copied()
	g.log.await(t, "a replica cannot be read")
	g.log.wantFew(t)
}
