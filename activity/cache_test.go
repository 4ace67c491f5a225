package activity

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// loads counts the calls of a store that read pages, and the pages.
type loads struct {
	favfilter.Store
	calls, pages atomic.Int64
	after        func() // once
}

func (s *loads) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	s.calls.Add(1)
	s.pages.Add(int64(len(ids)))
	loaded, err := s.Store.Load(ctx, ids)
	if do := s.after; do != nil {
		s.after = nil
		do()
	}
	return loaded, err
}

func cached(t *testing.T, bytes int) (*rig, *loads) {
	t.Helper()
	store := &loads{Store: &favfilter.Memory{}}
	l, err := ledger.Open(t.Context(), "sqlite:"+t.TempDir()+"/ledger.db", ledger.Options{Pages: 16})
	must(t, err)
	r, err := Open(t.Context(), Config{Ledger: l, Store: store, PageCache: bytes, Passive: true})
	must(t, err)
	t.Cleanup(func() {
		r.Close()
		must(t, l.Close())
	})
	return &rig{Recorder: r, store: store}, store
}

// A View of a page that was read before needs no round trip to the store until the page changes.
func TestCacheTakesNoRoundTrip(t *testing.T) {
	g, store := cached(t, 1<<20)
	g.record(t, true, add("1", "hide", "p"))
	g.record(t, true, add("1", "seen", "s"))
	g.record(t, true, add("2", "block", "1"))
	all := g.Kinds().All()
	look := func(when string, calls, pages int64, want map[string]Match) {
		t.Helper()
		before, parts := store.calls.Load(), store.pages.Load()
		v, err := g.View(t.Context(), "1", all, nil)
		must(t, err)
		if c, p := store.calls.Load()-before, store.pages.Load()-parts; c != calls || p != pages {
			t.Errorf("%s: %d reads of %d pages, want %d of %d", when, c, p, calls, pages)
		}
		for i, k := range all {
			for id, match := range want {
				if kind, target, _ := cutKey(id); kind == k.Name && v.Check(i, target) != match {
					t.Errorf("%s: %s is %v, want %v", when, id, v.Check(i, target), match)
				}
			}
		}
	}
	there := map[string]Match{"hide p": Direct, "seen s": Direct, "block 2": Reverse}
	look("the first time", 1, 2, there)
	look("again", 0, 0, there)
	g.record(t, true, add("1", "hide", "q"))
	there["hide q"] = Direct
	look("after a write", 1, 1, there)
	look("after a write, again", 0, 0, there)
	g.record(t, true, add("1", "seen", "u"))
	there["seen u"] = Direct
	look("after a post was seen", 1, 1, there)
	look("after a post was seen, again", 0, 0, there)
	v, err := g.View(t.Context(), "1", all, nil)
	must(t, err)
	for i, k := range all {
		if k.Name == "seen" {
			must(t, v.Record(t.Context(), i, []string{"w"}))
		}
	}
	there["seen w"] = Direct
	look("after the View recorded", 1, 1, there)
	if s := g.Stats(); s.CacheHits < 3 || s.CacheMisses != 4 || s.CacheBytes == 0 || s.CacheBytes > 1<<20 {
		t.Errorf("%+v", s)
	}
	_, err = g.DeleteUser(t.Context(), "1")
	must(t, err)
	g.want(t, "1", "seen", "s", None) // of an empty window: certain
}

func cutKey(id string) (kind, target string, ok bool) {
	_, err := fmt.Sscan(id, &kind, &target)
	return kind, target, err == nil
}

// However many come back, no more is held than was asked for, and nothing is missed for it.
func TestCacheIsBounded(t *testing.T) {
	const most = 64 << 10
	g, _ := cached(t, most)
	for i := range 200 {
		user := fmt.Sprint("u", i)
		g.record(t, true, add(user, "hide", "p"))
		g.record(t, true, add(user, "seen", "s"))
		for back := range 3 {
			of := fmt.Sprint("u", max(0, i-back*40))
			g.want(t, of, "hide", "p", Direct)
			g.want(t, of, "seen", "s", Direct)
		}
		if held := g.Stats().CacheBytes; held > most {
			t.Fatalf("%d bytes held, %d at most", held, most)
		}
	}
	if s := g.Stats(); s.CacheBytes < most/2 || s.CacheHits == 0 {
		t.Errorf("%d bytes held, %d hits", s.CacheBytes, s.CacheHits)
	}
}

// A window counts with all that it holds.
func TestCacheCountsWindows(t *testing.T) {
	g, _ := cached(t, 1<<20)
	const seenPosts = 2000
	held := func(n int) int {
		t.Helper()
		_, err := g.Record(t.Context(), sightings("1", posts("s"), n))
		must(t, err)
		g.want(t, "1", "seen", "s0", Direct)
		return g.Stats().CacheBytes
	}
	if few, many := held(1), held(seenPosts); many-few < seenPosts {
		t.Errorf("%d bytes held of a window with one post, %d of one with %d", few, many, seenPosts)
	}
}

// A reader that reads during writes does not see less at its next read than was acknowledged.
func TestCacheWhileWritten(t *testing.T) { cacheWhileWritten(t, 100) }

func TestLongCacheWhileWritten(t *testing.T) { cacheWhileWritten(t, 300) }

func cacheWhileWritten(t *testing.T, writes int) {
	t.Helper()
	g, _ := cached(t, 1<<20)
	kinds := g.Kinds().All()
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := g.View(context.WithoutCancel(ctx), "1", kinds, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range writes {
		id := fmt.Sprint("p", i)
		_, err := g.Record(t.Context(), []Activity{add("1", "seen", id)}) // a false positive is unchanged
		must(t, err)
		g.record(t, true, add("1", "hide", id))
		g.want(t, "1", "seen", id, Direct)
		g.want(t, "1", "hide", id, Direct)
	}
	stop()
	readers.Wait()
}

// A window that was read before a write, and arrives after it, is not cached.
func TestCacheOfWindowsReadSlowly(t *testing.T) {
	g, store := cached(t, 1<<20)
	g.record(t, true, add("1", "seen", "before"))
	store.after = func() { g.record(t, true, add("1", "seen", "p")) }
	g.want(t, "1", "seen", "before", Direct)
	g.want(t, "1", "seen", "p", Direct)
}

// When the store fails, cached windows are still used, and others are degraded.
func TestCacheWithoutTheStore(t *testing.T) {
	g, store := cached(t, 1<<20)
	g.record(t, true, add("1", "hide", "p"))
	g.record(t, true, add("1", "seen", "s"))
	g.record(t, true, add("2", "hide", "q"))
	g.record(t, true, add("2", "seen", "s"))
	for _, user := range []string{"1", "2"} {
		g.want(t, user, "hide", "p", g.match(t, user, "hide", "p"))
	}
	g.want(t, "1", "seen", "s", Direct)
	store.Store = faulttest.Down{}
	v, err := g.View(t.Context(), "1", g.Kinds().All(), nil)
	must(t, err)
	if len(v.Degraded) > 0 || v.Check(g.number(t, "seen"), "s") != Direct || v.Check(g.number(t, "hide"), "p") != Direct {
		t.Errorf("degraded %v", v.Degraded)
	}
	v, err = g.View(t.Context(), "2", g.Kinds().All(), nil)
	must(t, err)
	if len(v.Degraded) != 1 || v.Degraded[0].Kind != "seen" || v.Check(g.number(t, "hide"), "q") != Direct {
		t.Errorf("degraded %v", v.Degraded)
	}
}

func (g *rig) match(t *testing.T, user, kind, id string) Match {
	t.Helper()
	v, err := g.View(t.Context(), user, []Kind{g.kind(t, kind)}, nil)
	must(t, err)
	return v.Check(0, id)
}

// number is the place of a kind among all.
func (g *rig) number(t *testing.T, name string) int {
	t.Helper()
	for i, k := range g.Kinds().All() {
		if k.Name == name {
			return i
		}
	}
	t.Fatalf("there is no kind %s", name)
	return -1
}

// Parts that have gone by are not used, however lately they were.
func TestCacheOfWindowsThatGoBy(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	g.Close()
	now := time.Now()
	r, err := Open(t.Context(), Config{
		Ledger: g.ledger, Store: g.store, PageCache: 1 << 20, Passive: true, Now: func() time.Time { return now },
	})
	must(t, err)
	t.Cleanup(r.Close)
	g.Recorder = r
	g.record(t, true, add("1", "seen", "p"))
	for range 8 {
		g.want(t, "1", "seen", "p", Direct)
		g.want(t, "1", "seen", "p", Direct)
		if now = now.Add(5 * 24 * time.Hour); g.match(t, "1", "seen", "p") == None {
			break
		}
	}
	g.want(t, "1", "seen", "p", None)
}
