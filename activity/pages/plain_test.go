package pages

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/ratetest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// The tests of this file are cases that a plain filter gets wrong: a Bloom bitmap and a collision
// bitmap alone. The comments describe the plain filter's failure. The tests check that a ledger
// prevents it.

// checkRate fails if more of the absent keys were found than the rate of one key explains. Ledgers
// have random seeds, so the keys found differ from run to run.
func (p *Pages) checkRate(t testing.TB, found, keys int) {
	t.Helper()
	if most := ratetest.Most(p.storage.keyRate * float64(keys)); found > most {
		t.Errorf("%d false positives of %d keys: %.4f %%, more than the %d that %.4f %% allows", found, keys, 100*float64(found)/float64(keys), most, 100*p.storage.keyRate)
	}
	t.Logf("%d false positives of %d keys: %.4f %% of %.4f %%", found, keys, 100*float64(found)/float64(keys), 100*p.storage.keyRate)
}

func posts(prefix string) func(i int) string {
	return func(i int) string { return fmt.Sprint(prefix, i) }
}

// recordAll records n activities of one user in calls of 500.
func (g *rig) recordAll(t testing.TB, user string, ids func(i int) string, n int, remove bool) {
	t.Helper()
	var batch []act
	for i := range n {
		batch = append(batch, act{User: user, Kind: "hide", Target: ids(i), Remove: remove})
		if len(batch) == 500 || i == n-1 {
			_, err := g.Record(t.Context(), batch)
			must(t, err)
			batch = batch[:0]
		}
	}
}

// TestRepeats: the plain filter still reports a deleted key that was inserted twice.
func TestRepeats(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 4)
		const n = 300
		for i := range n {
			user, id := fmt.Sprint(i%7), fmt.Sprint("p", i)
			g.record(t, true, add(user, "hide", id))
			g.record(t, false, add(user, "hide", id))
			_, err := g.Record(t.Context(), []act{add(user, "hide", id), add(user, "hide", id)})
			must(t, err)
		}
		found := 0
		for i := range n {
			user, id := fmt.Sprint(i%7), fmt.Sprint("p", i)
			g.want(t, user, "hide", id, true)
			g.record(t, true, undo(user, "hide", id))
			if g.check(t, user, "hide", id) {
				found++
			}
		}
		g.checkRate(t, found, n)
	})
}

// TestFalsePositiveInsert: the plain filter does not insert a key that is a false positive. When
// the keys whose bits it matched are deleted, it is lost.
func TestFalsePositiveInsert(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.recordAll(t, "1", posts("base"), 2000, false)
	for i := range 2000 { // a page that is nearly full has enough false positives
		h := g.header(t, 0)
		if limit := h.Shape.Limit(g.storage.keyRate); h.Set > limit-limit/20 {
			break
		}
		g.record(t, true, add("1", "hide", fmt.Sprint("more", i)))
	}
	v, err := g.view(t.Context(), "1")
	must(t, err)
	var riders []string
	for i := 0; len(riders) < 8 && i < 2_000_000; i++ {
		if id := fmt.Sprint("rider", i); v.has("hide", id) {
			riders = append(riders, id)
		}
	}
	if len(riders) == 0 {
		t.Fatal("no id is a false positive")
	}
	for _, id := range riders {
		g.record(t, true, add("1", "hide", id))
	}
	g.recordAll(t, "1", posts("base"), 2000, true)
	for _, id := range riders {
		g.want(t, "1", "hide", id, true)
	}
}

// TestBogusDeletes: the plain filter loses live keys when absent keys are deleted, even if each
// delete first checks that the key is present.
func TestBogusDeletes(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	const n = 2000 // few enough to stay on page 0
	g.recordAll(t, "1", posts("live"), n, false)
	before, err := g.ledger.Sequence(t.Context(), 0)
	must(t, err)
	g.recordAll(t, "1", posts("never"), 200_000, true)
	if found := g.countFound(t, "1", "hide", posts("live"), n); found != n {
		t.Errorf("%d of %d live keys lost", n-found, n)
	}
	if after, err := g.ledger.Sequence(t.Context(), 0); after != before || err != nil {
		t.Errorf("sequence %d, was %d: %v", after, before, err)
	}
}

// TestLongPopulationTurnovers: in the plain filter, half full, after two turnovers 46 % of deletes
// fail, and false positives are 340 times the rate.
func TestLongPopulationTurnovers(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	const n, turnovers = 1500, 10
	g.recordAll(t, "1", posts("0/"), n, false)
	for turn := range turnovers {
		old, fresh := posts(fmt.Sprint(turn, "/")), posts(fmt.Sprint(turn+1, "/"))
		var batch []act
		for i := range n {
			batch = append(batch, undo("1", "hide", old(i)), add("1", "hide", fresh(i)))
			if len(batch) < 4 && i < n-1 {
				continue
			}
			_, err := g.Record(t.Context(), batch)
			must(t, err)
			batch = batch[:0]
		}
		if found := g.countFound(t, "1", "hide", fresh, n); found != n {
			t.Fatalf("turnover %d: %d live keys lost", turn, n-found)
		}
		g.checkRate(t, g.countFound(t, "1", "hide", old, n), n)
		g.checkRate(t, g.countFound(t, "1", "hide", posts("absent"), 100_000), 100_000)
	}
	t.Logf("rebuilds: %v of %d deletes", g.reasons(), n*turnovers)
}

func (g *rig) reasons() map[string]uint64 {
	g.rebuilder.rebuilds.mu.Lock()
	defer g.rebuilder.rebuilds.mu.Unlock()
	return maps.Clone(g.rebuilder.rebuilds.reasons)
}

// TestRacingWriters: the plain filter loses a key if a delete comes between another client's bit
// and its collision bit.
func TestRacingWriters(t *testing.T) { racingWriters(t, 10_000) }

func TestLongRacingWriters(t *testing.T) {
	if testing.Short() {
		t.Skip("TestRacingWriters does it with a tenth of the operations")
	}
	racingWriters(t, 100_000)
}

func racingWriters(t *testing.T, operations int) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { race(t, newRig(t, &favfilter.Memory{}, 4), operations) })
	t.Run("redis", func(t *testing.T) { race(t, newRig(t, redisStore(t, redistest.Start(t)), 4), operations/5) })
}

// race runs 16 writers on shared pages. Each writer uses its own keys and a model of them, and
// checks the answers as it goes.
func race(t *testing.T, g *rig, operations int) {
	t.Helper()
	// A poll that sees a commit before its page does would cause a rebuild.
	g.bound = time.Minute
	gaps := &gapCount{Store: g.store}
	g.open(t, g.ledger, gaps)
	const writers, users = 16, 24
	var absent, found atomic.Int64 // lookups of absent keys, and absent keys found at least once
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(w)))
			live, wrong := map[act]bool{}, map[act]bool{}
			for range operations / writers {
				a := act{User: fmt.Sprint("u", rng.IntN(users)), Kind: "hide", Target: fmt.Sprintf("w%d/%d", w, rng.IntN(60))}
				if rng.IntN(4) == 0 {
					a.Kind, a.Target = "block", fmt.Sprintf("w%d/%d", w, rng.IntN(20))
				}
				if is, ok := g.step(t, rng, live, a); ok {
					absent.Add(1)
					if is {
						wrong[a] = true // counted once, because later looks are likely to find it again
					}
				}
				if t.Failed() {
					return
				}
			}
			for a, is := range live {
				if is && !g.look(t, a) {
					t.Errorf("%+v was lost", a)
				}
			}
			found.Add(int64(len(wrong)))
		})
	}
	wg.Wait()
	g.checkRate(t, int(found.Load()), int(absent.Load()))
	if n := gaps.found.Load(); n > 0 {
		t.Errorf("%d changes found their page behind: want 0 with the writers of one process", n)
	}
}

// gapCount counts changes that find their page behind the sequence before them.
type gapCount struct {
	favfilter.Store

	found atomic.Int64
}

func (s *gapCount) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	results := s.Store.Apply(ctx, batches)
	for _, res := range results {
		if res.State == favfilter.Behind {
			s.found.Add(1)
		}
	}
	return results
}

// step changes a or looks for it. ok: it looked, and a is not live. found: the look found a.
func (g *rig) step(t *testing.T, rng *rand.Rand, live map[act]bool, a act) (found, ok bool) {
	t.Helper()
	switch rng.IntN(5) {
	case 0: // look
		match := g.look(t, a)
		if live[a] && !match {
			t.Errorf("%+v is missed", a)
		}
		return match, !live[a]
	case 1, 2: // add, perhaps again
		changed, err := g.Record(t.Context(), []act{a})
		if err != nil || changed[0] == live[a] {
			t.Errorf("add %+v: changed %v, %v; live before: %v", a, changed, err, live[a])
		}
		live[a] = true
	default: // remove, perhaps an absent activity
		undone := a
		undone.Remove = true
		changed, err := g.Record(t.Context(), []act{undone})
		if err != nil || changed[0] != live[a] {
			t.Errorf("remove %+v: changed %v, %v; live before: %v", a, changed, err, live[a])
		}
		live[a] = false
	}
	return false, false
}

func (g *rig) look(t *testing.T, a act) bool {
	t.Helper()
	v, err := g.view(t.Context(), a.User)
	if err != nil {
		t.Error(err)
		return false
	}
	return v.has(a.Kind, a.Target)
}

// fullestPage notes the fullest page that a change leaves, in eighths of its bits.
type fullestPage struct {
	favfilter.Store

	most atomic.Uint64
}

func (s *fullestPage) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	all := s.Store.Apply(ctx, batches)
	for _, res := range all {
		if h := res.Header; h.Shape.Bits > 0 {
			s.most.Store(max(s.most.Load(), uint64(8*h.Set/h.Shape.Bits)))
		}
	}
	return all
}

// Many activities of one user at once do not fill the page: the posts of others on it would vanish
// until it is rebuilt.
func TestManyOfOneUser(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		fullest := &fullestPage{Store: store}
		g := newRig(t, fullest, 1)
		for _, n := range []int{1, 5, 200, 10_000, 20_000} {
			var batch []act
			for i := range n {
				batch = append(batch, add(fmt.Sprint("heavy", n), "hide", fmt.Sprint(i)))
			}
			_, err := g.Record(t.Context(), batch)
			must(t, err)
			g.want(t, fmt.Sprint("heavy", n), "hide", fmt.Sprint(n-1), true)
		}
		if most := fullest.most.Load(); most >= 5 {
			t.Errorf("a page had %d eighths of its bits set", most)
		}
	})
}
