package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestLongRedisLossesUnderLoad repeatedly flushes Redis, restarts it and deletes halves of pages,
// while users block, unblock and read feeds. No feed may miss a block that was acknowledged before
// the request, on either side.
func TestLongRedisLossesUnderLoad(t *testing.T) {
	t.Parallel()
	const pages = 16
	for _, c := range []struct {
		name string
		lose func(t *testing.T, server *cache, client *redis.Client, page string)
	}{
		{"flushed", func(t *testing.T, _ *cache, client *redis.Client, _ string) {
			t.Helper()
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}},
		{"restarted", func(t *testing.T, server *cache, _ *redis.Client, _ string) {
			t.Helper()
			server.Kill()
			server.Restart()
		}},
		{"bits deleted", func(t *testing.T, _ *cache, client *redis.Client, page string) {
			t.Helper()
			if err := client.Del(t.Context(), page+"bits").Err(); err != nil {
				t.Error(err)
			}
		}},
		{"regions deleted", func(t *testing.T, _ *cache, client *redis.Client, page string) {
			t.Helper()
			if err := client.Del(t.Context(), page+"regions").Err(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := startRedis(t)
			s := serve(t, "--data-dir", t.TempDir(), "--pages", fmt.Sprint(pages), "--redis", server.URL())
			s.logOnFailure()
			rng := rand.New(rand.NewPCG(21, 22))
			blockUnderLoad(t, s, 40, func() {
				c.lose(t, server, server.Client(), fmt.Sprintf("fav:{feed/%d}:", rng.IntN(pages)))
			})
		})
	}
}

// blocker is a user who blocks b0, b1 and so on, and unblocks each after 15 more blocks.
type blocker struct {
	user          string
	acked, undone atomic.Int64 // b<undone> to b<acked-1> are blocked
}

func (b *blocker) other(i int64) string { return fmt.Sprintf("%s/b%d", b.user, i) }

// blockUnderLoad calls lose that many times, and checks at least 20 feeds before each call.
func blockUnderLoad(t *testing.T, s *service, times int, lose func()) {
	t.Helper()
	blockers := make([]*blocker, 4)
	var checks, undecided, stopped atomic.Int64
	var wg sync.WaitGroup
	for i := range blockers {
		b := &blocker{user: fmt.Sprint("user", i)}
		blockers[i] = b
		b.step(t, s, 0, &undecided)
		wg.Go(func() {
			for i := int64(1); stopped.Load() == 0 && !t.Failed(); i++ {
				b.step(t, s, i, &undecided)
			}
		})
		wg.Go(func() {
			for i := 0; stopped.Load() == 0 && !t.Failed(); i++ {
				b.look(t, s, i%2 == 0)
				checks.Add(1)
			}
		})
	}
	for range times {
		for next := checks.Load() + 20; checks.Load() < next && !t.Failed(); {
			blockers[0].look(t, s, false) // at least 20 feeds between two losses
		}
		lose()
	}
	stopped.Store(1)
	wg.Wait()
	t.Logf("%d feeds checked over %d losses, %d writes repeated", checks.Load(), times, undecided.Load())
	for _, b := range blockers {
		b.look(t, s, true)
		b.look(t, s, false)
	}
}

// step blocks the i-th user, and unblocks the one 15 before. It repeats each write until it is
// acknowledged.
func (b *blocker) step(t *testing.T, s *service, i int64, undecided *atomic.Int64) {
	t.Helper()
	b.write(t, s, b.other(i), false, undecided)
	b.acked.Store(i + 1)
	if i >= 15 {
		b.undone.Store(i - 14)
		b.write(t, s, b.other(i-15), true, undecided)
	}
}

func (b *blocker) write(t *testing.T, s *service, other string, undo bool, undecided *atomic.Int64) {
	t.Helper()
	for !t.Failed() {
		_, err := s.put(b.user, "blocks", other, undo)
		if err == nil {
			return
		}
		var status statusError
		if !errors.As(err, &status) || status.status != http.StatusServiceUnavailable {
			t.Errorf("block of %s: %v", other, err)
		}
		undecided.Add(1)
	}
}

// look asks for the feed of the user, with posts by the last 15 blocked users, or else for the feed
// of the last blocked user.
func (b *blocker) look(t *testing.T, s *service, own bool) {
	t.Helper()
	until := b.acked.Load()
	q := feedRequest{Viewer: b.user}
	first := max(0, until-15)
	for i := first; i < until; i++ {
		q.Posts = append(q.Posts, post{ID: fmt.Sprint(i), Author: b.other(i)})
	}
	if !own {
		q = feedRequest{Viewer: b.other(until - 1), Posts: []post{{ID: fmt.Sprint(until - 1), Author: b.user}}}
	}
	a, err := s.feed(q)
	if err != nil {
		t.Errorf("feed of %s: %v", q.Viewer, err)
		return
	}
	undone := b.undone.Load()
	for _, kept := range a.Posts {
		var i int64
		if _, err := fmt.Sscan(kept.ID, &i); err != nil {
			t.Error(err)
		}
		if i >= undone {
			t.Errorf("%s sees post %d; posts %d to %d must be hidden", q.Viewer, i, undone, until)
		}
	}
}
