package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// everybody records some of every kind for that many users, and returns a check that all of it is there and that what was
// undone is not.
func (g *rig) everybody(t testing.TB, users int) (check func(when string)) {
	t.Helper()
	var batch, undone []Activity
	for i := range users {
		user := fmt.Sprint("u", i)
		batch = append(batch, add(user, "block", fmt.Sprint("u", (i+1)%users)), add(user, "seen", "s"+user))
		for n := range 5 {
			batch = append(batch, add(user, "hide", fmt.Sprint("p", n)))
			undone = append(undone, undo(user, "hide", fmt.Sprint("p", n+10)))
			batch = append(batch, add(user, "hide", fmt.Sprint("p", n+10)))
		}
	}
	for _, some := range [][]Activity{batch, undone} {
		_, err := g.Record(t.Context(), some)
		must(t, err)
	}
	return func(when string) {
		t.Helper()
		found, looked := 0, 0
		kinds := g.kinds.All()
		for i := range users {
			user := fmt.Sprint("u", i)
			v, err := g.View(t.Context(), user, kinds, nil)
			must(t, err)
			see := func(kind, id string) bool {
				for n, k := range kinds {
					if k.Name == kind {
						return v.Check(n, id) != None
					}
				}
				return false
			}
			for n := range 5 {
				if !see("hide", fmt.Sprint("p", n)) {
					t.Errorf("%s: %s misses p%d", when, user, n)
				}
				looked++
				if see("hide", fmt.Sprint("p", n+10)) {
					found++
				}
			}
			if !see("seen", "s"+user) {
				t.Errorf("%s: %s has not seen what they saw", when, user)
			}
			for _, other := range []int{i + 1, i + users - 1} {
				if !see("block", fmt.Sprint("u", other%users)) {
					t.Errorf("%s: %s misses the block of u%d", when, user, other%users)
				}
			}
		}
		g.checkRate(t, found, looked)
	}
}

// The number of pages goes up, down, below the first one, and back, and everything is where it is looked for, also by a Recorder that is opened
// anew, and in pages that were lost.
func TestReshape(t *testing.T) { reshapes(t, 64, 4, 16) }

func TestLongReshape(t *testing.T) { reshapes(t, 64, 4, 16, 256, 32, 16, 4, 1, 8, 128, 16) }

func reshapes(t *testing.T, numbers ...uint32) {
	t.Helper()
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 16)
		check := g.everybody(t, 200)
		for round, pages := range numbers {
			when := fmt.Sprint(pages, " pages in round ", round)
			steps := 0
			must(t, g.Reshape(t.Context(), pages, func(done, homes int) {
				if done <= steps || homes != 16 {
					t.Errorf("%s: %d of %d homes after %d", when, done, homes, steps)
				}
				steps = done
			}))
			if steps != 16 {
				t.Errorf("%s: %d homes done", when, steps)
			}
			if n := g.placements.census(); n.homes+len(n.shared) != int(pages) {
				t.Errorf("%s: %d home pages and %d others", when, n.homes, len(n.shared))
			}
			check(when)
			g.wantWhole(t)
			g.scrubAll()
			if n := g.Stats().Found; len(n) > 0 {
				t.Errorf("%s: the scrub found %v", when, n)
			}
			g.open(t, g.ledger, g.store)
			check(when + ", opened anew")
			g.loseAll(t)
			check(when + ", pages lost")
			for i := range 200 { // the next round has pages to be changed
				g.record(t, true, add(fmt.Sprint("u", i), "like", "at "+when))
				if g.check(t, fmt.Sprint("u", i), "like", "at "+when) == None {
					t.Errorf("%s: a like is missed", when)
				}
			}
		}
	})
}

// loseAll removes every page that the ledger backs.
func (g *rig) loseAll(t *testing.T) {
	t.Helper()
	for _, page := range g.allPages(t) {
		id := g.pageID(page)
		_, err := g.store.Replace(t.Context(), favfilter.Replacement{ID: id, Seen: versionAt(t, g.store, id)})
		must(t, err)
	}
}

// What cannot be is refused, and changes nothing.
func TestReshapeRefused(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 8192)
	for _, pages := range []uint32{0, 3, 1, 1 << 25} {
		err := g.Reshape(t.Context(), pages, nil)
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Code != CodeOutOfRange || invalid.Field != "pages" {
			t.Errorf("%d pages: %v", pages, err)
		}
		if _, err := g.StartReshape(t.Context(), pages); err == nil {
			t.Errorf("%d pages are begun with", pages)
		}
	}
	if s, err := g.Shape(t.Context()); err != nil || s.Pages != 8192 || s.Reshaped != 8192 || s.Homes != 8192 || s.Shared != 8192 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Pages are asked for once more before a round of feeds: a reader that has not heard of a reshape pays no more than one Load and one
// question to the ledger for it.
func TestStaleReaderPaysOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 4), &favfilter.Memory{}
		slow := Config{StalenessBound: time.Minute, ScrubRate: 1}
		a := startProcess(t, l, store, slow)
		check := a.everybody(t, 40)
		counted := &readCounter{Store: store}
		b := startProcess(t, l, counted, slow)
		check("before")
		for _, pages := range []uint32{16, 64, 2, 4} {
			must(t, a.Reshape(t.Context(), pages, nil))
			for i := range 40 {
				user, loads := fmt.Sprint("u", i), counted.loads.Load()
				b.want(t, user, "hide", "p1", Direct)
				if n := counted.loads.Load() - loads; n > 2 {
					t.Errorf("%d pages: %d loads for one view", pages, n)
				}
				b.want(t, user, "hide", "p2", Direct)
			}
			if n := counted.replaced.Load(); n > 0 {
				t.Errorf("%d pages: a reader had %d pages made anew", pages, n)
			}
		}
		a.Close()
		b.Close()
		must(t, l.Close())
	})
}

// readCounter counts what a reader asks of the store.
type readCounter struct {
	favfilter.Store
	loads, replaced atomic.Int64
}

func (s *readCounter) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, ids)
}

func (s *readCounter) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	s.replaced.Add(1)
	return s.Store.Replace(ctx, r)
}

// pausingLedger does something when a reshape is committed, and nobody has heard of it.
type pausingLedger struct {
	*ledger.Ledger
	after func(plan *ledger.ReshapePlan)
}

func (l *pausingLedger) Reshape(ctx context.Context, p *ledger.ReshapePlan) (ledger.Receipt, error) {
	receipt, err := l.Ledger.Reshape(ctx, p)
	if err == nil {
		l.after(p)
	}
	return receipt, err
}

// Who reads when a reshape is committed, and no page has been touched since, finds everything with one Load: where it was, if
// they have not heard of it; else in the new page, which is there already.
func TestReadBetweenReshapeAndPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 4), &favfilter.Memory{}
		slow := Config{StalenessBound: time.Minute, ScrubRate: 1}
		deaf, heard := &readCounter{Store: store}, &readCounter{Store: store}
		between := &pausingLedger{Ledger: l}
		a := startProcess(t, between, store, slow)
		check := a.everybody(t, 40)
		b, c := startProcess(t, l, deaf, slow), startProcess(t, l, heard, slow)
		moved := 0
		var mu sync.Mutex
		between.after = func(plan *ledger.ReshapePlan) {
			mu.Lock()
			defer mu.Unlock()
			must(t, c.pollOnce(t.Context(), c.newPoll()))
			for i := range 40 {
				user := fmt.Sprint("u", i)
				hash := userHash(c.identity.Seed, user)
				if !slices.Contains(plan.Homes, c.homeOf(hash)) {
					continue // another reshape may be on its way
				}
				target, found := targetOf(plan.Targets, hash)
				before := deaf.loads.Load()
				b.want(t, user, "hide", "p1", Direct)
				if n := deaf.loads.Load() - before; n != 1 {
					t.Errorf("%d loads of one who has not heard", n)
				}
				if !found || !target.Made {
					continue
				}
				moved++
				before = heard.loads.Load()
				c.want(t, user, "hide", "p1", Direct)
				if n := heard.loads.Load() - before; n != 1 {
					t.Errorf("%d loads of one who has heard", n)
				}
			}
			if n := deaf.replaced.Load() + heard.replaced.Load(); n > 0 {
				t.Errorf("readers had %d pages made anew", n)
			}
		}
		for _, pages := range []uint32{16, 64, 2, 1} {
			must(t, a.Reshape(t.Context(), pages, nil))
			for i := range 40 { // b has to hear of this reshape before the next
				b.want(t, fmt.Sprint("u", i), "hide", "p1", Direct)
			}
			check(fmt.Sprint(pages, " pages"))
		}
		if moved < 40 {
			t.Errorf("%d users moved", moved)
		}
		for _, p := range []*process{a, b, c} {
			p.Close()
		}
		must(t, l.Close())
	})
}
