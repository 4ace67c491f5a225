package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestStore(t *testing.T) {
	runSuite(t, redistest.Start(t).Client(), false)
}

func TestStoreInCluster(t *testing.T) {
	t.Parallel()
	runSuite(t, redistest.StartCluster(t, 3, 1).Client(), false)
}

func TestStoreBehindSentinel(t *testing.T) {
	t.Parallel()
	runSuite(t, dialSentinel(t, redistest.StartSentinel(t, 1, 1)), false)
}

// The network is slow, and answers arrive in another order than the calls.
func TestStoreFarAway(t *testing.T) {
	t.Parallel()
	proxy := proxytest.Start(t, redistest.Start(t).Addr())
	proxy.Delay(2*time.Millisecond, time.Millisecond)
	client := dial(t, proxy.Addr())
	redisstore.Guard(client, nil)
	runSuite(t, client, true)
}

func runSuite(t *testing.T, client redis.UniversalClient, slow bool) {
	t.Helper()
	var opened atomic.Int64
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		name := fmt.Sprintf("test-%d", opened.Add(1))
		s, err := redisstore.New(client, name)
		must(t, err)
		other, err := redisstore.New(client, name)
		must(t, err)
		b := backend(client, s, name)
		b.Other, b.Slow = other, slow
		return b
	})
}

func backend(client redis.UniversalClient, s favfilter.Store, name string) storetest.Backend {
	key := func(id favfilter.PageID, which string) string {
		part := ""
		if id.Part != "" {
			part = id.Part + ":"
		}
		return fmt.Sprintf("fav:{%s/%d}:%s%s", name, id.Number, part, which)
	}
	get := func(t testing.TB, key string) []byte {
		b, err := client.Get(t.Context(), key).Bytes()
		if err == redis.Nil { //nolint:errorlint // the client returns it bare
			return nil
		}
		must(t, err)
		return b
	}
	return storetest.Backend{
		Store: s,
		Strings: func(t testing.TB, id favfilter.PageID) ([]byte, []byte) {
			return get(t, key(id, "bits")), get(t, key(id, "regions"))
		},
		Overwrite: func(t testing.TB, id favfilter.PageID, which string, value []byte) {
			if value == nil {
				must(t, client.Del(t.Context(), key(id, which)).Err())
				return
			}
			must(t, client.Set(t.Context(), key(id, which), value, 0).Err())
		},
		// Redis has no clock to set, so Advance ends the time to live of keys at once.
		Advance: func(t testing.TB) {
			ctx := t.Context()
			for _, k := range keysLike(t, client, "fav:{"+name+"/*") {
				ttl, err := client.PTTL(ctx, k).Result()
				must(t, err)
				if ttl > storetest.Expire {
					t.Fatalf("%s has a time to live of %v, more than it was given", k, ttl)
				}
				if ttl > 0 {
					client.PExpireAt(ctx, k, time.Unix(1, 0))
				}
			}
		},
	}
}

// keysLike returns the keys that match pattern, of all nodes.
func keysLike(t testing.TB, client redis.UniversalClient, pattern string) []string {
	t.Helper()
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		keys, err := client.Keys(t.Context(), pattern).Result()
		must(t, err)
		return keys
	}
	var mu sync.Mutex
	var all []string
	err := cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return err
	})
	must(t, err)
	return all
}
