package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// somePopulation records activities for exact expectations about a ledger with one page.
func somePopulation(t *testing.T, g *rig) {
	t.Helper()
	var batch []act
	for i := range 30 {
		batch = append(batch, add("heavy", "hide", fmt.Sprint("p", i)))
	}
	for i := range 5 {
		batch = append(batch, add("light", "block", fmt.Sprint("b", i)))
	}
	batch = append(batch, add("light", "like", "p1"))
	_, err := g.Record(t.Context(), batch)
	must(t, err)
}

func TestInspectPage(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 1)
		if p := g.inspectOne(t, 0); p.State != PageUnused || !p.Agrees() || p.Page != nil || p.Ledger.Users != 0 {
			t.Errorf("before anything was done: %+v, %+v", p, p.Ledger)
		}
		somePopulation(t, g)
		p := g.inspectOne(t, 0)
		want := &LedgerPage{
			Sequence: 1, Keys: 41, Kinds: map[string]int{"hide": 30, "block": 5, "blocked-by": 5, "like": 1}, Users: 7,
			Largest: []UserKeys{{"heavy", 30}, {"light", 6}, {"b0", 1}, {"b1", 1}, {"b2", 1}, {"b3", 1}, {"b4", 1}},
		}
		if l := p.Ledger; l.Sequence != want.Sequence || l.Keys != want.Keys || l.Users != want.Users ||
			!maps.Equal(l.Kinds, want.Kinds) || !slices.Equal(l.Largest, want.Largest) {
			t.Errorf("the ledger has %+v, want %+v", l, want)
		}
		if p.State != PageSound || !p.Agrees() || p.Residual != 0 || p.Behind != 0 || len(p.Lacks) != 0 || p.Dedicated {
			t.Errorf("a sound page: %+v", p)
		}
		if h := p.Status.Header; h.Sequence != 1 || h.Count != 41 || p.Capacity < 41 || h.Set > p.Limit {
			t.Errorf("inspected %+v, for %d keys, at most %d bits", p.Status, p.Capacity, p.Limit)
		}
	})
}

// TestInspectHarmedPage checks that an inspection reports harm and does not change it, and that a
// rebuild repairs the page.
func TestInspectHarmedPage(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 1)
	somePopulation(t, g)
	old := snapshot(t, client)
	g.record(t, true, add("heavy", "hide", "later"))
	const bits, regions = "fav:{feed/0}:bits", "fav:{feed/0}:regions"
	for _, c := range []struct {
		name string
		harm func()
		want PageInside
	}{
		{"sound", func() {}, PageInside{State: PageSound}},
		{"missing", func() { must(t, client.Del(t.Context(), bits, regions).Err()) }, PageInside{
			State: PageMissing, Lacks: map[string]int{"hide": 31, "block": 5, "blocked-by": 5, "like": 1},
		}},
		{"half", func() { must(t, client.Del(t.Context(), regions).Err()) }, PageInside{
			State: PageDamaged, Lacks: map[string]int{"hide": 31, "block": 5, "blocked-by": 5, "like": 1},
		}},
		{"behind", func() { restore(t, client, old) }, PageInside{
			State: PageBehind, Behind: 1, Residual: -1, Lacks: map[string]int{"hide": 1},
		}},
		{"of another", func() {
			other, err := g.image(t.Context(), 0, nil, ledger.PageState{Sequence: 2})
			must(t, err)
			h := other.Header()
			h.Incarnation++
			foreign, err := favfilter.NewPage(h)
			must(t, err)
			put(t, g.store, foreign)
		}, PageInside{State: PageForeign, Residual: -42, Lacks: map[string]int{"hide": 31, "block": 5, "blocked-by": 5, "like": 1}}},
		{"one key too many", func() {
			page := g.inspectOne(t, 0).Page.Clone()
			page.Insert(favfilter.Hash{H1: 1, H2: 2})
			put(t, g.store, page)
		}, PageInside{State: PageSound, Residual: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.harm()
			p := g.inspectOne(t, 0)
			if p.State != c.want.State || p.Behind != c.want.Behind || p.Residual != c.want.Residual || !maps.Equal(p.Lacks, c.want.Lacks) {
				t.Errorf("%v, behind by %d, residual %d, lacks %v, want %+v", p.State, p.Behind, p.Residual, p.Lacks, c.want)
			}
			if p.Agrees() != (c.name == "sound") || (p.Damage != nil) != (p.State == PageDamaged) {
				t.Errorf("agrees: %v, damage: %v", p.Agrees(), p.Damage)
			}
			if again := g.inspectOne(t, 0); again.State != p.State || again.Residual != p.Residual {
				t.Errorf("state %v after an inspection, %v before", again.State, p.State)
			}
			rebuilt, err := g.RebuildPage(t.Context(), 0)
			must(t, err)
			mended := g.inspectOne(t, 0)
			if !mended.Agrees() || rebuilt.Number != 0 || rebuilt.Keys != 42 || rebuilt.Sequence != 2 ||
				rebuilt.Bytes != int(mended.Status.Size.Bytes) {
				t.Errorf("rebuilt as %+v, the page is %+v", rebuilt, mended)
			}
		})
	}
	if n := g.Stats().Rebuilds["asked for"]; n != 6 {
		t.Errorf("%d rebuilds were requested, want 6", n)
	}
}

func TestInspectNoPage(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	for _, page := range []uint32{4, 8, ledger.DedicatedPages - 1, ledger.DedicatedPages, 1<<32 - 1} {
		if _, err := g.inspector.InspectPage(t.Context(), page); !errors.Is(err, ErrNoPage) {
			t.Errorf("page %d: %v", page, err)
		}
		if _, err := g.RebuildPage(t.Context(), page); !errors.Is(err, ErrNoPage) {
			t.Errorf("rebuild page %d: %v", page, err)
		}
	}
	g.useStore(faulttest.Down())
	var down *UnavailableError
	if _, err := g.inspector.InspectPage(t.Context(), 1); !errors.As(err, &down) || down.Dependency != "pages" {
		t.Errorf("without the store: %v", err)
	}
	if _, err := g.RebuildPage(t.Context(), 1); !errors.As(err, &down) || down.Dependency != "pages" {
		t.Errorf("rebuild without the store: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.inspector.InspectPage(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func isInvalid(err error, code, field string) bool {
	invalid, ok := errors.AsType[*InvalidError](err)
	return ok && invalid.Code == code && invalid.Field == field
}

// InspectUser finds a user whom another process has moved, and the user's keys, before this process
// has heard of the move.
func TestInspectFollowsMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &favfilter.Memory{}
		passive := Config{StalenessBound: time.Minute, Passive: true, MaxSharedKeys: 16} // no scrubber moves the user
		a, b := startProcess(t, l, store, passive), startProcess(t, l, store, passive)
		b.record(t, true, add("mate", "hide", "m"))
		a.recordMany(t, "bot", "hide", 50, posts("p"))
		must(t, a.applier.dedicate(t.Context(), a.hashOf("bot")))
		if b.pageOf("bot") != 0 {
			t.Fatal("the other process has already heard of the move")
		}
		in, err := b.inspector.InspectUser(t.Context(), "bot")
		must(t, err)
		if !in.Dedicated || in.Number != a.pageOf("bot") || in.User.Keys["hide"] != 50 || len(in.User.Lacks) != 0 {
			t.Errorf("on page %d, dedicated: %v, with %v keys, %v of them not reported", in.Number, in.Dedicated, in.User.Keys, in.User.Lacks)
		}
	})
}

// TestInspectFew: of many inspections two read their pages at once, and all are answered.
func TestInspectFew(t *testing.T) {
	const calls = 12
	var inside, most atomic.Int64
	next := make(chan struct{})
	l := newLedger(t, 1).Around(func(ctx context.Context, c *ledger.Call, do func(ctx context.Context) error) error {
		if c.Operation == "keys" {
			n := inside.Add(1)
			defer inside.Add(-1)
			seen := most.Load()
			for n > seen && !most.CompareAndSwap(seen, n) {
				seen = most.Load()
			}
			<-next
		}
		return do(ctx)
	})
	g := newRigWith(t, &favfilter.Memory{}, l)
	var asking sync.WaitGroup
	for i := range calls {
		asking.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = g.Inspector().InspectUser(t.Context(), "1")
			} else {
				_, err = g.Inspector().InspectPage(t.Context(), 0)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range calls {
		next <- struct{}{}
	}
	asking.Wait()
	if n := most.Load(); n > maxInspected {
		t.Errorf("%d pages were inspected at once, want at most %d", n, maxInspected)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxInspected { // takes all slots
		_, err := g.Inspector().enter(t.Context())
		must(t, err)
	}
	if _, err := g.Inspector().InspectUser(ended, "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left waits for a page: %v", err)
	}
}
