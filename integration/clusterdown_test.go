package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// TestLongClusterDown kills a shard without a replica, so that the cluster refuses all commands.
// Feeds must then come from the ledger without waiting for the cluster, and writes must be
// acknowledged. When the shard is back, the service must use the cluster again.
func TestLongClusterDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "yes")
	s := serve(t, "--data-dir", t.TempDir(), "--pages", "16", "--redis", cluster.URL())
	s.logOnFailure()
	const viewers = 20
	hidden := make(map[string][]string)
	hide := func(viewer, id string) {
		t.Helper()
		began := time.Now()
		if _, err := s.put(viewer, "hides", id, false); err != nil {
			t.Errorf("%s hides %s: %v", viewer, id, err)
		}
		hidden[viewer] = append(hidden[viewer], id)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a write took %v", took)
		}
	}
	feeds := func() (slowest time.Duration, degraded int) {
		t.Helper()
		for n := range viewers {
			viewer := fmt.Sprint("u", n)
			q := feedRequest{Viewer: viewer, Posts: []post{{ID: "shown", Author: "a"}}}
			for _, id := range hidden[viewer] {
				q.Posts = append(q.Posts, post{ID: id, Author: "a"})
			}
			began := time.Now()
			a, err := s.feed(q)
			slowest = max(slowest, time.Since(began))
			if err != nil || len(a.Dropped) != len(hidden[viewer]) {
				t.Fatalf("feed of %s: %+v, %v, want %q dropped", viewer, a, err, hidden[viewer])
			}
			if len(a.Degraded) > 0 {
				degraded++
			}
		}
		return slowest, degraded
	}
	await := func(what string, done func() bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := servertest.Await(ctx, what, func(context.Context) error {
			if !done() {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range viewers {
		hide(fmt.Sprint("u", n), "before")
	}
	await("feeds from the cluster", func() bool { _, degraded := feeds(); return degraded == 0 })
	lost, left := cluster.Nodes()[2], cluster.Nodes()[0]
	lost.Kill()
	await("the cluster is down", func() bool {
		err := left.Client().Get(t.Context(), "any").Err()
		return err != nil && strings.HasPrefix(err.Error(), "CLUSTERDOWN The cluster is down")
	})
	for began := time.Now(); time.Since(began) < time.Second; {
		feeds()
	}
	slowest, degraded := feeds()
	for range 4 { // the machine may be busy
		if slowest >= 250*time.Millisecond {
			slowest, degraded = feeds()
		}
	}
	if slowest >= 250*time.Millisecond || degraded != viewers {
		t.Errorf("the slowest feed took %v in each of 5 rounds; %d of %d are degraded", slowest, degraded, viewers)
	}
	hide("u1", "during")
	if _, degraded := feeds(); degraded != viewers {
		t.Errorf("%d of %d feeds are degraded", degraded, viewers)
	}
	lost.Restart()
	await("feeds from the cluster", func() bool { _, degraded := feeds(); return degraded == 0 })
	hide("u1", "after")
	feeds()
	for _, event := range []string{"pages cannot be read", "pages can be read again", "pages cannot be repaired"} {
		if n := strings.Count(s.log.String(), event); n > 2 {
			t.Errorf("%q is logged %d times", event, n)
		}
	}
}
