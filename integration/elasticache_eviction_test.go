package integration

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/internal/elasticachetest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

const (
	fullUsers = 300
	fullHides = 20 // per user
	fullPages = "16"
)

// full is a Redis whose memory is limited, with two services on it.
type full struct {
	t        *testing.T
	redis    *cache
	services []*service
}

// newFull starts two services on a Redis with the given eviction policy, and records hides of all
// users.
func newFull(t *testing.T, kind elasticachetest.Kind, policy string) *full {
	t.Helper()
	f := &full{t: t, redis: startCache(t, kind, direct, "--maxmemory-policy", policy, "--maxmemory-samples", "10")}
	ledger := pgtest.Start(t).Schema()
	for range 2 {
		s := serve(t, "--pages", fullPages, "--staleness-bound", "300ms", "--redis", f.redis.URL(), "--ledger", ledger, "--data-dir", t.TempDir())
		s.logOnFailure()
		f.services = append(f.services, s)
	}
	each(t, fullUsers, 8, func(u int) error {
		var lines []traced
		for i := range fullHides {
			lines = append(lines, traced{user(u), "hide", fmt.Sprint("hidden", i), "add"})
		}
		return f.services[u%2].call(http.MethodPost, "/v1/activities", map[string]any{"activities": lines}, nil)
	})
	return f
}

func user(u int) string { return fmt.Sprint("user", u) }

// room sets the server's memory limit to its present use and that many bytes more.
func (f *full) room(bytes int64) {
	f.t.Helper()
	limit := f.info("memory", "used_memory") + bytes
	must(f.t, f.redis.Client().ConfigSet(f.t.Context(), "maxmemory", fmt.Sprint(limit)).Err())
}

// info returns a number from a section of INFO.
func (f *full) info(section, name string) int64 {
	f.t.Helper()
	text, err := f.redis.Client().Info(f.t.Context(), section).Result()
	must(f.t, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			must(f.t, err)
			return n
		}
	}
	f.t.Fatalf("INFO has no %s", name)
	return 0
}

// look asks for a user's feed through every service, and checks that all hidden posts are dropped.
func (f *full) look(u, hidden int) error {
	q := feedRequest{Viewer: user(u), Kinds: []string{"hide"}}
	for i := range hidden {
		q.Posts = append(q.Posts, post{ID: fmt.Sprint("hidden", i)})
	}
	for n, s := range f.services {
		answer, err := s.feed(q)
		if err == nil && len(answer.Posts) > 0 {
			err = fmt.Errorf("sees %d hidden posts", len(answer.Posts))
		}
		if err != nil {
			return fmt.Errorf("%s at service %d: %w", q.Viewer, n, err)
		}
	}
	return nil
}

// rebuilt returns how many pages the services have rebuilt for these reasons.
func (f *full) rebuilt(reasons ...string) (sum float64) {
	f.t.Helper()
	for _, s := range f.services {
		var stats map[string]any
		if err := s.call(http.MethodGet, "/v1/stats", nil, &stats); err != nil {
			f.t.Error(err)
		}
		flat := make(map[string]float64)
		flatten("", stats, flat)
		for _, reason := range reasons {
			sum += flat["recorder.rebuilds."+reason]
		}
	}
	return sum
}

// TestLongEviction fills a serverless cache with posts that were seen. The cache evicts keys that
// have a time to live. Only windows of seen posts may be evicted: no page of the ledger may be
// missing, feeds must stay right, and no request may fail.
func TestLongEviction(t *testing.T) {
	t.Parallel()
	f := newFull(t, elasticachetest.Serverless, "volatile-lru")
	pages := &pagesOf{client: f.redis.Client(), prefix: "fav:{feed/"}
	var forever []string
	for key, lives := range pages.lives(t.Context(), t) {
		if lives < 0 {
			forever = append(forever, key)
		}
	}
	if want, _ := strconv.Atoi(fullPages); len(forever) != 2*want {
		t.Fatalf("%d strings of pages have no time to live, want two for each of %d pages", len(forever), want)
	}
	missing := f.rebuilt("missing")
	f.room(2 << 20)
	var posts [2][]string
	for i := range 1000 {
		posts[0], posts[1] = append(posts[0], fmt.Sprint("a", i)), append(posts[1], fmt.Sprint("b", i))
	}
	var seen atomic.Int64
	each(t, 2*fullUsers, 4, func(i int) error {
		viewer := fmt.Sprint("viewer", i)
		for part := range posts {
			s := f.services[(i+part)%2]
			if err := s.call(http.MethodPost, "/v1/users/"+viewer+"/seen", map[string]any{"posts": posts[part]}, nil); err != nil {
				return fmt.Errorf("%s has seen: %w", viewer, err)
			}
			seen.Add(1)
		}
		return f.look(i%fullUsers, fullHides)
	})
	evicted := f.info("stats", "evicted_keys")
	t.Logf("%d writes of 1,000 posts that were seen, %d keys evicted", seen.Load(), evicted)
	if evicted < 100 {
		t.Errorf("%d keys were evicted, want at least 100", evicted)
	}
	left := pages.lives(t.Context(), t)
	for _, key := range forever {
		if _, there := left[key]; !there {
			t.Errorf("%s was evicted", key)
		}
	}
	if now := f.rebuilt("missing"); now != missing {
		t.Errorf("%v pages of the ledger were found missing", now-missing)
	}
	f.forgotten(posts[0])
}

// forgotten checks that each viewer's window is whole or gone, and that there are both. A viewer
// whose window is gone sees the posts again.
func (f *full) forgotten(posts []string) {
	f.t.Helper()
	q := feedRequest{Kinds: []string{"seen"}}
	for _, id := range posts {
		q.Posts = append(q.Posts, post{ID: id})
	}
	counts := make(map[string]int)
	for i := range 2 * fullUsers {
		q.Viewer = fmt.Sprint("viewer", i)
		answer, err := f.services[i%2].feed(q)
		if err != nil || len(answer.Degraded) > 0 {
			f.t.Fatalf("the feed of %s: degraded %v, %v", q.Viewer, answer.Degraded, err)
		}
		switch n := len(answer.Dropped); {
		case n == len(posts):
			counts["whole"]++
		case n < len(posts)/100:
			counts["gone"]++
		default:
			counts["in part"]++
		}
	}
	f.t.Logf("windows: %v", counts)
	if counts["whole"] == 0 || counts["gone"] == 0 {
		f.t.Errorf("windows: %v, want some whole and some gone", counts)
	}
}
