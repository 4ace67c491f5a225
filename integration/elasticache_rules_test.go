package integration

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
	"github.com/feedfilter/feedfilter/internal/elasticachetest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestLongElastiCache tests the service's contract and the store behind the rules of both kinds of
// caches. With -elasticache, all tests of this package run behind the rules of one kind.
func TestLongElastiCache(t *testing.T) {
	t.Parallel()
	for _, kind := range []elasticachetest.Kind{elasticachetest.NodeBased, elasticachetest.Serverless} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Run("contract", func(t *testing.T) {
				c := deployment{redis: startCache(t, kind, direct), postgres: pgtest.Start(t)}.serve(t)
				c.calls(t)
				c.outage(t)
			})
			t.Run("store", func(t *testing.T) { holdStore(t, startCache(t, kind, direct)) })
			if kind == elasticachetest.Serverless { // a node-based cache is a server like TestTrace's
				t.Run("trace", func(t *testing.T) { loadTrace(t).onRedis(t, startCache(t, kind, direct), 100) })
			}
		})
	}
}

// dial returns a client of the cache that is configured like the service's.
func (c *cache) dial(t testing.TB) redis.UniversalClient {
	t.Helper()
	noNotifications := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	var client redis.UniversalClient
	if c.kind == elasticachetest.Serverless {
		secure, err := authority.ClientConfig()
		must(t, err)
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{c.addr}, TLSConfig: secure, ContextTimeoutEnabled: true, MaintNotificationsConfig: noNotifications,
		})
	} else {
		client = redis.NewClient(&redis.Options{Addr: c.addr, ContextTimeoutEnabled: true, MaintNotificationsConfig: noNotifications})
	}
	t.Cleanup(func() { _ = client.Close() })
	redisstore.Guard(client, nil)
	return client
}

// holdStore runs the tests that every store must pass.
func holdStore(t *testing.T, c *cache) {
	t.Helper()
	client := c.dial(t)
	var opened atomic.Int64
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		t.Helper()
		name := fmt.Sprintf("store-%d", opened.Add(1))
		one, err := redisstore.New(client, name)
		must(t, err)
		other, err := redisstore.New(client, name)
		must(t, err)
		behind := &pagesOf{client: c.Client(), prefix: "fav:{" + name + "/"}
		return storetest.Backend{Store: one, Other: other, Strings: behind.strings, Overwrite: behind.overwrite, Advance: behind.advance}
	})
}

// pagesOf gives the store's tests direct access to the strings of pages, without the store and the
// rules.
type pagesOf struct {
	client *redis.Client
	prefix string
}

func (p *pagesOf) key(id favfilter.PageID, which string) string {
	key := fmt.Sprintf("%s%d}:", p.prefix, id.Number)
	if id.Part != "" {
		key += id.Part + ":"
	}
	return key + which
}

func (p *pagesOf) strings(t testing.TB, id favfilter.PageID) (bits, regions []byte) {
	t.Helper()
	read := func(which string) []byte {
		b, err := p.client.Get(t.Context(), p.key(id, which)).Bytes()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		return b
	}
	return read("bits"), read("regions")
}

func (p *pagesOf) overwrite(t testing.TB, id favfilter.PageID, which string, value []byte) {
	t.Helper()
	err := p.client.Set(t.Context(), p.key(id, which), value, 0).Err()
	if value == nil {
		err = p.client.Del(t.Context(), p.key(id, which)).Err()
	}
	must(t, err)
}

// advance expires all keys that have a time to live.
func (p *pagesOf) advance(t testing.TB) {
	t.Helper()
	for key, lives := range p.lives(t.Context(), t) {
		if lives > storetest.Expire {
			t.Fatalf("%s lives %v, longer than the store's time to live", key, lives)
		}
		if lives > 0 {
			p.client.PExpireAt(t.Context(), key, time.Unix(1, 0))
		}
	}
}

// lives returns the time to live of each key, negative for keys without one.
func (p *pagesOf) lives(ctx context.Context, t testing.TB) map[string]time.Duration {
	t.Helper()
	lives := make(map[string]time.Duration)
	keys := p.client.Scan(ctx, 0, p.prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		ttl, err := p.client.PTTL(ctx, keys.Val()).Result()
		must(t, err)
		lives[keys.Val()] = ttl
	}
	must(t, keys.Err())
	return lives
}
