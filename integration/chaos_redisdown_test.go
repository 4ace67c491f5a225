package integration

import (
	"strings"
	"testing"
	"time"
)

// TestLongRedisDown stops Redis under load. Every feed must be answered with 200, from the ledger.
// Writes must be acknowledged and honoured while Redis is down, and after it is back without its
// data.
func TestLongRedisDown(t *testing.T) {
	const before, after = 3 * time.Second, 10 * time.Second
	w := startWorld(t, oneRedis)
	growth, err := newSampler(t.Context(), w.instances)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	var rebuilt float64
	w.underLoad(func() {
		w.phase("before", before)
		w.tally.begin("redis killed", 0)
		w.redis.Kill()
		acknowledged = w.tally.of("acknowledged")
		w.phase("down", *redisDownFor)
		acknowledged = w.tally.of("acknowledged") - acknowledged
		growth.take(t.Context())
		rebuilt = growth.rebuilds()
		w.redis.Restart()
		w.tally.healed()
		w.tally.repaired()
		w.phase("after", after)
	})
	growth.take(t.Context())
	for _, phase := range []string{"before", "down", "after"} {
		t.Logf("%-6s: feeds p50 %v p99 %v max %v, writes p50 %v p99 %v max %v", phase,
			w.tally.quantile("feeds "+phase, 0.50), w.tally.quantile("feeds "+phase, 0.99), w.tally.quantile("feeds "+phase, 1),
			w.tally.quantile("writes "+phase, 0.50), w.tally.quantile("writes "+phase, 0.99), w.tally.quantile("writes "+phase, 1))
	}
	t.Logf("down for %v: %d writes acknowledged; %.0f pages rebuilt in the %v after", *redisDownFor, acknowledged, growth.rebuilds()-rebuilt, after)
	if acknowledged == 0 {
		t.Error("no write was acknowledged while Redis was down")
	}
	w.conclude(growth, map[string]int{"redis down": 1})
}

func (w *world) phase(name string, d time.Duration) {
	w.tally.setPhase(name)
	_ = wait(w.t.Context(), d)
}

// rebuilds returns how many pages were rebuilt so far.
func (s *sampler) rebuilds() float64 {
	sum := 0.0
	for name, v := range s.totals() {
		if strings.HasPrefix(name, "recorder.rebuilds.") {
			sum += v
		}
	}
	return sum
}
