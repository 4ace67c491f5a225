package integration

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

//nolint:gochecknoglobals // flags of the test binary
var (
	chaosDuration = flag.Duration("chaos.duration", 25*time.Second, "how long each chaos test puts load on the service; half of it under -short")
	chaosFeeds    = flag.Int("chaos.feeds", 1000, "how many feeds a second each chaos test asks for; 0: as many as there is processor time for")
	chaosSeed     = flag.Uint64("chaos.seed", 0, "seed of what the chaos tests choose; 0: a random one, which they print")
	chaosFaults   = flag.String("chaos.faults", "", "only faults with this in their names; all without it")
	redisDownFor  = flag.Duration("chaos.redisdown", 5*time.Second, "how long Redis is down in TestLongRedisDown")
)

// TestLongChaosEmbedded kills and stops the embedded service under load.
func TestLongChaosEmbedded(t *testing.T) { chaos(t, embedded) }

// TestLongChaosRedis causes all faults of three instances, a Redis and a Postgres.
func TestLongChaosRedis(t *testing.T) { chaos(t, oneRedis) }

// TestLongChaosCluster causes all faults of three instances, a cluster and a Postgres.
func TestLongChaosCluster(t *testing.T) { chaos(t, redisCluster) }

// chaosTime is how long a chaos test puts load on the service.
func chaosTime() time.Duration {
	if testing.Short() {
		return *chaosDuration / 2
	}
	return *chaosDuration
}

// longRun is the shortest duration of a long run. A long run causes faults less often, so that some
// time passes without a fault.
const longRun = 5 * time.Minute

func chaos(t *testing.T, on topology) {
	t.Helper()
	w := startWorld(t, on)
	growth, err := newSampler(t.Context(), w.instances)
	must(t, err)
	s := &scheduler{world: w, every: [2]time.Duration{2 * time.Second, 5 * time.Second}}
	if *chaosDuration >= longRun {
		s.every = [2]time.Duration{5 * time.Second, 20 * time.Second}
	}
	if len(faults(on)) == 0 {
		t.Skipf("no fault has %q in its name here", *chaosFaults)
	}
	w.underLoad(func() {
		sampling, stop := context.WithCancel(t.Context())
		var sampled sync.WaitGroup
		sampled.Go(func() { growth.run(sampling) })
		s.run(time.Now().Add(chaosTime()))
		stop()
		sampled.Wait()
	})
	w.conclude(growth, s.done)
}

// startWorld starts a world with the seed of -chaos.seed.
func startWorld(t *testing.T, on topology) *world {
	t.Helper()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: again with -chaos.seed=%d", seed, seed)
	return newWorld(t, on, seed)
}

// conclude checks everything at rest, and reports the result of the run.
func (w *world) conclude(growth *sampler, faults map[string]int) {
	w.t.Helper()
	ctx := w.t.Context()
	growth.take(ctx)
	w.load.checkAtRest(ctx)
	w.load.checkRates()
	if w.schema != "" {
		must(w.t, w.load.excuses.look(ctx, w.schema))
	}
	w.load.checkExcuses()
	for _, wrong := range growth.check(ctx) {
		w.tally.violatedf("growth", "%s", wrong)
	}
	for _, i := range w.instances {
		if races := i.races.last(1000); races != "" {
			w.tally.violatedf("race", "in instance %d:\n%s", i.index, races)
		}
	}
	w.report(growth, faults)
	w.verdict()
}
