package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	reshapeUsers = 300
	reshapeHides = 8 // per user; they stay
)

// TestLongReshapeBesideServices raises the number of pages while two services on one Postgres and
// one Redis are read and written to. Processes that raise it are killed in each phase. Another
// process finishes the change: one that is asked to, or one that only starts. No feed of either
// service may miss an acknowledged activity. Undone activities are reported no more often than the
// false positive rate allows.
func TestLongReshapeBesideServices(t *testing.T) {
	url, redis := pgtest.Start(t).Schema(), startRedis(t)
	flags := []string{"--ledger", url, "--redis", redis.URL(), "--dedicated-page", "16"}
	l := &reshapeLoad{t: t, url: url, redis: redis, pace: rate.NewLimiter(500, 1)}
	for range 2 {
		s := serve(t, append(flags, "--data-dir", t.TempDir(), "--pages", "16")...)
		s.logOnFailure()
		l.services = append(l.services, s)
	}
	for from := 0; from < reshapeUsers; from += 50 {
		var batch []map[string]string
		for u := from; u < from+50; u++ {
			for i := range reshapeHides {
				batch = append(batch, map[string]string{"user": fmt.Sprint(u), "kind": "hide", "target": fmt.Sprint("hidden", i), "op": "add"})
			}
		}
		if err := l.services[0].call(http.MethodPost, "/v1/activities", map[string]any{"activities": batch}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for w := range 4 { // these users get dedicated pages
		for i := range 60 {
			if err := l.services[0].call(http.MethodPut, fmt.Sprintf("/v1/users/heavy%d/hides/q%d", w, i), nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() { l.write(w, rand.New(rand.NewPCG(12, uint64(w)))) })
		wg.Go(func() { l.read(rand.New(rand.NewPCG(13, uint64(w)))) })
	}
	beside := append([]string{"reshape", "--data-dir", t.TempDir()}, flags...)
	l.reshape(64, beside...)
	pages := l.kill(2048, "begun", l.begun, beside...)
	l.reshape(pages, "reshape", "--server", l.services[1].url)
	pages = l.kill(2*pages, "building", l.building, beside...)
	s := serve(t, append(flags, "--data-dir", t.TempDir())...) // it finishes the change without a request
	s.logOnFailure()
	l.finished(pages, s)
	pages = l.kill(2*pages, "leaving", l.leaving, beside...)
	l.reshape(pages, beside...)
	l.stopped.Store(true)
	wg.Wait()
	l.judge()
}

// reshapeLoad reads and writes while the number of pages changes.
type reshapeLoad struct {
	t        *testing.T
	url      string // URL of the ledger
	redis    *cache
	services []*service
	stopped  atomic.Bool
	pace     *rate.Limiter // of feeds without a write before them

	feeds, writes, absent, found atomic.Int64
}

// reshape runs the command, and waits until every service knows of the new pages.
func (l *reshapeLoad) reshape(pages int, args ...string) {
	l.t.Helper()
	before := l.feeds.Load()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, command, append(args, "--pages", fmt.Sprint(pages))...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("reshaped to %d pages", pages)) {
		l.stopped.Store(true)
		l.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	l.t.Logf("%s; %d feeds during the change", strings.TrimSpace(lastLine(string(out))), l.feeds.Load()-before)
	l.finished(pages)
}

// finished waits until the ledger has only that layout, and every service, including more, knows
// all of its pages.
func (l *reshapeLoad) finished(pages int, more ...*service) {
	l.t.Helper()
	l.await("the ledger has one layout", func() error {
		if layouts := l.layouts(); len(layouts) != 1 || layouts["current"] != pages {
			return fmt.Errorf("%v, want %d pages alone", layouts, pages)
		}
		return nil
	})
	for _, s := range slices.Concat(l.services, more) {
		l.await("the service knows of all pages", func() error {
			var now struct {
				Pages    int `json:"pages"`
				Shared   int `json:"shared_pages"`
				Homes    int `json:"homes"`
				Reshaped int `json:"reshaped"`
			}
			err := s.call(http.MethodGet, "/v1/pages", nil, &now)
			if err != nil || now.Pages != pages || now.Shared != pages || now.Homes != 16 || now.Reshaped != 16 {
				return fmt.Errorf("%+v, want %d pages: %w", now, pages, err)
			}
			return nil
		})
	}
}

func (l *reshapeLoad) await(what string, try func() error) {
	l.t.Helper()
	if err := servertest.Await(l.t.Context(), what, func(context.Context) error { return try() }); err != nil {
		l.stopped.Store(true)
		l.t.Fatal(err)
	}
}

// layouts returns the number of pages of each layout in the ledger, by state.
func (l *reshapeLoad) layouts() map[string]int {
	l.t.Helper()
	conn, err := pgx.Connect(l.t.Context(), l.url)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = conn.Close(l.t.Context()) }()
	rows, err := conn.Query(l.t.Context(), `SELECT state, pages FROM layouts`)
	if err != nil {
		l.t.Fatal(err)
	}
	layouts := make(map[string]int)
	var state string
	var pages int
	if _, err := pgx.ForEachRow(rows, []any{&state, &pages}, func() error {
		layouts[state] = pages
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return layouts
}

// begun, building and leaving report whether a change of the number of pages is in that phase.
// stored is the number of keys in Redis before the change.
func (l *reshapeLoad) begun(pages int, _ int64) bool { return l.layouts()["building"] == pages }

func (l *reshapeLoad) building(pages int, stored int64) bool {
	return l.begun(pages, stored) && l.stored() > stored+100
}

func (l *reshapeLoad) leaving(pages int, _ int64) bool {
	layouts := l.layouts()
	return layouts["current"] == pages && layouts["leaving"] > 0
}

func (l *reshapeLoad) stored() int64 {
	l.t.Helper()
	n, err := l.redis.Client().DBSize(l.t.Context()).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// kill starts to raise the number of pages, kills the process in a phase, and returns the number.
// On a busy machine a change may end before kill sees the phase. Then kill tries twice as many
// pages.
func (l *reshapeLoad) kill(pages int, phase string, in func(pages int, stored int64) bool, args ...string) int {
	l.t.Helper()
	for ; pages <= 1<<15; pages *= 2 {
		stored := l.stored()
		cmd := exec.CommandContext(l.t.Context(), command, append(args, "--pages", fmt.Sprint(pages))...)
		if err := cmd.Start(); err != nil {
			l.t.Fatal(err)
		}
		l.await("the change of the number is "+phase, func() error {
			layouts := l.layouts()
			if ended := len(layouts) == 1 && layouts["current"] == pages; !ended && !in(pages, stored) {
				return fmt.Errorf("%v, %d keys in Redis", layouts, l.stored())
			}
			return nil
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if left := l.layouts(); len(left) == 2 {
			l.t.Logf("killed while %s: %v", phase, left)
			return pages
		}
		l.t.Logf("the change to %d pages ended before the test saw it %s", pages, phase)
	}
	l.stopped.Store(true)
	l.t.Fatalf("no change of the number was killed while %s", phase)
	return 0
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func (l *reshapeLoad) any(rng *rand.Rand) *service { return l.services[rng.IntN(len(l.services))] }

// dropped returns which of the posts a feed of the user drops.
func (l *reshapeLoad) dropped(s *service, user string, ids ...string) map[string]bool {
	q := feedRequest{Viewer: user, Kinds: []string{"hide"}}
	for _, id := range ids {
		q.Posts = append(q.Posts, post{ID: id})
	}
	answer, err := s.feed(q)
	if err != nil || len(answer.Degraded) > 0 {
		l.t.Errorf("feed of %s: degraded %v, %v", user, answer.Degraded, err)
	}
	l.feeds.Add(1)
	dropped := make(map[string]bool)
	for _, d := range answer.Dropped {
		dropped[d.ID] = true
	}
	return dropped
}

// read reads feeds of random users, which must drop the hides that were recorded before the load.
func (l *reshapeLoad) read(rng *rand.Rand) {
	var hidden []string
	for i := range reshapeHides {
		hidden = append(hidden, fmt.Sprint("hidden", i))
	}
	for l.pace.Wait(l.t.Context()) == nil && !l.stopped.Load() && !l.t.Failed() {
		user := fmt.Sprint(rng.IntN(reshapeUsers))
		if dropped := l.dropped(l.any(rng), user, hidden...); len(dropped) != reshapeHides {
			l.t.Errorf("a feed of %s drops only %v", user, dropped)
		}
	}
}

// write writes for users for whom no other goroutine writes, and checks each write in a feed. One
// of them has a dedicated page.
func (l *reshapeLoad) write(w int, rng *rand.Rand) {
	live := make(map[string]bool)
	for n := 0; !l.stopped.Load() && !l.t.Failed(); n++ {
		user := fmt.Sprint(w + 4*rng.IntN(reshapeUsers/4))
		if n%2 == 0 {
			user = fmt.Sprint("heavy", w)
		}
		target := fmt.Sprint("p", rng.IntN(250))
		key, method := user+" "+target, http.MethodPut
		if live[key] {
			method = http.MethodDelete
		}
		if err := l.any(rng).call(method, "/v1/users/"+user+"/hides/"+target, nil, nil); err != nil {
			l.t.Errorf("%s %s: %v", method, key, err)
			return
		}
		live[key] = !live[key]
		l.writes.Add(1)
		switch found := l.dropped(l.any(rng), user, target)[target]; {
		case live[key] && !found:
			l.t.Errorf("%s is missed", key)
		case !live[key]:
			l.absent.Add(1)
			if found {
				l.found.Add(1)
			}
		}
	}
}

// judge checks how many undone hides were reported. The expected share is one in 4,000; judge
// allows four times that and ten more.
func (l *reshapeLoad) judge() {
	absent, found := l.absent.Load(), l.found.Load()
	l.t.Logf("%d feeds, %d writes; %d of %d undone hides were reported", l.feeds.Load(), l.writes.Load(), found, absent)
	if float64(found) > 10+4*float64(absent)/4000 {
		l.t.Errorf("%d of %d undone hides were reported", found, absent)
	}
}
