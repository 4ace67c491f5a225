package redisstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestStore(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	var opened atomic.Int64
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		name := fmt.Sprintf("test-%d", opened.Add(1))
		s, err := redisstore.New(client, name)
		if err != nil {
			t.Fatal(err)
		}
		other, err := redisstore.New(client, name)
		if err != nil {
			t.Fatal(err)
		}
		b := backend(client, s, name)
		b.Other = other
		return b
	})
}

func backend(client *redis.Client, s favfilter.Store, name string) storetest.Backend {
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
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return storetest.Backend{
		Store: s,
		Strings: func(t testing.TB, id favfilter.PageID) ([]byte, []byte) {
			return get(t, key(id, "bits")), get(t, key(id, "regions"))
		},
		Overwrite: func(t testing.TB, id favfilter.PageID, which string, value []byte) {
			if value == nil {
				must(t, client.Del(t.Context(), key(id, which)))
				return
			}
			must(t, client.Set(t.Context(), key(id, which), value, 0))
		},
		// Redis has no clock to set: what has a time to live is made to end it now.
		Advance: func(t testing.TB) {
			ctx := t.Context()
			keys, err := client.Keys(ctx, "fav:{"+name+"/*").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				ttl, err := client.PTTL(ctx, k).Result()
				if err != nil {
					t.Fatal(err)
				}
				if ttl > storetest.Expire {
					t.Fatalf("%s lives %v, more than it was given", k, ttl)
				}
				if ttl > 0 {
					client.PExpireAt(ctx, k, time.Unix(1, 0))
				}
			}
		},
	}
}
