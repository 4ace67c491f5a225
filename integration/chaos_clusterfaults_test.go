package integration

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

func clusterFaults() []fault {
	only, short := []topology{redisCluster}, [2]time.Duration{0, 2 * time.Second}
	return []fault{
		{"failover", only, short, failover("")},
		{"takeover", only, short, failover("TAKEOVER")},
		{"replica promoted that missed writes", only, short, promoteBehind},
		{"slots moved", only, short, moveSlots},
		{"redis stopped and replaced", only, short, stopUntilReplaced},
		{"shard gone", only, goneFor(), shardGone},
		{"redis refuses one", only, partition(), refuseOne},
	}
}

// goneFor returns how long a shard is gone: a minute in a long run, else two to four seconds.
func goneFor() [2]time.Duration {
	if *chaosDuration >= longRun {
		return [2]time.Duration{time.Minute, time.Minute}
	}
	return [2]time.Duration{2 * time.Second, 4 * time.Second}
}

// shardGone kills a primary and its replica, so that no server has its pages.
func shardGone(w *world) (func() error, error) {
	primary, replica, err := w.anyReplica()
	if err != nil {
		return nil, err
	}
	replica.Kill()
	primary.Kill()
	return func() error {
		primary.Restart()
		replica.Restart()
		return w.whole()
	}, nil
}

// userOf returns the name with which an instance signs in to the cluster.
func userOf(instance int) string { return fmt.Sprint("instance", instance) }

// userArgs returns arguments of the cluster's nodes that define the users of all instances.
func userArgs() (args []string) {
	for n := range fleetSize {
		args = append(args, "--user", userOf(n), "on", "nopass", "~*", "&*", "+@all")
	}
	return args
}

// refuseOne cuts one instance off from all nodes of the cluster. Proxies cannot do that, because
// the cluster names the same addresses to all clients.
func refuseOne(w *world) (func() error, error) {
	if asFlagged(w.t) != plainRedis {
		return nil, fmt.Errorf("%w: a cache has its own users", errNotNow)
	}
	user := userOf(w.victim)
	each := func(commands ...[]any) (err error) {
		for _, node := range w.cluster.Nodes() {
			for _, command := range commands {
				err = errors.Join(err, node.Client().Do(w.t.Context(), command...).Err())
			}
		}
		return err
	}
	return func() error { return each([]any{"ACL", "SETUSER", user, "on"}) },
		each([]any{"ACL", "SETUSER", user, "off"}, []any{"CLIENT", "KILL", "USER", user})
}

// anyReplica returns a random primary and its first replica.
func (w *world) anyReplica() (primary, replica *redistest.Server, err error) {
	primary, err = w.anyPrimary()
	if err != nil {
		return nil, nil, err
	}
	replicas, err := w.cluster.ReplicasOf(w.t.Context(), primary)
	if err != nil {
		return nil, nil, err
	}
	if len(replicas) == 0 {
		return nil, nil, fmt.Errorf("%s has no replica: %w", primary.Addr(), errNotNow)
	}
	return primary, replicas[0], nil
}

// failover promotes a replica while its primary runs.
func failover(mode string) func(*world) (func() error, error) {
	return func(w *world) (func() error, error) {
		_, replica, err := w.anyReplica()
		if err != nil {
			return nil, err
		}
		if err := w.cluster.Failover(w.t.Context(), replica, mode); err != nil {
			return nil, err
		}
		return w.whole, nil
	}
}

// stopUntilReplaced stops a primary until its replica has taken over. It continues as an old
// primary, which answers until it learns that it was replaced.
func stopUntilReplaced(w *world) (func() error, error) {
	primary, replica, err := w.anyReplica()
	if err != nil {
		return nil, err
	}
	primary.Pause()
	if err := w.cluster.Failover(w.t.Context(), replica, "TAKEOVER"); err != nil {
		return nil, err
	}
	return func() error {
		primary.Resume()
		return w.whole()
	}, nil
}

// promoteBehind promotes a replica that lacks the last second of its primary's acknowledged writes.
// It stops the replica, closes its connection so that no data waits there, and then kills the
// primary.
func promoteBehind(w *world) (func() error, error) {
	primary, replica, err := w.anyReplica()
	if err != nil {
		return nil, err
	}
	replica.Pause()
	if err := primary.Client().ClientKillByFilter(w.t.Context(), "TYPE", "replica").Err(); err != nil {
		return nil, err
	}
	before := w.tally.of("acknowledged")
	if err := wait(w.t.Context(), time.Second); err != nil {
		return nil, err
	}
	primary.Kill()
	missed := w.tally.of("acknowledged") - before
	replica.Resume()
	if err := w.cluster.Failover(w.t.Context(), replica, "TAKEOVER"); err != nil {
		return nil, err
	}
	w.t.Logf("%s was promoted without some of %d acknowledged writes", replica.Addr(), missed)
	return func() error {
		primary.Restart()
		return w.whole()
	}, nil
}

// moveSlots moves the slots of some pages from one primary to another while the load is on.
func moveSlots(w *world) (func() error, error) {
	primaries, err := w.cluster.Primaries(w.t.Context())
	if err != nil {
		return nil, err
	}
	from, err := w.cluster.Primary(w.t.Context(), fmt.Sprintf("{feed/%d}", w.rng.IntN(chaosPages)))
	if err != nil {
		return nil, err
	}
	primaries = slices.DeleteFunc(primaries, func(s *redistest.Server) bool { return s == from })
	to := primaries[w.rng.IntN(len(primaries))]
	var slots []int
	for page := range chaosPages {
		key := fmt.Sprintf("{feed/%d}", page)
		owner, err := w.cluster.Primary(w.t.Context(), key)
		if err != nil {
			return nil, err
		}
		slot, err := from.Client().ClusterKeySlot(w.t.Context(), key).Result()
		if err != nil {
			return nil, err
		}
		if owner == from && !slices.Contains(slots, int(slot)) && len(slots) < 6 {
			slots = append(slots, int(slot))
		}
	}
	if err := w.cluster.MoveSlots(w.t.Context(), from, to, slots); err != nil {
		return nil, err
	}
	w.t.Logf("slots %v moved from %s to %s", slots, from.Addr(), to.Addr())
	return w.whole, nil
}
