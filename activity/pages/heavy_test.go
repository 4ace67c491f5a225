package pages

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// heavy is the number of keys of TestHeavyUser's user. 5 million keys take some minutes.
//
//nolint:gochecknoglobals // flags are package-level
var heavy = flag.Int("heavy.keys", 0, "keys of the user of TestHeavyUser; 0: the test is skipped")

// heavyUser is the user of TestHeavyUser.
const heavyUser = "heavy"

// traffic is what other users do during the test, and how long their calls take.
type traffic struct {
	mu            sync.Mutex
	phase         string
	writes, feeds map[string][]time.Duration // by phase
	failed        map[string]int
}

func (tr *traffic) note(to map[string][]time.Duration, took time.Duration, err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	to[tr.phase] = append(to[tr.phase], took)
	if err != nil {
		tr.failed[tr.phase+": "+err.Error()]++
	}
}

func (tr *traffic) enter(phase string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.phase = phase
}

// run writes and reads for some users until ctx ends.
func (tr *traffic) run(ctx context.Context, r *rig, worker int) {
	for i := 0; ctx.Err() == nil; i++ {
		user := fmt.Sprintf("w%d-%d", worker, i%50)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		start := time.Now()
		_, err := r.Record(limited, []act{{User: user, Kind: "hide", Target: fmt.Sprint("p", i), Remove: i%3 == 2}})
		tr.note(tr.writes, time.Since(start), err)
		start = time.Now()
		_, err = r.view(limited, user)
		tr.note(tr.feeds, time.Since(start), err)
		cancel()
		time.Sleep(20 * time.Millisecond) // a pace, not a wait
	}
}

// quantiles formats the median, the 99th percentile and the maximum.
func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	return fmt.Sprintf("%d, p50 %v, p99 %v, worst %v", len(d), d[len(d)/2].Round(10*time.Microsecond),
		d[len(d)*99/100].Round(10*time.Microsecond), d[len(d)-1].Round(10*time.Microsecond))
}

// TestHeavyUser records a user with very many keys on PostgreSQL and Redis. It loses and rebuilds
// the user's page while two people a second block the user, reads the page, and deletes the user.
// Other users write and read through the same process all the time, and none of their calls fails.
// Run it with -heavy.keys=5000000 -timeout 60m -v.
func TestHeavyUser(t *testing.T) {
	if *heavy == 0 {
		t.Skip("needs -heavy.keys")
	}
	server, pg := redistest.Start(t), pgtest.Start(t)
	l, err := ledger.Open(t.Context(), pg.Schema(), ledger.Options{Pages: 1024})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	store := redisStore(t, server)
	p := startProcess(t, l, store, Config{OnRebuild: func(reason string, took time.Duration, err error) {
		if took > time.Second || err != nil {
			t.Logf("a rebuild because the page is %s took %v: %v", reason, took.Round(time.Millisecond), err)
		}
	}})
	t.Cleanup(p.Close)

	tr := &traffic{writes: map[string][]time.Duration{}, feeds: map[string][]time.Duration{}, failed: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() { tr.run(ctx, p, w) })
	}
	var peak atomic.Uint64
	workers.Go(func() {
		for ctx.Err() == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			time.Sleep(500 * time.Millisecond)
		}
	})
	var phases []string
	phase := func(name string, do func()) {
		t.Helper()
		tr.enter(name)
		phases = append(phases, name)
		start := time.Now()
		do()
		t.Logf("%s: %v", name, time.Since(start).Round(time.Millisecond))
	}
	phase("quiet", func() { time.Sleep(5 * time.Second) })
	phase("record", func() { recordHeavy(t, p, *heavy) })
	phase("rebuild", func() { rebuildHeavy(t, p, server) })
	phase("read", func() { readHeavy(t, p) })
	phase("delete", func() {
		n, err := p.DeleteUser(t.Context(), heavyUser)
		if err != nil || n < *heavy {
			t.Errorf("deleted %d activities: %v", n, err)
		}
	})
	phase("after", func() {
		p.want(t, heavyUser, "hide", "p1", false)
		time.Sleep(5 * time.Second)
	})
	stop()
	workers.Wait()
	for _, name := range phases {
		t.Logf("others, %s: writes %s; feeds %s", name, quantiles(tr.writes[name]), quantiles(tr.feeds[name]))
	}
	t.Logf("largest heap: %d MiB; rebuilds %v", peak.Load()>>20, p.Stats().Rebuilds)
	for what, n := range tr.failed {
		t.Errorf("other users: %d calls failed in %s", n, what)
	}
}

// recordHeavy records the keys in bulk.
func recordHeavy(t *testing.T, p *rig, keys int) {
	t.Helper()
	bulk := p.NewBulk()
	const some = 20_000
	for from := 0; from < keys; from += some {
		activities := make([]act, min(some, keys-from))
		for i := range activities {
			activities[i] = add(heavyUser, "hide", fmt.Sprint("p", from+i))
		}
		_, err := recordBulk(t.Context(), bulk, activities)
		must(t, err)
	}
	must(t, bulk.Finish(t.Context()))
}

// rebuildHeavy loses the page, and returns when feeds of the user are answered again.
func rebuildHeavy(t *testing.T, p *rig, server *redistest.Server) {
	t.Helper()
	client := server.Client()
	names, err := client.Keys(t.Context(), "*own-*:bits").Result()
	must(t, err)
	if len(names) == 0 {
		t.Fatal("the user has no dedicated page")
	}
	for _, name := range names {
		must(t, client.Del(t.Context(), name, strings.TrimSuffix(name, "bits")+"regions").Err())
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var blockers sync.WaitGroup
	defer blockers.Wait()
	defer stop()
	for i := 0; ctx.Err() == nil; i++ {
		blockers.Go(func() {
			start := time.Now()
			if _, err := p.Record(ctx, []act{add(fmt.Sprint("blocker", i), "block", heavyUser)}); err != nil && ctx.Err() == nil {
				t.Errorf("a block of the user, after %v: %v", time.Since(start), err)
			}
		})
		limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		v, err := p.view(limited, heavyUser)
		if err == nil && !v.has("hide", "p1") {
			t.Error("the page lacks a key")
		}
		if err != nil {
			<-limited.Done()
		}
		cancel()
		if err == nil {
			return
		}
	}
}

// readHeavy looks for live and for absent keys, as feeds do.
func readHeavy(t *testing.T, p *rig) {
	t.Helper()
	before := p.Stats().FromHeld
	for i := range 200 {
		v, err := p.view(t.Context(), heavyUser)
		must(t, err)
		if !v.has("hide", fmt.Sprint("p", i*17)) || !v.has("blocked-by", "blocker0") {
			t.Errorf("look %d: an activity is missed", i)
		}
	}
	if n := p.Stats().FromHeld - before; n == 0 {
		t.Error("the page is not held")
	}
}
