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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLossesUnderLoad writes and reads while the server is killed or flushed, and strings of pages
// are deleted or overwritten. A View misses nothing that was acknowledged before the View began.
// What was undone is gone at the end.
func TestLossesUnderLoad(t *testing.T) { lossesUnderLoad(t, 60) }

func TestLongLossesUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("TestLossesUnderLoad does it with fewer losses")
	}
	lossesUnderLoad(t, 200)
}

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
		switch fault % 8 {
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
		case 5:
			_ = client.SetRange(ctx, page+"bits", 3, "rubbish").Err()
		case 6:
			_ = client.Set(ctx, page+"bits", "rubbish", 0).Err()
		case 7:
			key := page + []string{"bits", "regions"}[rng.IntN(2)]
			_ = client.Del(ctx, key).Err()
			_ = client.LPush(ctx, key, "rubbish").Err()
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d checks, %d undecided writes, rebuilds %v", checks.Load(), undecided.Load(), g.reasons())
	found, gone := 0, 0
	for w := range hiders {
		h := &hiders[w]
		for i := h.undone.Load(); i < h.acked.Load(); i++ {
			g.want(t, h.user, "hide", fmt.Sprint("p", i), true)
		}
		if undone := int(h.undone.Load()) - 1; undone > 0 { // the last one is undecided
			found, gone = found+g.countFound(t, h.user, "hide", posts("p"), undone), gone+undone
		}
	}
	g.checkRate(t, found, gone)
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
