package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// TestLongStopped stops the process a few times while it answers requests, for longer than its
// calls to Redis and PostgreSQL may take. Both have answered meanwhile. The feeds that it had in
// hand miss nothing, and no record of seen posts fails.
func TestLongStopped(t *testing.T) {
	kinds := filepath.Join(t.TempDir(), "kinds.json")
	must(t, os.WriteFile(kinds, []byte(chaosKinds), 0o600))
	s := serve(t, "--ledger", pgtest.Start(t).Schema(), "--redis", startRedis(t).URL(),
		"--kinds", kinds, "--data-dir", t.TempDir())
	s.logOnFailure()
	activities := map[string]string{"blocks": "b", "follows": "f", "domain-mutes": "d"}
	for plural, target := range activities {
		_, err := s.put("u", plural, target, false)
		must(t, err)
	}
	domain := map[string][]string{"domain": {"d"}}
	q := feedRequest{Viewer: "u", Posts: []post{
		{ID: "blocked", Author: "b"},
		{ID: "muted", Author: "a", Facets: domain},
		{ID: "kept", Author: "f", Facets: domain},
		{ID: "free", Author: "c"},
	}}
	var ended atomic.Bool
	var answered atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !ended.Load() {
				began := time.Now()
				a, err := s.feed(q)
				if err != nil || len(a.Degraded) > 0 || len(a.Dropped) != 2 {
					t.Errorf("a feed after %v: %+v, %v", time.Since(began), a, err)
				}
				answered.Add(1)
			}
		})
	}
	wg.Go(func() {
		for i := 0; !ended.Load(); i++ {
			seen := map[string]any{"posts": []string{fmt.Sprint("p", i)}}
			if err := s.call(http.MethodPost, "/v1/users/w/seen", seen, nil); err != nil {
				t.Errorf("a record of seen posts: %v", err)
			}
		}
	})
	busy := func() { // until it has answered some more feeds
		for before := answered.Load(); answered.Load() < before+200; {
			must(t, wait(t.Context(), time.Millisecond))
		}
	}
	for _, seconds := range []float64{1.3, 2.2, 0.6, 2.7, 1.3, 2.7} {
		busy()
		must(t, s.cmd.Process.Signal(syscall.SIGSTOP))
		err := wait(t.Context(), time.Duration(seconds*float64(time.Second)))
		must(t, s.cmd.Process.Signal(syscall.SIGCONT))
		must(t, err)
	}
	busy()
	ended.Store(true)
	wg.Wait()
	t.Logf("%d feeds", answered.Load())
}
