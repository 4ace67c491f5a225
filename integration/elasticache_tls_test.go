package integration

import (
	"testing"
	"time"
)

// TestLongSecureCluster runs three services under load on a cluster of six nodes with TLS and a
// password. Replicas are promoted on request, and because a primary dies. No feed may fail, and no
// acknowledged write may be missed.
func TestLongSecureCluster(t *testing.T) {
	w := startWorld(t, secureCluster)
	growth, err := newSampler(t.Context(), w.instances)
	must(t, err)
	s := &scheduler{world: w, done: make(map[string]int), deck: []fault{
		{name: "failover", lasts: [2]time.Duration{time.Second, time.Second}, begin: failover("")},
		// Redis stays down long enough for the replica to take over.
		{name: "redis killed", lasts: [2]time.Duration{4 * time.Second, 4 * time.Second}, begin: killRedis},
	}}
	w.underLoad(func() {
		_ = wait(t.Context(), time.Second)
		for len(s.deck) > 0 {
			if err := s.once(); err != nil {
				t.Error(err)
				return
			}
		}
		_ = wait(t.Context(), time.Second)
	})
	growth.take(t.Context())
	t.Logf("%d feeds, %d writes acknowledged", w.tally.of("feeds"), w.tally.of("acknowledged"))
	if s.done["failover"] == 0 || s.done["redis killed"] == 0 || w.tally.of("feeds") < 500 || w.tally.of("acknowledged") < 500 {
		t.Errorf("faults %v: too few", s.done)
	}
	w.conclude(growth, s.done)
}
