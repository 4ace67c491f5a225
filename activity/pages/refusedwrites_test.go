package pages

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// command sends a command to a server.
func command(t *testing.T, s *redistest.Server, args ...any) {
	t.Helper()
	if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// refusing are states in which Redis refuses writes, by their error: what begins and ends them.
func refusing() map[string][2]func(t *testing.T, s *redistest.Server) {
	sends := func(args ...any) func(t *testing.T, s *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, args...)
		}
	}
	return map[string][2]func(t *testing.T, s *redistest.Server){
		"OOM":        {sends("CONFIG", "SET", "maxmemory", 1), sends("CONFIG", "SET", "maxmemory", 0)},
		"READONLY":   {sends("REPLICAOF", "127.0.0.1", 1), sends("REPLICAOF", "NO", "ONE")},
		"NOREPLICAS": {sends("CONFIG", "SET", "min-replicas-to-write", 1), sends("CONFIG", "SET", "min-replicas-to-write", 0)},
		"MISCONF":    {failSnapshot, sends("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")},
	}
}

// failSnapshot has a snapshot fail, after which Redis refuses writes.
func failSnapshot(t *testing.T, s *redistest.Server) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gone")
	must(t, os.Mkdir(dir, 0o700))
	command(t, s, "CONFIG", "SET", "dir", dir)
	must(t, os.Remove(dir))
	_ = s.Client().Do(t.Context(), "BGSAVE").Err() // it fails now or later
	for !strings.Contains(s.Client().Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err") {
		must(t, t.Context().Err())
	}
}

// recordEach records that each user hides the post.
func (g *rig) recordEach(t *testing.T, users []string, post string) {
	t.Helper()
	var all sync.WaitGroup
	for _, user := range users {
		all.Go(func() {
			if _, err := g.Record(t.Context(), []act{add(user, "hide", post)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Redis answers reads and refuses writes. The first feed of a page after a write rebuilds the page.
// Later ones take the page that the process holds, also while the ledger hangs.
func TestRebuildsWhileRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	for says, state := range refusing() {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			const pages, rounds = 8, 25
			server := redistest.Start(t, "--save", "3600 1000000", "--enable-protected-configs", "yes")
			guard := redisstore.Guard(server.Client(), nil) // or each page would wait a second for its first refused write
			hanging := &hangingLedger{}
			p, err := openPages(t.Context(), Config{
				Ledger: newLedger(t, pages).Around(hanging.around), Store: redisStore(t, server), StalenessBound: 100 * time.Millisecond, Passive: true,
			})
			must(t, err)
			t.Cleanup(p.Close)
			g := &rig{Pages: p, store: p.storage.store}
			users := g.onEach(pages)
			g.recordEach(t, users, "p0")
			state[0](t, server)
			if err := server.Client().Set(t.Context(), "filler", "x", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), says) {
				t.Fatalf("a write is answered %v, want %s", err, says)
			}
			feeds := func(posts int) (rebuilds uint64, views Stats) {
				t.Helper()
				before := g.Stats()
				for n := range rounds * pages {
					v, err := g.view(t.Context(), users[n%pages])
					must(t, err)
					for post := range posts {
						if !v.has("hide", fmt.Sprint("p", post)) {
							t.Fatalf("user %d: p%d is missed", n%pages, post)
						}
					}
				}
				now := g.Stats()
				return sum(now.Rebuilds) - sum(before.Rebuilds), Stats{
					FromStore: now.FromStore - before.FromStore, FromLedger: now.FromLedger - before.FromLedger, FromHeld: now.FromHeld - before.FromHeld,
				}
			}
			for posts := 2; posts < 4; posts++ {
				g.recordEach(t, users, fmt.Sprint("p", posts-1))
				made, from := feeds(posts)
				if made > pages || posts == 2 && made < pages { // writes find a page that lacks others, and rebuild it
					t.Errorf("%d feeds rebuilt %d pages, want one rebuild for each of %d", rounds*pages, made, pages)
				}
				if from.FromStore != 0 || from.FromLedger != made || from.FromHeld != rounds*pages-made {
					t.Errorf("%d views from the store, %d from the ledger, %d of held pages", from.FromStore, from.FromLedger, from.FromHeld)
				}
			}
			hanging.hangs.Store(true)
			if made, from := feeds(3); made != 0 || from.FromHeld != rounds*pages {
				t.Errorf("while the ledger hangs: %d rebuilds, %d views of held pages", made, from.FromHeld)
			}
			hanging.hangs.Store(false)
			for g.known.Reachable() != nil {
				_ = g.known.PollSince(t.Context(), g.life.Elapsed())
			}
			state[1](t, server)
			for n := 0; isOpen(guard); n++ { // each write waits for one staleness bound
				g.recordEach(t, users[:1], fmt.Sprint("while it is left alone ", n))
			}
			g.recordEach(t, users, "p3")
			if made, from := feeds(4); made != 0 || from.FromStore != rounds*pages {
				t.Errorf("afterwards: %d rebuilds, %d views from the store", made, from.FromStore)
			}
		})
	}
}

// isOpen reports whether a breaker stops writes.
func isOpen(b *redisstore.Breakers) bool {
	_, writes := b.Open()
	return slices.Contains(slices.Collect(maps.Values(writes)), true)
}

func sum(counts map[string]uint64) (all uint64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// A page that the store did not take serves a reader only if it has what the reader requires, and
// its user.
func TestHeldPageServes(t *testing.T) {
	const required = 5
	at := func(current bool) known.Position { return known.Position{Left: 2, Known: current} }
	for name, c := range map[string]struct {
		at       known.Position
		sequence uint64
		left     uint32
		reason   string
		serves   bool
	}{
		"of the required sequence":           {at(true), required, 2, PageBehind, true},
		"newer":                              {at(true), required + 1, 2, PageMissing, true},
		"stale":                              {at(true), required - 1, 2, PageBehind, false},
		"somebody left it":                   {at(true), required, 3, PageBehind, false},
		"closed":                             {at(true), closedSequence, 2, PageBehind, false},
		"for a page of another ledger":       {at(true), required, 2, PageForeign, true},
		"cut off, for a stale page":          {at(false), required, 2, PageBehind, true},
		"cut off, for a missing page":        {at(false), required, 2, PageMissing, true},
		"cut off, for a damaged page":        {at(false), required, 2, PageDamaged, true},
		"cut off, for another ledger's page": {at(false), required, 2, PageForeign, false},
		"cut off, for a closed page":         {at(false), required, 2, reasonClosed, false},
	} {
		p := &reading{at: c.at, want: required}
		if got := p.serves(favfilter.Header{Sequence: c.sequence, Left: c.left}, c.reason); got != c.serves {
			t.Errorf("%s: serves %v, want %v", name, got, c.serves)
		}
	}
}

// A held page that the store did not take is not dropped for an older page in the store. It is for
// another build of its sequence: that may have repaired it.
func TestRefusedPageStaysHeld(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.record(t, true, add("1", "hide", "p"))
	old := g.header(t, 0)
	g.record(t, true, add("1", "hide", "q"))
	made, err := g.image(t.Context(), 0, nil, ledger.PageState{Sequence: 2})
	must(t, err)
	g.rebuilder.held.putRefused(0, made)
	g.rebuilder.held.put(0, made)
	g.rebuilder.held.keepBuild(0, old)
	if h := g.rebuilder.held.get(0); h.page != made || !h.refused {
		t.Error("the page is not held as one that the store did not take")
	}
	g.rebuilder.held.keepBuild(0, g.header(t, 0))
	if g.rebuilder.held.get(0).page != nil {
		t.Error("the page is held beside another build of its sequence")
	}
}
