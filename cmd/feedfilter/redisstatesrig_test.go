package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/redisurl"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	stateViewers = 20
	// slowFeed is far less than a feed takes that waits for Redis, and far more than one that does
	// not.
	slowFeed = 250 * time.Millisecond
)

func command(t *testing.T, s *redistest.Server, args ...any) {
	t.Helper()
	if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// awaitReply waits until a read returns an error with the prefix; "": no error.
func awaitReply(t *testing.T, s *redistest.Server, prefix string) {
	t.Helper()
	probe := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = probe.Close() }()
	eventuallyIn(t, "the answer "+prefix, func() error {
		err := probe.MGet(t.Context(), "filler").Err()
		if err == nil && prefix == "" || err != nil && prefix != "" && strings.HasPrefix(err.Error(), prefix) {
			return nil
		}
		return fmt.Errorf("a read is answered %w", err)
	})
}

func eventuallyIn(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, servertest.Await(ctx, what, func(context.Context) error { return try() }))
}

// stateRig holds the parts of a service on one Redis.
type stateRig struct {
	recorder *activity.Recorder
	log      *stateLog
	hidden   map[string][]string // posts, by viewer
}

// openStates opens a Recorder on the Redis at url as the service does.
func openStates(t *testing.T, url string, replicas redis.UniversalClient) *stateRig {
	t.Helper()
	g := &stateRig{log: &stateLog{}, hidden: make(map[string][]string)}
	log := slog.New(slog.NewTextHandler(g.log, nil))
	servers, err := redisurl.Parse(url)
	must(t, err)
	clients, err := connect(t.Context(), servers, nil, log, t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = clients.close() })
	store, err := redisstore.New(clients.pages, "feed")
	must(t, err)
	var replica favfilter.Store
	if replicas != nil {
		redisstore.Guard(replicas, log)
		if replica, err = redisstore.NewReader(replicas, "feed"); err != nil {
			t.Fatal(err)
		}
	}
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	g.recorder, err = activity.Open(t.Context(), activity.Config{
		Ledger: l, Store: store, Replica: replica, StalenessBound: 200 * time.Millisecond, Logger: log,
	})
	must(t, err)
	t.Cleanup(g.recorder.Close)
	for n := range stateViewers {
		g.hide(t, strconv.Itoa(n), "before")
	}
	return g
}

// hide records that a viewer hides a post.
func (g *stateRig) hide(t *testing.T, viewer, post string) {
	t.Helper()
	_, err := g.recorder.Record(t.Context(), []activity.Activity{{User: viewer, Kind: "hide", Target: post}})
	if err != nil {
		t.Fatalf("hide: %v", err)
	}
	g.hidden[viewer] = append(g.hidden[viewer], post)
}

// feed asks for a feed of a viewer, and checks that exactly the hidden posts are dropped.
func (g *stateRig) feed(t *testing.T, viewer string) (took time.Duration, degraded bool) {
	t.Helper()
	q := feed.Request{Viewer: viewer, Posts: []feed.Post{{ID: "shown", Author: "a"}}}
	for _, id := range g.hidden[viewer] {
		q.Posts = append(q.Posts, feed.Post{ID: id, Author: "a"})
	}
	began := time.Now()
	a, err := feed.Filter(t.Context(), g.recorder, q)
	took = time.Since(began)
	if err != nil || len(a.Dropped) != len(g.hidden[viewer]) {
		t.Fatalf("feed of %s: %+v, %v; want %q dropped", viewer, a, err, g.hidden[viewer])
	}
	return took, len(a.Degraded) > 0
}

// during asks for feeds and for a write while Redis is in a state, from its first second on.
// Exactly the feeds of the viewers in degraded must be degraded.
func (g *stateRig) during(t *testing.T, degraded func(viewer string) bool) {
	t.Helper()
	for n, began := 0, time.Now(); time.Since(began) < time.Second; n++ {
		g.feed(t, strconv.Itoa(n%stateViewers))
	}
	g.wantFast(t, "a feed", func() (slowest time.Duration) {
		for n := range stateViewers {
			viewer := strconv.Itoa(n)
			took, is := g.feed(t, viewer)
			slowest = max(slowest, took)
			if want := degraded(viewer); is != want {
				t.Errorf("feed of %s: degraded %v, want %v", viewer, is, want)
			}
		}
		return slowest
	})
}

// wantFast asks for feeds until none waits for Redis. The machine may be busy for a while.
func (*stateRig) wantFast(t *testing.T, what string, feeds func() (slowest time.Duration)) {
	t.Helper()
	var slowest time.Duration
	for range 5 {
		if slowest = feeds(); slowest < slowFeed {
			return
		}
	}
	t.Errorf("%s took %v, also in retries", what, slowest)
}

// writes records while Redis is in a state that refuses writes.
func (g *stateRig) writes(t *testing.T) {
	t.Helper()
	for n := range 3 { // three writes to one page
		g.hide(t, "0", fmt.Sprint("during-", n))
	}
	g.wantFast(t, "a feed whose page lacks a write", func() (slowest time.Duration) {
		for range 10 {
			took, _ := g.feed(t, "0")
			slowest = max(slowest, took)
		}
		return slowest
	})
}

// after waits until feeds are read from Redis again, and writes reach it.
func (g *stateRig) after(t *testing.T) {
	t.Helper()
	eventuallyIn(t, "feeds from Redis", func() error {
		before := g.recorder.Stats()
		for n := range stateViewers {
			if _, degraded := g.feed(t, strconv.Itoa(n)); degraded {
				return errors.New("a feed is degraded")
			}
		}
		if now := g.recorder.Stats(); now.FromLedger != before.FromLedger {
			return errors.New("a feed was answered from the ledger")
		}
		return nil
	})
	eventuallyIn(t, "writes that reach Redis", func() error {
		before := g.recorder.Stats().WithoutPage
		g.hide(t, "1", fmt.Sprint("after-", time.Now().UnixNano()))
		if g.recorder.Stats().WithoutPage != before {
			return errors.New("a write was acknowledged without its page")
		}
		return nil
	})
}

// stateLog collects the log of a service.
type stateLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *stateLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *stateLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits until the log has the text. Writes that Redis refuses for all pages are logged after
// five of them, others once the scrub has looked at their pages.
func (l *stateLog) await(t *testing.T, text string) {
	t.Helper()
	eventuallyIn(t, "the log says "+text, func() error {
		if !strings.Contains(l.String(), text) {
			return fmt.Errorf("it says %.8000s", l.String())
		}
		return nil
	})
}

// wantFew checks that the log has no message many times.
func (l *stateLog) wantFew(t *testing.T) {
	t.Helper()
	counts := make(map[string]int)
	for line := range strings.Lines(l.String()) {
		_, rest, _ := strings.Cut(line, " level=")
		event := rest
		for _, end := range []string{" error=", " page="} {
			event, _, _ = strings.Cut(event, end)
		}
		counts[strings.TrimSpace(event)]++
	}
	for event, n := range counts {
		if n > 2 {
			t.Errorf("logged %d times: %s", n, event)
		}
	}
	if t.Failed() {
		text := l.String()
		t.Logf("%.8000s", text)
	}
}
