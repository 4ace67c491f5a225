package integration

import (
	"testing"
	"time"
)

// TestLongRedisDown stops Redis under load. Every feed must be answered with 200, from the ledger.
// Writes must be acknowledged and honoured while Redis is down, and after it is back without its
// data.
func TestLongRedisDown(t *testing.T) {
	before, after := 3*time.Second, 10*time.Second
	if testing.Short() {
		before, after = time.Second, 3*time.Second
	}
	w := startWorld(t, oneRedis)
	growth, err := newSampler(t.Context(), w.instances)
	must(t, err)
	acknowledged := 0
	w.underLoad(func() {
		_ = wait(t.Context(), before)
		w.tally.begin("redis killed", 0)
		w.redis.Kill()
		w.tally.begun()
		acknowledged = w.tally.of("acknowledged")
		_ = wait(t.Context(), *redisDownFor)
		acknowledged = w.tally.of("acknowledged") - acknowledged
		w.redis.Restart()
		w.tally.healed()
		w.tally.repaired()
		_ = wait(t.Context(), after)
	})
	if acknowledged == 0 {
		t.Error("no write was acknowledged while Redis was down")
	}
	w.conclude(growth, map[string]int{"redis down": 1})
}
