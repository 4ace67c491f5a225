package integration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// redisFaults returns the faults of a single server, or of one node of a cluster.
func redisFaults() []fault {
	short := [2]time.Duration{0, 3 * time.Second}
	return []fault{
		{"redis killed", fleets(), short, killRedis},
		{"redis killed and then postgres", []topology{oneRedis}, [2]time.Duration{3 * time.Second, 4 * time.Second}, killBoth},
		{"redis stopped", fleets(), [2]time.Duration{500 * time.Millisecond, 3 * time.Second}, stopRedis},
		{"redis flushed", fleets(), short, onAll(func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })},
		{"redis set back", fleets(), short, setRedisBack},
		{"scripts flushed", fleets(), short, onAll(func(ctx context.Context, c *redis.Client) error { return c.ScriptFlush(ctx).Err() })},
		{"bits deleted", fleets(), short, deleteKeys("bits")},
		{"regions deleted", fleets(), short, deleteKeys("regions")},
		{"network cut", fleets(), partition(), onProxy((*world).redisProxy, (*proxytest.Proxy).Cut)},
		{"network stalled", fleets(), partition(), onProxy((*world).redisProxy, (*proxytest.Proxy).Stall)},
		{"network slow", fleets(), [2]time.Duration{5 * time.Second, 5 * time.Second}, onProxy((*world).redisProxy, func(p *proxytest.Proxy) {
			p.Delay(200*time.Millisecond, 20*time.Millisecond)
		})},
	}
}

// anyPrimary returns the single server, or a random primary of the cluster.
func (w *world) anyPrimary() (*redistest.Server, error) {
	if w.cluster == nil {
		return w.redis.Server, nil
	}
	primaries, err := w.cluster.Primaries(w.t.Context())
	if err != nil {
		return nil, err
	}
	return primaries[w.rng.IntN(len(primaries))], nil
}

// primaryOf returns the single server, or the primary that holds the key.
func (w *world) primaryOf(key string) (*redistest.Server, error) {
	if w.cluster == nil {
		return w.redis.Server, nil
	}
	return w.cluster.Primary(w.t.Context(), key)
}

// whole waits until the cluster is healthy. Slots that nobody serves after half of the time are
// given to a node. It returns at once if there is no cluster.
func (w *world) whole() error {
	if w.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), repairLimit)
	defer cancel()
	patient, cancel := context.WithTimeout(ctx, repairLimit/2)
	defer cancel()
	if w.cluster.WaitOK(patient) == nil {
		return nil
	}
	if err := w.cluster.AdoptSlots(ctx); err != nil {
		return err
	}
	return w.cluster.WaitOK(ctx)
}

// killRedis kills a primary. In a cluster its replica may take over.
func killRedis(w *world) (func() error, error) {
	s, err := w.anyPrimary()
	if err != nil {
		return nil, err
	}
	s.Kill()
	return func() error {
		s.Restart()
		return w.whole()
	}, nil
}

// killBoth kills Redis, and then the ledger. Instances can answer only from what they know, for as
// long as the staleness bound allows.
func killBoth(w *world) (func() error, error) {
	w.redis.Kill()
	// The delay is random, because all writers now wait for the staleness bound at the same pace.
	if err := wait(w.t.Context(), time.Second+time.Duration(w.rng.Int64N(int64(2*time.Second)))); err != nil {
		return nil, err
	}
	w.postgres.Kill()
	return func() error {
		w.postgres.Restart()
		w.redis.Restart()
		return nil
	}, nil
}

// stopRedis stops a primary, which keeps its role and all that it took.
func stopRedis(w *world) (func() error, error) {
	s, err := w.anyPrimary()
	if err != nil {
		return nil, err
	}
	if err := w.forbidFailovers("yes"); err != nil {
		return nil, err
	}
	s.Pause()
	return func() error {
		s.Resume()
		return errors.Join(w.whole(), w.forbidFailovers("no"))
	}, nil
}

// forbidFailovers has no replica of the cluster take over by itself while yesNo is "yes".
func (w *world) forbidFailovers(yesNo string) error {
	if w.cluster == nil {
		return nil
	}
	for _, s := range w.cluster.Nodes() {
		if err := s.Client().ConfigSet(w.t.Context(), "cluster-replica-no-failover", yesNo).Err(); err != nil {
			return err
		}
	}
	return nil
}

// onAll calls do for every primary.
func onAll(do func(ctx context.Context, c *redis.Client) error) func(*world) (func() error, error) {
	return func(w *world) (func() error, error) {
		if w.cluster == nil {
			return nil, do(w.t.Context(), w.redis.Client())
		}
		primaries, err := w.cluster.Primaries(w.t.Context())
		if err != nil {
			return nil, err
		}
		for _, s := range primaries {
			if err := do(w.t.Context(), s.Client()); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// deleteKeys deletes one of the two strings of some pages.
func deleteKeys(part string) func(*world) (func() error, error) {
	return func(w *world) (func() error, error) {
		for range 8 {
			keys := w.pageKeys(part)
			server, err := w.primaryOf(keys[0])
			if err != nil {
				return nil, err
			}
			if err := server.Client().Del(w.t.Context(), keys...).Err(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// pageKeys returns the names of one of the two strings of a user's page in all layouts so far. All
// names are in the same slot.
func (w *world) pageKeys(part string) []string {
	slot := w.rng.IntN(chaosPages)
	keys := []string{fmt.Sprintf("fav:{feed/%d}:%s", slot, part)}
	n := slot
	for pages := 2 * chaosPages; pages <= w.pages; pages *= 2 {
		n = 2*n + w.rng.IntN(2)
		keys = append(keys, fmt.Sprintf("fav:{feed/%d}:p%d:%s", slot, pages+n, part))
	}
	return keys
}

// partition returns how long the network is disturbed.
func partition() [2]time.Duration { return [2]time.Duration{time.Second, 5 * time.Second} }

// redisProxy returns the victim's proxy if there is one Redis, that of any node in a cluster.
func (w *world) redisProxy() *proxytest.Proxy {
	if w.ownProxies() {
		return w.proxies[w.victim]
	}
	return w.proxies[w.rng.IntN(len(w.proxies))]
}

// onProxy disturbs the network until the fault ends.
func onProxy(pick func(w *world) *proxytest.Proxy, do func(p *proxytest.Proxy)) func(*world) (func() error, error) {
	return func(w *world) (func() error, error) {
		p := pick(w)
		do(p)
		return func() error {
			p.Reset()
			return w.whole()
		}, nil
	}
}

const (
	snapshotEvery = 5 * time.Second
	oldestUsed    = 2 * time.Minute
)

// takeSnapshot saves the data of a primary for setRedisBack, at most every five seconds.
func (w *world) takeSnapshot() {
	n := len(w.snapshots)
	if w.topology == embedded || n > 0 && time.Since(w.snapshots[n-1].taken) < snapshotEvery {
		return
	}
	s, err := w.anyPrimary()
	if err != nil {
		w.t.Logf("no snapshot: %v", err)
		return
	}
	w.snapshots = append(w.snapshots, redisSnapshot{server: s, taken: time.Now(), path: s.Snapshot()})
	for time.Since(w.snapshots[0].taken) > oldestUsed {
		w.snapshots = w.snapshots[1:]
	}
}

// setRedisBack restarts a server from a random snapshot that is up to two minutes old.
func setRedisBack(w *world) (func() error, error) {
	if len(w.snapshots) == 0 {
		return nil, fmt.Errorf("there is no snapshot yet: %w", errNotNow)
	}
	s := w.snapshots[w.rng.IntN(len(w.snapshots))]
	s.server.RestartFrom(s.path)
	w.t.Logf("%s is set back by %v", s.server.Addr(), time.Since(s.taken).Round(time.Millisecond))
	return w.whole, nil
}
