package redisstore_test

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// identity returns the identity of all test pages.
func identity() favfilter.Identity {
	return favfilter.Identity{Seed: 42, Pages: 64, Incarnation: 7}
}

func openStore(t testing.TB, client redis.UniversalClient, name string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client, name)
	must(t, err)
	return s
}

// dial returns a separate client for addr that honours deadlines. It does not retry and has no
// timeouts of its own, so that the test controls both.
func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     addr,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaxRetries:               -1,
		DialerRetries:            1,
		ReadTimeout:              -1,
		WriteTimeout:             -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newPage(t testing.TB, number uint32, shape favfilter.Shape) *favfilter.Page {
	t.Helper()
	p, err := favfilter.NewPage(favfilter.Header{Identity: identity(), Shape: shape, Number: number, Build: 1 + uint64(number)})
	must(t, err)
	return p
}

func shapeFor(t testing.TB, capacity int) favfilter.Shape {
	t.Helper()
	s, err := favfilter.ShapeFor(capacity, 0.001)
	must(t, err)
	return s
}

// create stores an empty page for capacity keys under each ID.
func create(t testing.TB, s favfilter.Store, capacity int, ids ...favfilter.PageID) {
	t.Helper()
	for _, id := range ids {
		put(t, s, id, newPage(t, id.Number, shapeFor(t, capacity)))
	}
}

func put(t testing.TB, s favfilter.Store, id favfilter.PageID, page *favfilter.Page) {
	t.Helper()
	done, err := s.Replace(t.Context(), favfilter.Replacement{ID: id, Page: page})
	if err != nil || !done {
		t.Fatalf("create page %v: %v, %v", id, done, err)
	}
}

func pageIDs(n uint32) []favfilter.PageID {
	ids := make([]favfilter.PageID, n)
	for i := range ids {
		ids[i].Number = uint32(i)
	}
	return ids
}

// addOne returns a batch for each page that adds the n-th key at sequence n.
func addOne(ids []favfilter.PageID, n uint64) []favfilter.Batch {
	batches := make([]favfilter.Batch, len(ids))
	for i, id := range ids {
		batches[i] = favfilter.Batch{ID: id, Identity: identity(), Sequence: n, Add: hashes(id.Number, int(n), 1)}
	}
	return batches
}

// hashes returns n keys of a page, from the given one on.
func hashes(page uint32, from, n int) []favfilter.Hash {
	hs := make([]favfilter.Hash, n)
	for i := range hs {
		rng := rand.New(rand.NewPCG(uint64(page), uint64(from+i)))
		hs[i] = favfilter.Hash{H1: rng.Uint64(), H2: rng.Uint64()}
	}
	return hs
}

func wantAll(t testing.TB, results []favfilter.Result, want favfilter.State) {
	t.Helper()
	for i, r := range results {
		if r.State != want || r.Err != nil {
			t.Errorf("batch %d: %v, %v, want %v", i, r.State, r.Err, want)
		}
	}
}

// wantKeys checks that each page holds exactly its keys 1 to n.
func wantKeys(t testing.TB, s favfilter.Store, ids []favfilter.PageID, n int) {
	t.Helper()
	loaded, _, err := s.Load(t.Context(), ids)
	must(t, err)
	for i, l := range loaded {
		if l.Page == nil {
			t.Errorf("page %d: %+v", i, l)
			continue
		}
		if h := l.Page.Header(); int(h.Count) != n || h.Sequence != uint64(n) {
			t.Errorf("page %d holds %d keys at sequence %d, want %d", i, h.Count, h.Sequence, n)
		}
		if slices.ContainsFunc(hashes(ids[i].Number, 1, n), func(h favfilter.Hash) bool { return !l.Page.Contains(h) }) {
			t.Errorf("page %d lost a key", i)
		}
	}
}

// commandsOf returns the commands that the server runs because of do. They include commands in
// scripts, but not those for connecting and for asking the server.
func commandsOf(server *redistest.Server, do func()) map[string]int64 {
	before := server.CommandStats()
	do()
	after := server.CommandStats()
	for name, n := range before {
		after[name] -= n
	}
	for name, n := range after {
		if n == 0 || name == "info" || name == "hello" || strings.HasPrefix(name, "client") {
			delete(after, name)
		}
	}
	return after
}

// hook calls its own functions where set, which get the client's function and pass commands on.
type hook struct {
	mu       sync.Mutex
	process  func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error
	pipeline func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.mu.Lock()
		f := h.process
		h.mu.Unlock()
		if f == nil {
			return next(ctx, cmd)
		}
		return f(ctx, cmd, next)
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.mu.Lock()
		f := h.pipeline
		h.mu.Unlock()
		if f == nil {
			return next(ctx, cmds)
		}
		return f(ctx, cmds, next)
	}
}
