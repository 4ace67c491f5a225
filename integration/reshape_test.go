package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	reshapeUsers = 300
	reshapeHides = 8 // of each, that stay
)

// TestLongReshapeBesideServices changes the number of pages, as a process of its own, by a service, and by a process that is killed, while two services on one Postgres and one
// Redis are read and written to: no feed misses anything that was acknowledged, whichever service it is asked of, and what was
// undone is reported no more often than the rate allows.
func TestLongReshapeBesideServices(t *testing.T) {
	url, redis := pgtest.Start(t).Schema(), startRedis(t)
	flags := []string{"--ledger", url, "--redis", redis.URL(), "--own-page", "16"}
	l := &reshapeLoad{t: t}
	for range 2 {
		s := serve(t, append(flags, "--data-dir", t.TempDir(), "--pages", "64")...)
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
	for w := range 4 { // they get pages of their own
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
	l.reshape(url, 256, beside...)
	l.reshape(url, 32, beside...)
	l.reshape(url, 64, "reshape", "--server", l.services[1].url)
	l.kill(512, beside...)
	l.reshape(url, 512, beside...)
	l.stopped.Store(true)
	wg.Wait()
	l.judge()
}

// reshapeLoad reads and writes while pages change.
type reshapeLoad struct {
	t        *testing.T
	services []*service
	stopped  atomic.Bool

	feeds, writes, absent, found atomic.Int64
}

// reshape runs the command, and waits until every service knows of all that it did, and then some: the ledger is
// told that a minute has passed.
func (l *reshapeLoad) reshape(url string, pages int, args ...string) {
	l.t.Helper()
	before := l.feeds.Load()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, command, append(args, "--pages", fmt.Sprint(pages))...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("reshaped 64 homes to %d pages", pages)) {
		l.stopped.Store(true)
		l.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	l.t.Logf("%s, %d feeds meanwhile", strings.TrimSpace(lastLine(string(out))), l.feeds.Load()-before)
	for _, s := range l.services {
		err := servertest.Await(l.t.Context(), "the service knows of all pages", func(context.Context) error {
			var shape struct {
				Shared int `json:"shared_pages"`
			}
			err := s.call(http.MethodGet, "/v1/pages", nil, &shape) //nolint:contextcheck // it has the test's
			if err != nil || shape.Shared != pages {
				return fmt.Errorf("%d pages are shared, not %d: %w", shape.Shared, pages, err)
			}
			return nil
		})
		if err != nil {
			l.t.Error(err)
		}
	}
	conn, err := pgx.Connect(l.t.Context(), url)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := conn.Exec(l.t.Context(), `UPDATE homes SET reshaped_at = reshaped_at - 120000000`); err != nil {
		l.t.Error(err)
	}
	if err := conn.Close(l.t.Context()); err != nil {
		l.t.Error(err)
	}
}

// kill begins a reshape, and kills it when some homes are done, unless it was quicker.
func (l *reshapeLoad) kill(pages int, args ...string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), command, append(args, "--pages", fmt.Sprint(pages))...)
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	done := 0
	err := servertest.Await(l.t.Context(), "homes are reshaped", func(context.Context) error {
		var shape struct {
			Pages    int `json:"pages"`
			Reshaped int `json:"reshaped"`
		}
		err := l.services[0].call(http.MethodGet, "/v1/pages", nil, &shape) //nolint:contextcheck // it has the test's
		if done = shape.Reshaped; err != nil || shape.Pages != pages || done < 2 {
			return fmt.Errorf("%+v, %w", shape, err)
		}
		return nil
	})
	if err != nil {
		l.t.Error(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	l.t.Logf("killed when %d homes were reshaped to %d pages", done, pages)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func (l *reshapeLoad) any(rng *rand.Rand) *service { return l.services[rng.IntN(len(l.services))] }

// dropped returns what a feed of the user drops of the hidden posts.
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

// read reads feeds of random users, which have what was recorded at first.
func (l *reshapeLoad) read(rng *rand.Rand) {
	var hidden []string
	for i := range reshapeHides {
		hidden = append(hidden, fmt.Sprint("hidden", i))
	}
	for !l.stopped.Load() && !l.t.Failed() {
		user := fmt.Sprint(rng.IntN(reshapeUsers))
		if dropped := l.dropped(l.any(rng), user, hidden...); len(dropped) != reshapeHides {
			l.t.Errorf("a feed of %s drops %v alone", user, dropped)
		}
	}
}

// write writes for users that no other writes for, one of whom gets heavy, and looks whether feeds have it.
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

// judge looks at how many of those that were undone were found: one in 4,000 may be.
func (l *reshapeLoad) judge() {
	absent, found := l.absent.Load(), l.found.Load()
	l.t.Logf("%d feeds, %d writes; %d of %d that were undone were found", l.feeds.Load(), l.writes.Load(), found, absent)
	if float64(found) > 10+4*float64(absent)/4000 {
		l.t.Errorf("%d of %d that were undone were found", found, absent)
	}
}
