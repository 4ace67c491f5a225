package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	recoveryUsers = 20_000
	recoveryHides = 10 // per user
)

// TestLongRecovery flushes a Redis with 16,384 pages while clients read feeds at full speed. Every
// feed must be right, no request may fail, and all pages must come back. The test logs how long
// that takes, and the latency of feeds.
func TestLongRecovery(t *testing.T) {
	server := startRedis(t)
	s := serve(t, "--data-dir", t.TempDir(), "--redis", server.URL(), "--scrub-rate", "2000")
	s.logOnFailure()
	hideMuch(t, s)
	pages := func() int64 {
		n, err := server.Client().DBSize(t.Context()).Result()
		if err != nil {
			t.Error(err)
		}
		return n / 2
	}
	all := pages()
	r := &recovery{t: t, service: s}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() { r.read(rand.New(rand.NewPCG(5, uint64(w)))) })
	}
	r.until("2,000 feeds", func() bool { return r.feeds(before) >= 2000 })
	start := time.Now()
	r.phase.Store(flushed)
	if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	r.until("all pages are back", func() bool { return pages() >= all })
	t.Logf("all of %d pages back after %v", all, time.Since(start).Round(time.Millisecond))
	r.phase.Store(after)
	r.until("2,000 feeds", func() bool { return r.feeds(after) >= 2000 })
	r.stopped.Store(true)
	wg.Wait()
	r.report()
}

func hideMuch(t *testing.T, s *service) {
	t.Helper()
	for from := 0; from < recoveryUsers; from += 500 {
		var batch []map[string]string
		for u := from; u < from+500; u++ {
			for i := range recoveryHides {
				batch = append(batch, map[string]string{"user": fmt.Sprint(u), "kind": "hide", "target": fmt.Sprint("hidden", i), "op": "add"})
			}
		}
		if err := s.call(http.MethodPost, "/v1/activities", map[string]any{"activities": batch}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// These are the phases of a recovery.
const (
	before = iota
	flushed
	after
)

// recovery reads feeds, and records the latency of each by phase.
type recovery struct {
	t       *testing.T
	service *service
	phase   atomic.Int64
	stopped atomic.Bool

	mu   sync.Mutex
	took [3][]time.Duration
}

// read reads the feeds of random users until stopped.
func (r *recovery) read(rng *rand.Rand) {
	q := feedRequest{Kinds: []string{"hide"}}
	for i := range recoveryHides {
		q.Posts = append(q.Posts, post{ID: fmt.Sprint("hidden", i)}, post{ID: fmt.Sprint("clean", i)})
	}
	for !r.stopped.Load() && !r.t.Failed() {
		q.Viewer = fmt.Sprint(rng.IntN(recoveryUsers))
		phase, start := r.phase.Load(), time.Now()
		answer, err := r.service.feed(q)
		took := time.Since(start)
		if err != nil || len(answer.Dropped) < recoveryHides || len(answer.Degraded) > 0 {
			r.t.Errorf("viewer %s: %d dropped, degraded %v, %v", q.Viewer, len(answer.Dropped), answer.Degraded, err)
		}
		r.mu.Lock()
		r.took[phase] = append(r.took[phase], took)
		r.mu.Unlock()
	}
}

func (r *recovery) feeds(phase int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.took[phase])
}

func (r *recovery) until(what string, done func() bool) {
	r.t.Helper()
	var err error
	for range 5 { // Await waits up to a minute; a busy machine needs more for all pages
		err = servertest.Await(r.t.Context(), what, func(context.Context) error {
			if done() || r.t.Failed() {
				return nil
			}
			return fmt.Errorf("not yet: %s", what)
		})
		if err == nil {
			return
		}
	}
	r.t.Error(err)
}

func (r *recovery) report() {
	for phase, name := range []string{"before", "until all were back", "after"} {
		took := r.took[phase]
		slices.Sort(took)
		if n := len(took); n > 0 {
			r.t.Logf("%-20s %6d feeds, p50 %v, p99 %v, longest %v", name, n, took[n/2], took[n*99/100], took[n-1])
		}
	}
}
