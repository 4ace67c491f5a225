package pages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// loads counts the calls that read pages, and the pages read.
type loads struct {
	favfilter.Store
	calls, pages atomic.Int64
	after        func() // called once, after the next read
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

// sharedLedgers are the identities of ledgers to which others write, as the tests say.
var sharedLedgers sync.Map

func init() {
	writtenByOthers = func(l *ledger.Ledger) bool {
		_, shared := sharedLedgers.Load(l.Identity())
		return shared
	}
}

// sharedLedger returns l, which counts as written by others from then on.
func sharedLedger(l *ledger.Ledger) *ledger.Ledger {
	sharedLedgers.Store(l.Identity(), nil)
	return l
}

func cached(t *testing.T, bytes int) (*rig, *loads) {
	t.Helper()
	store := &loads{Store: &favfilter.Memory{}}
	l, err := ledger.Open(t.Context(), "sqlite:"+t.TempDir()+"/ledger.db", ledger.Options{Pages: 16})
	must(t, err)
	r, err := openRecorder(t.Context(), Config{Ledger: l, Store: store, PageCache: bytes, Passive: true})
	must(t, err)
	t.Cleanup(func() {
		r.Close()
		must(t, l.Close())
	})
	return &rig{recorder: r, store: store}, store
}

// A page leaves the cache when it proves to lack writes that its sequence includes.
func TestCacheForgetsRepairedPages(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, g *rig, page uint32){
		"repair": func(t *testing.T, g *rig, page uint32) {
			must(t, g.Repair(t.Context(), PageAt{Page: page, Sequence: 1}))
		},
		"verify": func(_ *testing.T, g *rig, page uint32) { g.verify(page) },
	} {
		t.Run(name, func(t *testing.T) {
			g, store := cached(t, 1<<20)
			g.record(t, true, add("1", "hide", "p"))
			page := g.layout.pageOf(UserHash(g.identity.Seed, "1"))
			loaded, err := store.Load(t.Context(), []favfilter.PageID{g.layout.pageID(page)})
			must(t, err)
			empty, err := favfilter.NewPage(loaded[0].Page.Header())
			must(t, err)
			_, err = store.Replace(t.Context(), favfilter.Replacement{ID: g.layout.pageID(page), Page: empty, Seen: loaded[0].Version})
			must(t, err)
			g.want(t, "1", "hide", "p", None)
			mend(t, g, page)
			g.want(t, "1", "hide", "p", Direct)
		})
	}
}

// When another process has repaired a page at the same sequence, the cached copy is used only until
// the scrub has checked the page.
func TestCacheForgetsWhatOthersRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 1), &favfilter.Memory{}
		c := Config{StalenessBound: time.Second, PageCache: 1 << 20, ScrubRate: 1}
		a, b := startProcess(t, sharedLedger(l), store, c), startProcess(t, sharedLedger(l), store, c)
		a.record(t, true, add("1", "hide", "p"))
		loaded, err := store.Load(t.Context(), []favfilter.PageID{b.layout.pageID(0)})
		must(t, err)
		empty, err := favfilter.NewPage(loaded[0].Page.Header())
		must(t, err)
		_, err = store.Replace(t.Context(), favfilter.Replacement{ID: b.layout.pageID(0), Page: empty, Seen: loaded[0].Version})
		must(t, err)
		b.want(t, "1", "hide", "p", None) // and caches the empty page
		must(t, a.Repair(t.Context(), PageAt{Page: 0, Sequence: 1}))
		b.scrubAll()
		b.want(t, "1", "hide", "p", Direct)
		a.Close()
		b.Close()
		must(t, l.Close())
	})
}

// Once a process has acknowledged a write, every other process sees it, even one with an older copy
// of the page in its cache.
func TestCacheOfManyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 4), &favfilter.Memory{}
		c := Config{StalenessBound: time.Second, PageCache: 1 << 20, ScrubRate: 1}
		var all []*process
		for range 3 {
			all = append(all, startProcess(t, sharedLedger(l), store, c))
		}
		rng := rand.New(rand.NewPCG(1, 2))
		live := make(map[Activity]bool)
		looked, found := 0, 0
		for range 600 {
			a := add(fmt.Sprint(rng.IntN(6)), "hide", fmt.Sprint("p", rng.IntN(30)))
			for i := range 2 * len(all) { // so that every process caches the page
				_, err := all[i%len(all)].View(t.Context(), a.User, []Kind{all[0].kind(t, "hide")}, nil)
				must(t, err)
			}
			if rng.IntN(4) == 0 {
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
			}
			change := a
			change.Remove = live[a]
			all[rng.IntN(len(all))].record(t, true, change)
			live[a] = !live[a]
			v, err := all[rng.IntN(len(all))].View(t.Context(), a.User, []Kind{all[0].kind(t, "hide")}, nil)
			must(t, err)
			switch got := v.Check(0, a.Target); {
			case live[a] && got != Direct:
				t.Fatalf("%+v: match %v, want Direct", a, got)
			case !live[a]:
				looked++
				if got != None {
					found++
				}
			}
		}
		all[0].checkRate(t, found, looked)
		if s := all[1].Stats(); s.CacheHits < 600 {
			t.Errorf("%d views from the cache, want at least 600", s.CacheHits)
		}
		for _, p := range all {
			p.Close()
		}
		must(t, l.Close())
	})
}

// A process that cannot ask the ledger does not trust its cache.
func TestCacheWithoutTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 1), &favfilter.Memory{}
		c := Config{StalenessBound: time.Second, PageCache: 1 << 20, ScrubRate: 1}
		var off atomic.Bool
		a := startProcess(t, sharedLedger(l), store, c)
		b := startProcess(t, sharedLedger(l.Around(before(failing(&off), "changed"))), store, c)
		a.record(t, true, add("1", "hide", "before"))
		b.want(t, "1", "hide", "before", Direct)
		off.Store(true)
		a.record(t, true, add("1", "hide", "p"))
		b.want(t, "1", "hide", "p", Direct)
		a.Close()
		b.Close()
		must(t, l.Close())
	})
}

func TestCacheConfig(t *testing.T) {
	for _, bytes := range []int{-1, 1<<40 + 1} {
		c := Config{Ledger: &ledger.Ledger{}, Store: &favfilter.Memory{}, PageCache: bytes}
		if err := c.complete(); err == nil {
			t.Errorf("a cache of %d bytes is accepted", bytes)
		}
	}
}
