package pages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// TestLongLosses lets the store lose anything between two calls. Every acknowledged write is found,
// and every acknowledged undo has its effect.
func TestLongLosses(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	for _, c := range []struct {
		name string
		lose func(t *testing.T, pages []string)
	}{
		{"everything flushed", func(t *testing.T, _ []string) { must(t, client.FlushAll(t.Context()).Err()) }},
		{"scripts flushed", func(t *testing.T, _ []string) { must(t, client.ScriptFlush(t.Context()).Err()) }},
		{"restarted empty", func(*testing.T, []string) { server.Kill(); server.Restart() }},
		{"bits strings deleted", func(t *testing.T, pages []string) {
			for _, p := range pages {
				must(t, client.Del(t.Context(), p+"bits").Err())
			}
		}},
		{"regions strings deleted", func(t *testing.T, pages []string) {
			for _, p := range pages {
				must(t, client.Del(t.Context(), p+"regions").Err())
			}
		}},
		{"headers overwritten", func(t *testing.T, pages []string) {
			for _, p := range pages {
				must(t, client.SetRange(t.Context(), p+"bits", 3, "rubbish").Err())
			}
		}},
		{"strings cut short", func(t *testing.T, pages []string) {
			for _, p := range pages {
				must(t, client.Set(t.Context(), p+"bits", "rubbish", 0).Err())
			}
		}},
		{"keys of another type", func(t *testing.T, pages []string) {
			for i, p := range pages {
				key := p + []string{"bits", "regions"}[i%2]
				must(t, client.Del(t.Context(), key).Err())
				must(t, client.LPush(t.Context(), key, "rubbish").Err())
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, client.FlushAll(t.Context()).Err())
			g := newRig(t, redisStore(t, server), 8)
			pages := make([]string, 8)
			for i := range pages {
				pages[i] = fmt.Sprintf("fav:{feed/%d}:", i)
			}
			surviveRounds(t, g, func() { c.lose(t, pages) })
			t.Logf("rebuilds: %v", g.reasons())
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// surviveRounds repeats: write, undo, lose, check.
func surviveRounds(t *testing.T, g *rig, lose func()) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	live := map[act]bool{}
	found := 0
	absent := 0
	for round := range 12 {
		for range 25 {
			a := add(fmt.Sprint("u", rng.IntN(20)), "hide", fmt.Sprint("p", rng.IntN(40)))
			if rng.IntN(3) == 0 {
				a = add(a.User, "block", fmt.Sprint("b", rng.IntN(20)))
			}
			was := live[a]
			live[a] = !was
			undone := a
			undone.Remove = was
			g.record(t, true, undone)
		}
		if round%3 < 2 {
			lose()
		}
		for a, is := range live {
			match := g.check(t, a.User, a.Kind, a.Target)
			if is && !match {
				t.Fatalf("round %d: %+v is missed", round, a)
			}
			if is && a.Kind == "block" {
				if !g.check(t, a.Target, "blocked-by", a.User) {
					t.Fatalf("round %d: %+v is missed by the other side", round, a)
				}
				absent++ // that user blocks no one
				if g.check(t, a.Target, "block", a.User) {
					found++
				}
			}
			if !is {
				absent++
				if match {
					found++
				}
			}
		}
	}
	g.checkRate(t, found, absent)
}

// TestLossesUnderLoad writes and reads while Redis is flushed, halves of pages are deleted, and the
// server is killed. A View misses nothing that was acknowledged before the View began.
func TestLossesUnderLoad(t *testing.T) { lossesUnderLoad(t, 60) }

func TestLongLossesUnderLoad(t *testing.T) { lossesUnderLoad(t, 200) }

func lossesUnderLoad(t *testing.T, faults int) {
	t.Helper()
	server := redistest.Start(t)
	client := server.Client()
	g := newRig(t, redisStore(t, server), 4)
	hiders := make([]hider, 8)
	var checks, undecided atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range hiders {
		h := &hiders[w]
		h.rig, h.user, h.checks, h.undecided = g, fmt.Sprint("user", w), &checks, &undecided
		wg.Go(func() { h.hideAndUndo(ctx, t) })
		wg.Go(func() { h.watch(ctx, t) })
	}
	rng := rand.New(rand.NewPCG(8, 9))
	for fault := range faults {
		next := checks.Load() + 100
		for checks.Load() < next && !t.Failed() {
			g.check(t, "calm", "hide", "p") // feeds of other pages pace the faults; their answers vary
		}
		page := fmt.Sprintf("fav:{feed/%d}:", rng.IntN(4))
		switch fault % 5 {
		case 0:
			_ = client.FlushAll(ctx).Err()
		case 1:
			_ = client.Del(ctx, page+"bits").Err()
		case 2:
			_ = client.Del(ctx, page+"regions").Err()
		case 3:
			_ = client.ScriptFlush(ctx).Err()
		case 4:
			server.Kill()
			server.Restart()
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d checks, %d undecided writes, rebuilds %v", checks.Load(), undecided.Load(), g.reasons())
	for w := range hiders {
		h := &hiders[w]
		for i := h.undone.Load(); i < h.acked.Load(); i++ {
			g.want(t, h.user, "hide", fmt.Sprint("p", i), true)
		}
	}
}

// hider is a user who hides posts p0, p1, ... and undoes each one 20 posts later.
type hider struct {
	*rig
	user              string
	acked, undone     atomic.Int64 // posts from undone to acked are hidden
	checks, undecided *atomic.Int64
}

// hideAndUndo writes, and repeats calls whose effect is unknown.
func (h *hider) hideAndUndo(ctx context.Context, t *testing.T) {
	t.Helper()
	for i := int64(0); ctx.Err() == nil; i++ {
		batch := []act{add(h.user, "hide", fmt.Sprint("p", i))}
		if i >= 20 {
			h.undone.Store(i - 19) // undecided from here, then undone
			batch = append(batch, undo(h.user, "hide", fmt.Sprint("p", i-20)))
		}
		_, err := h.Record(ctx, batch)
		for err != nil {
			if ctx.Err() != nil {
				return
			}
			if dependency(err) == "" {
				t.Errorf("record: %v", err)
				return
			}
			h.undecided.Add(1)
			_, err = h.Record(ctx, batch)
		}
		h.acked.Store(i + 1)
	}
}

// watch checks that each look finds everything acknowledged before it.
func (h *hider) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil {
		until := h.acked.Load()
		v, err := h.view(ctx, h.user)
		from := h.undone.Load()
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("view: %v", err)
			}
			return
		}
		for i := from; i < until; i++ {
			if !v.has("hide", fmt.Sprint("p", i)) {
				t.Errorf("%s misses post %d of %d to %d", h.user, i, from, until)
				return
			}
		}
		h.checks.Add(1)
	}
}
