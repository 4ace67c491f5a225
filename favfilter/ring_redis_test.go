package favfilter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// TestRingExpiresInRedis checks that the server drops a part by itself, a window after the end of
// the part.
func TestRingExpiresInRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	store, err := redisstore.New(client, "ring")
	if err != nil {
		t.Fatal(err)
	}
	ring := newRing(t, store, favfilter.RingConfig{Length: 6 * time.Hour})
	id := favfilter.PageID{Part: "seen-1"}
	rng := rand.New(rand.NewPCG(8, 1))
	now := time.Date(2026, 1, 1, 5, 30, 0, 0, time.UTC)
	for range 3 { // also when it is written again
		if _, err := ring.Add(t.Context(), id, now, []favfilter.Hash{randomHash(rng)}, nil); err != nil {
			t.Fatal(err)
		}
		keys, err := client.Keys(t.Context(), "*").Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("keys %v, %v", keys, err)
		}
		_, before := ring.Span(0, now)
		want := before.Add(6 * time.Hour).Sub(now)
		if ttl, err := client.PTTL(t.Context(), keys[0]).Result(); err != nil || ttl > want || ttl < want-time.Minute {
			t.Errorf("at %v %s lives for %v, %v, want %v", now, keys[0], ttl, err, want)
		}
		now = now.Add(10 * time.Minute)
	}
	// What is short-lived enough to be waited for is gone when it should be.
	short := newRing(t, store, favfilter.RingConfig{Length: time.Second, Parts: 4})
	id.Part = "short"
	if _, err := short.Add(t.Context(), id, time.Now(), []favfilter.Hash{randomHash(rng)}, nil); err != nil {
		t.Fatal(err)
	}
	err = servertest.Await(t.Context(), "the part is gone", func(ctx context.Context) error {
		keys, err := client.Keys(ctx, "*short*").Result()
		if err == nil && len(keys) > 0 {
			err = fmt.Errorf("%v are there", keys)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
