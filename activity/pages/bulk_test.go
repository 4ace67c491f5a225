package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// mixed returns n activities of 30 users, some of them repeated. With undos, some activities undo
// others.
func mixed(rng *rand.Rand, n int, undos bool) (batch []act) {
	for range n {
		a := add(fmt.Sprint(rng.IntN(30)), "hide", fmt.Sprint("p", rng.IntN(20)))
		if rng.IntN(4) == 0 {
			a = add(a.User, "block", fmt.Sprint(30+rng.IntN(30)))
		}
		a.Remove = undos && rng.IntN(3) == 0
		batch = append(batch, a)
	}
	return batch
}

// do applies a batch to the set of live activities.
func do(live map[act]bool, batch []act) {
	for _, a := range batch {
		key := a
		if key.Remove = false; a.Remove {
			delete(live, key)
		} else {
			live[key] = true
		}
	}
}

// wantLive checks that the ledger has the live activities and nothing else, and that Views report
// them. Views report an activity that was never recorded at most at the false-positive rate.
func (g *rig) wantLive(t *testing.T, live map[act]bool) {
	t.Helper()
	got := make(map[act]bool)
	for page := range g.storage.identity.Pages {
		rows, _, err := g.ledger.Keys(t.Context(), page)
		must(t, err)
		for _, row := range rows {
			if row.Kind != "blocked-by" {
				got[add(row.Owner, row.Kind, row.Target)] = true
			}
		}
	}
	if !maps.Equal(got, live) {
		t.Fatalf("the ledger has %d activities, want %d, or has different ones", len(got), len(live))
	}
	views, found, absent := make(map[string]*view), 0, 0
	check := func(user, kind, id string) bool {
		v := views[user]
		if v == nil {
			var err error
			v, err = g.view(t.Context(), user)
			for errors.Is(err, faulttest.ErrInjected) { // a rebuild that met the fault is tried again a little later
				v, err = g.view(t.Context(), user)
			}
			must(t, err)
			views[user] = v
		}
		return v.has(kind, id)
	}
	for a := range live {
		if !check(a.User, a.Kind, a.Target) {
			t.Errorf("%+v is missed", a)
		}
		if a.Kind == "block" && !check(a.Target, "blocked-by", a.User) {
			t.Errorf("%+v is missed on the other side", a)
		}
		absent++
		if check(a.User, a.Kind, "never"+a.Target) {
			found++
		}
	}
	g.checkRate(t, found, absent)
	g.wantTwoSides(t)
}

// countingStore counts how often each page is written.
type countingStore struct {
	favfilter.Store
	mu       sync.Mutex
	replaced map[favfilter.PageID]int
	applied  int
}

func (s *countingStore) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	s.mu.Lock()
	s.replaced[r.ID]++
	s.mu.Unlock()
	return s.Store.Replace(ctx, r)
}

func (s *countingStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	s.mu.Lock()
	s.applied += len(batches)
	s.mu.Unlock()
	return s.Store.Apply(ctx, batches)
}

// TestBulkIntoNothing checks that a bulk has the outcomes and rows of the same calls of Record, and
// writes each page once.
func TestBulkIntoNothing(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		counting := &countingStore{Store: store, replaced: map[favfilter.PageID]int{}}
		g, slow := newRig(t, counting, 64), newRig(t, &favfilter.Memory{}, 64)
		b, rng, live := g.NewBulk(), rand.New(rand.NewPCG(1, 1)), map[act]bool{}
		for range 4 {
			batch := mixed(rng, 500, false)
			got, err := recordBulk(t.Context(), b, batch)
			must(t, err)
			want, err := slow.Record(t.Context(), batch)
			must(t, err)
			if !slices.Equal(got, want) {
				t.Fatal("outcomes are not those of Record")
			}
			do(live, batch)
		}
		if len(counting.replaced) > 0 {
			t.Errorf("%d pages were written before Finish", len(counting.replaced))
		}
		must(t, b.Finish(t.Context()))
		g.wantWhole(t)
		for id, n := range counting.replaced {
			if n != 1 {
				t.Errorf("page %v was written %d times", id, n)
			}
		}
		if counting.applied > 0 {
			t.Errorf("%d pages were changed in place, want 0", counting.applied)
		}
		g.wantLive(t, live)
		must(t, b.Finish(t.Context())) // a second Finish has nothing to do
	})
}

// TestBulkAmongWriters mixes a bulk, in random order, with Record, lost pages, and a Recorder that
// dies before Finish.
func TestBulkAmongWriters(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		seeds := uint64(6)
		if _, memory := store.(*favfilter.Memory); !memory {
			seeds = 1 // the others lose a store in memory
		}
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, 2))
			lossy := &partitioned{Store: &favfilter.Memory{}}
			if seed == 0 {
				lossy.Store = store
			}
			g := newRig(t, lossy, 8)
			b, live := g.NewBulk(), map[act]bool{}
			for range 25 {
				switch rng.IntN(7) {
				case 0:
					must(t, b.Finish(t.Context()))
					g.wantLive(t, live)
				case 1: // the Recorder dies; what the ledger has must still be found
					g.open(t, g.ledger, g.store)
					b.settling.Wait() // waits for its work in the background
					b = g.NewBulk()
					g.wantLive(t, live)
				case 2:
					if seed > 0 {
						b.settling.Wait()
						lossy.Store = &favfilter.Memory{}
					}
				case 3:
					batch := mixed(rng, 10, true)
					_, err := g.Record(t.Context(), batch)
					must(t, err)
					do(live, batch)
				default:
					batch := mixed(rng, 1+rng.IntN(200), rng.IntN(2) == 0)
					_, err := recordBulk(t.Context(), b, batch)
					must(t, err)
					do(live, batch)
				}
			}
			must(t, b.Finish(t.Context()))
			g.wantLive(t, live)
			g.scrubAll()
			g.wantWhole(t)
		}
	})
}

// TestLongBulkFaultAtEveryStep lets each call of ledger and store fail once, before and after it
// takes effect. Like an import that is continued, it repeats the call that failed.
func TestLongBulkFaultAtEveryStep(t *testing.T) {
	run := func(t *testing.T, fresh faultRig, f *faulttest.Faults) (calls int64) {
		t.Helper()
		g, _ := fresh(t)
		l, s := g.ledger.Around(f.Around), faulttest.Store{Store: g.store, Faults: f}
		g.Close()
		if g.tryOpen(t, l, s) != nil {
			g.open(t, l, s) // no second fault follows
		}
		rng, live := rand.New(rand.NewPCG(3, 3)), map[act]bool{}
		again := func(call func() error) {
			t.Helper()
			err := call()
			if errors.Is(err, faulttest.ErrInjected) {
				err = call()
			}
			must(t, err)
		}
		b := g.NewBulk()
		for round := range 4 {
			batch := mixed(rng, 150, round > 1)
			again(func() error {
				_, err := recordBulk(t.Context(), b, batch)
				return err
			})
			do(live, batch)
			if round == 1 {
				again(func() error { return b.Finish(t.Context()) })
				b = g.NewBulk()
			}
		}
		again(func() error { return b.Finish(t.Context()) })
		calls = f.Calls()
		f.At = 0 // the checks below meet no fault
		g.wantLive(t, live)
		g.scrubAll()
		g.wantWhole(t)
		g.end(t)
		return calls
	}
	all := func(t *testing.T, fresh faultRig) {
		t.Helper()
		for _, after := range []bool{false, true} {
			for at := range faulttest.EachCall() {
				calls := run(t, fresh, &faulttest.Faults{At: at, After: after})
				if t.Failed() {
					t.Fatalf("fault at call %d, after %t", at, after)
				}
				if calls < at {
					t.Logf("after %t: %d calls", after, calls)
					break
				}
			}
		}
	}
	t.Run("memory and sqlite", func(t *testing.T) {
		t.Parallel()
		all(t, func(t *testing.T) (*rig, func()) { t.Helper(); return newRig(t, &favfilter.Memory{}, 4), nil })
	})
	t.Run("redis and postgres", func(t *testing.T) {
		t.Parallel()
		redis, empty := redistest.Start(t), emptyLedgers(t, pgtest.Start(t).Schema())
		all(t, func(t *testing.T) (*rig, func()) {
			t.Helper()
			must(t, redis.Client().FlushAll(t.Context()).Err())
			return newRigWith(t, redisStore(t, redis), empty(t)), nil
		})
	})
}

// TestBulkWithoutStore records activities in bulk while no page can be written. Views find them in
// the ledger.
func TestBulkWithoutStore(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 8)
	b, live := g.NewBulk(), map[act]bool{}
	batch := mixed(rand.New(rand.NewPCG(4, 4)), 200, false)
	do(live, batch)
	_, err := recordBulk(t.Context(), b, batch)
	must(t, err)
	g.useStore(faulttest.Down())
	must(t, b.Finish(t.Context()))
	g.wantLive(t, live)
	g.useStore(g.store)
	g.wantLive(t, live) // Views notice that the pages are missing
}

// lookedAt returns the number of pages that a scrub could check.
func lookedAt(statuses []favfilter.Status) (n int) {
	for _, st := range statuses {
		if st.Err == nil {
			n++
		}
	}
	return n
}

// onEveryPage returns activities so that each page has one. Each ledger puts users on different
// pages.
func (g *rig) onEveryPage() (batch []act) {
	pages := make(map[uint32]bool)
	for i := 0; len(pages) < int(g.storage.identity.Pages); i++ {
		user := fmt.Sprint("everywhere", i)
		if page := g.pageOf(user); !pages[page] {
			pages[page] = true
			batch = append(batch, add(user, "hide", "p"))
		}
	}
	return batch
}

// TestBulkIsLeftAlone checks that the scrub skips the pages that a bulk will replace, and checks
// them after the bulk. Otherwise it would read the ledger for each of them after every transaction.
func TestBulkIsLeftAlone(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 8)
	b, live := g.NewBulk(), map[act]bool{}
	rng := rand.New(rand.NewPCG(6, 6))
	everywhere := g.onEveryPage()
	for range 3 {
		batch := append(mixed(rng, 300, false), everywhere...)
		do(live, batch)
		_, err := recordBulk(t.Context(), b, batch)
		must(t, err)
		must(t, g.known.PollSince(t.Context(), g.life.Elapsed()))
		if found, statuses, _ := g.scrubber.peek(g.scrubber.required(g.allPages(t))); len(found) > 0 || lookedAt(statuses) > 0 {
			t.Errorf("the scrub looked at %d pages, and would rebuild these: %+v", lookedAt(statuses), found)
		}
	}
	must(t, b.Finish(t.Context()))
	if found, statuses, _ := g.scrubber.peek(g.scrubber.required(g.allPages(t))); len(found) > 0 || lookedAt(statuses) != 8 {
		t.Errorf("after Finish the scrub looked at %d pages of 8, and would rebuild these: %+v", lookedAt(statuses), found)
	}
	g.losePages(t)
	if found, _, _ := g.scrubber.peek(g.scrubber.required(g.allPages(t))); len(found) != 8 {
		t.Errorf("the scrub found %d pages that were lost, want 8", len(found))
	}
	g.wantLive(t, live)
}

func TestBulkAfterClose(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 8)
	b := g.NewBulk()
	g.Close()
	if _, err := recordBulk(t.Context(), b, []act{add("1", "hide", "p")}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	g.open(t, g.ledger, g.store)
	g.want(t, "1", "hide", "p", false)
}
