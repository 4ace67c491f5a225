package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// The service works with its pages in a cluster, and behind Sentinel.
func TestServeWithManyServers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) (servers string, addrs string){
		"cluster": func(t testing.TB) (string, string) {
			c := redistest.StartCluster(t, 3, 0)
			return c.URL(), strings.Join(c.Addrs(), ",")
		},
		"sentinel": func(t testing.TB) (string, string) {
			s := redistest.StartSentinel(t, 1, 1)
			u, err := url.Parse(s.URL())
			must(t, err)
			return s.URL(), u.Host
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, addrs := start(t)
			s := serve(t, "--data-dir", t.TempDir(), "--pages=16", "--redis", servers)
			if got := s.first["page_store"]; got != addrs {
				t.Errorf("logged page store %v, want %s", got, addrs)
			}
			for user := range 30 {
				if code, answer := s.do("PUT", fmt.Sprintf("/v1/users/%d/blocks/1000", user), ""); code != 200 {
					t.Fatalf("block: %d %s", code, answer)
				}
			}
			for user := range 30 {
				body := fmt.Sprintf(`{"viewer":"%d","posts":[{"id":"p","author":"1000"},{"id":"q","author":"1001"}]}`, user)
				code, answer := s.do("POST", "/v1/feed/filter", body)
				if code != 200 || !strings.Contains(answer, `"dropped":[{"id":"p"`) {
					t.Fatalf("feed: %d %s", code, answer)
				}
			}
			if pages := countPages(t, servers); pages < 8 {
				t.Errorf("Redis has %d pages, want most of 16", pages)
			}
		})
	}
}

// countPages returns how many pages of the ledger are in Redis.
func countPages(t testing.TB, servers string) int {
	t.Helper()
	s, err := redisurl.Parse(servers)
	must(t, err)
	c, err := connect(t.Context(), s, nil, slog.New(slog.DiscardHandler), t.TempDir())
	must(t, err)
	defer func() { _ = c.close() }()
	client := c.pages
	n := 0
	for page := range 16 {
		found, err := client.Exists(t.Context(), fmt.Sprintf("fav:{feed/%d}:bits", page)).Result()
		must(t, err)
		n += int(found)
	}
	return n
}

// The client of each form of URL has circuit breakers.
func TestRedisClientsAreGuarded(t *testing.T) {
	for _, text := range []string{"redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/m"} {
		s, err := redisurl.Parse(text + "?max_retry_backoff=1ms")
		must(t, err)
		log := &strings.Builder{}
		c, err := connect(t.Context(), s, nil, slog.New(slog.NewTextHandler(log, nil)), t.TempDir())
		must(t, err)
		for range 6 {
			_ = c.pages.Ping(t.Context())
		}
		_ = c.close()
		if !strings.Contains(log.String(), "left alone for a while") {
			t.Errorf("%s: the log says %q", text, log)
		}
	}
}
