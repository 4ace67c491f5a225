package redisstore_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// dialSentinel returns a separate guarded client.
func dialSentinel(t testing.TB, s *redistest.Sentinel) *redis.Client {
	t.Helper()
	u, err := url.Parse(s.URL())
	must(t, err)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            strings.TrimPrefix(u.Path, "/"),
		SentinelAddrs:         strings.Split(u.Host, ","),
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
		DialerRetries:         1,
		ReadTimeout:           500 * time.Millisecond,
		WriteTimeout:          500 * time.Millisecond,
	})
	redisstore.Guard(client, nil)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// The primary ends in several ways, under load. The remaining pages are intact, and the client
// finds the new primary.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *redistest.Sentinel, *redistest.Server){
		"orderly": func(t *testing.T, s *redistest.Sentinel, _ *redistest.Server) {
			t.Helper()
			if err := s.Failover(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"killed": func(_ *testing.T, _ *redistest.Sentinel, primary *redistest.Server) { primary.Kill() },
		"paused": func(_ *testing.T, _ *redistest.Sentinel, primary *redistest.Server) { primary.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t, 1, 1)
			s := openStore(t, dialSentinel(t, sentinel), "sentinel")
			ids := pageIDs(8)
			create(t, s, 3000, ids...)
			primary, err := sentinel.Primary(t.Context())
			must(t, err)
			replicated(t, primary)
			writers := underLoad(t, s, ids, 2, func() {
				lose(t, sentinel, primary)
				if err := sentinel.WaitOK(t.Context()); err != nil {
					t.Error(err)
				}
			})
			for _, w := range writers {
				eventually(t, "writing after a failover", func() error { return w.round(t.Context(), t) })
				t.Logf("%s: %d errors on the way", name, len(w.errs))
			}
			wantWhole(t, s, writers)
		})
	}
}

// Answers are cut off after any number of bytes. When the batches are resent, the results show
// which of them were applied before.
func TestAnswersCutShort(t *testing.T) {
	t.Parallel()
	proxy := proxytest.Start(t, redistest.Start(t).Addr())
	client := dial(t, proxy.Addr()) // this client does not retry
	s := openStore(t, client, "cut")
	ids := pageIDs(5)
	create(t, s, 1000, ids...)
	failed, applied := 0, 0
	const rounds = 25
	for round := 1; round <= rounds; round++ {
		batches := addOne(ids, uint64(round))
		batches[4].Add = append(batches[4].Add, hashes(99, round*100, 30)...) // by compare-and-swap
		proxy.Truncate(int64(round-1) * 150)
		for _, r := range s.Apply(t.Context(), batches) {
			if r.Err != nil {
				failed++
			} else {
				applied++
			}
		}
		if _, _, err := s.Load(t.Context(), ids); err == nil && round == 1 {
			t.Error("no answer, and no error")
		}
		proxy.Reset()
		eventually(t, "applying again", func() error {
			var errs []error
			for _, r := range s.Apply(t.Context(), batches) {
				if r.Err == nil && r.State != favfilter.Applied && r.State != favfilter.Current {
					t.Errorf("round %d: %v at %+v", round, r.State, r.Header)
				}
				errs = append(errs, r.Err)
			}
			return errors.Join(errs...)
		})
	}
	wantKeys(t, s, ids[:4], rounds)
	t.Logf("%d batches failed and %d did not", failed, applied)
	if failed == 0 || applied == 0 {
		t.Errorf("%d batches failed and %d did not, want some of each", failed, applied)
	}
}

// A network partition drops packets silently. Calls end at their deadlines, then fail at once, and
// work again when it is over.
func TestPartition(t *testing.T) {
	t.Parallel()
	proxy := proxytest.Start(t, redistest.Start(t).Addr())
	client := redis.NewClient(&redis.Options{
		Addr:                  proxy.Addr(),
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           100 * time.Millisecond,
		ReadTimeout:           100 * time.Millisecond,
	})
	t.Cleanup(func() { _ = client.Close() })
	redisstore.Guard(client, nil)
	s := openStore(t, client, "partition")
	ids := pageIDs(3)
	create(t, s, 100, ids...)
	for round, partition := range []func(){proxy.Stall, proxy.Cut} {
		partition()
		eventuallyGivesUp(t, s, ids)
		proxy.Reset()
		eventuallyLoads(t, s, ids)
		wantAll(t, s.Apply(t.Context(), addOne(ids, uint64(round+1))), favfilter.Applied)
		wantKeys(t, s, ids, round+1)
	}
}

// A server whose breaker opened is used again, over new connections, once it is back.
func TestGivenUpAndBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	redisstore.Guard(client, nil)
	s := openStore(t, client, "back")
	for range 2 {
		server.Kill()
		eventuallyGivesUp(t, s, pageIDs(1))
		server.Restart()
		eventuallyLoads(t, s, pageIDs(1))
	}
}

// eventuallyGivesUp waits until loads are no longer sent to the node.
func eventuallyGivesUp(t *testing.T, s favfilter.Store, ids []favfilter.PageID) {
	t.Helper()
	eventually(t, "giving up", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := s.Load(ctx, ids)
		if errors.Is(err, redisstore.ErrUnavailable) {
			return nil
		}
		return errors.Join(errors.New("loads are still sent to it"), err)
	})
}

// eventuallyLoads waits until a node is asked again.
func eventuallyLoads(t *testing.T, s favfilter.Store, ids []favfilter.PageID) {
	t.Helper()
	eventually(t, "asking again", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := s.Load(ctx, ids)
		return err
	})
}
