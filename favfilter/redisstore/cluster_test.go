package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// dialCluster returns a separate guarded client.
func dialCluster(t testing.TB, addrs []string) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    addrs,
		ContextTimeoutEnabled:    true,
		MaxRedirects:             5,
		MaxRetryBackoff:          256 * time.Millisecond,
		DialTimeout:              time.Second,
		DialerRetries:            1,
		ReadTimeout:              500 * time.Millisecond,
		WriteTimeout:             500 * time.Millisecond,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	redisstore.Guard(client, nil)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func bitsKey(filter string, id favfilter.PageID) string {
	return fmt.Sprintf("fav:{%s/%d}:bits", filter, id.Number)
}

// pagesOf returns which of ids the server holds, and which others do.
func pagesOf(t testing.TB, c *redistest.Cluster, server *redistest.Server, filter string, ids []favfilter.PageID) (own, others []favfilter.PageID) {
	t.Helper()
	for _, id := range ids {
		primary, err := c.Primary(t.Context(), bitsKey(filter, id))
		must(t, err)
		if primary == server {
			own = append(own, id)
		} else {
			others = append(others, id)
		}
	}
	if len(own) < 2 || len(others) < 2 {
		t.Fatalf("%d pages on the server and %d on others", len(own), len(others))
	}
	return own, others
}

// eventually calls try until it returns nil, for a minute at most.
func eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// replicated waits until each of the servers' replicas has what was written so far.
func replicated(t testing.TB, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		must(t, server.Replicated(t.Context(), 1))
	}
}

// writer advances pages from sequence to sequence, and adds one key at each, as one batch for all
// its pages. If a page has fallen back to an earlier sequence, the writer continues from there.
type writer struct {
	store favfilter.Store
	ids   []favfilter.PageID
	next  []uint64 // sequence of each page
	errs  []error
}

func newWriter(store favfilter.Store, ids []favfilter.PageID) *writer {
	w := &writer{store: store, ids: ids, next: make([]uint64, len(ids))}
	for i := range w.next {
		w.next[i] = 1
	}
	return w
}

// round applies the next batch of each page and reports whether all took effect.
func (w *writer) round(ctx context.Context, t testing.TB) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	batches := make([]favfilter.Batch, len(w.ids))
	for i, id := range w.ids {
		batches[i] = addOne([]favfilter.PageID{id}, w.next[i])[0]
	}
	var errs []error
	for i, r := range w.store.Apply(ctx, batches) {
		switch {
		case r.Err != nil:
			errs = append(errs, r.Err)
		case r.State == favfilter.Applied || r.State == favfilter.Current:
			w.next[i] = r.Header.Sequence + 1
		case r.State == favfilter.Behind && r.Header.Sequence < w.next[i]:
			errs = append(errs, fmt.Errorf("page %v fell back from %d to %d", w.ids[i], w.next[i]-1, r.Header.Sequence))
			w.next[i] = r.Header.Sequence + 1
		case r.State == favfilter.Missing:
			// The primary was a replica that had not received the page.
			errs = append(errs, fmt.Errorf("page %v is missing", w.ids[i]))
		default:
			t.Errorf("page %v: %v at %+v", w.ids[i], r.State, r.Header)
		}
	}
	w.errs = append(w.errs, errs...)
	return errors.Join(errs...)
}

// underLoad runs do while writers write the pages of ids, each writer every n-th page. Afterwards
// the writers do a few more rounds. underLoad returns the writers.
func underLoad(t *testing.T, store favfilter.Store, ids []favfilter.PageID, writers int, do func()) []*writer {
	t.Helper()
	done := make(chan struct{})
	all := make([]*writer, writers)
	var started, finished sync.WaitGroup
	for n := range all {
		var own []favfilter.PageID
		for i := n; i < len(ids); i += writers {
			own = append(own, ids[i])
		}
		w := newWriter(store, own)
		all[n] = w
		started.Add(1)
		finished.Go(func() {
			_ = w.round(t.Context(), t)
			started.Done()
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for further := 5; further > 0; {
				if w.round(t.Context(), t) != nil {
					<-tick.C
				}
				select {
				case <-done:
					further--
				default:
				}
			}
		})
	}
	started.Wait()
	do()
	close(done)
	finished.Wait()
	return all
}

// wantWhole checks that each page of the writers holds the keys up to its sequence.
func wantWhole(t *testing.T, store favfilter.Store, writers []*writer) {
	t.Helper()
	for _, w := range writers {
		for i, id := range w.ids {
			wantKeys(t, store, []favfilter.PageID{id}, int(w.next[i]-1))
		}
	}
}

// Slots move to another node and back, together with their pages, and no call fails.
func TestResharding(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	client := dialCluster(t, cluster.Addrs())
	s := openStore(t, client, "reshard")
	ids := pageIDs(24)
	create(t, s, 20_000, ids...)
	from, to := cluster.Nodes()[0], cluster.Nodes()[1]
	moving, _ := pagesOf(t, cluster, from, "reshard", ids)
	var slots []int
	for _, id := range moving {
		slot, err := client.ClusterKeySlot(t.Context(), bitsKey("reshard", id)).Result()
		must(t, err)
		slots = append(slots, int(slot))
		// Other keys in the same slots. They often move between the two strings of a page.
		for n := range 40 {
			must(t, client.Set(t.Context(), fmt.Sprintf("%s-%d", bitsKey("reshard", id), n), "", 0).Err())
		}
	}
	writers := underLoad(t, s, ids, 4, func() {
		for range 3 {
			if err := cluster.MoveSlots(t.Context(), from, to, slots); err != nil {
				t.Error(err)
			}
			from, to = to, from
		}
	})
	for _, w := range writers {
		if len(w.errs) > 0 {
			t.Errorf("%d errors, the first: %v", len(w.errs), w.errs[0])
		}
	}
	wantWhole(t, s, writers)
	for _, id := range ids {
		if now, err := cluster.Primary(t.Context(), bitsKey("reshard", id)); err != nil || now != from {
			t.Errorf("page %v was not moved, %v", id, err)
		}
	}
}

// A replica replaces its primary, either in order or by force. By force, writes may be lost, but
// the remaining pages are intact.
func TestFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	client := dialCluster(t, cluster.Addrs())
	ids := pageIDs(12)
	for _, mode := range []string{"", "TAKEOVER"} {
		name := "failover" + mode
		s := openStore(t, client, name)
		create(t, s, 3000, ids...)
		primaries, err := cluster.Primaries(t.Context())
		must(t, err)
		replicated(t, primaries...)
		primary, err := cluster.Primary(t.Context(), bitsKey(name, ids[0]))
		must(t, err)
		writers := underLoad(t, s, ids, 4, func() {
			replicas, err := cluster.ReplicasOf(t.Context(), primary)
			if err != nil || len(replicas) != 1 {
				t.Fatalf("%d replicas, %v", len(replicas), err)
			}
			must(t, cluster.Failover(t.Context(), replicas[0], mode))
			if err := cluster.WaitOK(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		for _, w := range writers {
			eventually(t, "writing after a failover", func() error { return w.round(t.Context(), t) })
			t.Logf("failover %q: %d errors on the way", mode, len(w.errs))
			if mode == "" && len(w.errs) > 0 {
				t.Errorf("an orderly failover showed: %v", w.errs[0])
			}
		}
		wantWhole(t, s, writers)
	}
}

// A node dies or hangs. Calls on its pages fail, soon at once, and calls on other pages do not. The
// store finds the replica that replaces the node.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	for _, lose := range []struct {
		name string
		do   func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill},
		{"paused", (*redistest.Server).Pause},
	} {
		t.Run(lose.name, func(t *testing.T) {
			t.Parallel()
			// No replica takes over until told to.
			cluster := redistest.StartCluster(t, 3, 1, "--cluster-replica-no-failover", "yes")
			client := dialCluster(t, cluster.Addrs())
			s := openStore(t, client, "lost")
			ids := pageIDs(16)
			create(t, s, 20_000, ids...)
			wantAll(t, s.Apply(t.Context(), addOne(ids, 1)), favfilter.Applied)
			primary := cluster.Nodes()[1]
			replicated(t, primary)
			replicas, err := cluster.ReplicasOf(t.Context(), primary)
			if err != nil || len(replicas) != 1 {
				t.Fatalf("%d replicas, %v", len(replicas), err)
			}
			lost, kept := pagesOf(t, cluster, primary, "lost", ids)
			lose.do(primary)
			nodeLost(t, s, lost, kept)

			must(t, cluster.Failover(t.Context(), replicas[0], "TAKEOVER"))
			eventuallyLoads(t, s, lost) // from the new primary
			wantKeys(t, s, lost, 1)     // apart from the errors, the pages are unchanged
			wantAll(t, s.Apply(t.Context(), addOne(lost, 2)), favfilter.Applied)
			wantKeys(t, s, ids, 2)
		})
	}
}

// nodeLost checks the calls on pages of a lost node, and others, and applies key 2 to the
// others.
func nodeLost(t *testing.T, s *redisstore.Store, lost, kept []favfilter.PageID) {
	t.Helper()
	eventuallyGivesUp(t, s, lost)
	// From here on, at most one call a second waits for the node.
	waited := 0
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		statuses, err := s.Peek(ctx, slices.Concat(lost, kept))
		cancel()
		must(t, err)
		for i, standing := range statuses {
			switch {
			case i >= len(lost):
				if standing.Err != nil || standing.Header.Sequence != 1 {
					t.Errorf("page %v of another node: %+v", kept[i-len(lost)], standing)
				}
			case standing.Err == nil:
				t.Errorf("page %v of a lost node: %+v", lost[i], standing)
			case i == 0 && !errors.Is(standing.Err, redisstore.ErrUnavailable):
				waited++
			}
		}
	}
	if waited > 10 {
		t.Errorf("%d of 20 calls waited for a lost node", waited)
	}
	if _, err := s.Peek(t.Context(), lost); err == nil {
		t.Error("peek at pages of a lost node alone: no error")
	}
	results := s.Apply(t.Context(), addOne(slices.Concat(kept, lost), 2))
	wantAll(t, results[:len(kept)], favfilter.Applied)
	for i, r := range results[len(kept):] {
		if r.Err == nil {
			t.Errorf("page %v of a lost node: %v", lost[i], r.State)
		}
	}
}
