package pages

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/ratetest"
)

// meddler loses pages of a store, or sets them back to an older state.
type meddler struct {
	*rig
	rng  *rand.Rand
	kept map[favfilter.PageID]*favfilter.Page
}

func (m *meddler) meddle(t *testing.T) {
	t.Helper()
	pages := m.layout.Pages()
	id := m.layout.PageID(pages.Number(m.rng.IntN(pages.Len())))
	loaded, err := m.store.LoadWhole(t.Context(), []favfilter.PageID{id})
	must(t, err)
	r := favfilter.Replacement{ID: id, Seen: loaded[0].Version}
	switch m.rng.IntN(3) {
	case 0: // the page is lost
	case 1:
		if r.Page = m.kept[id]; r.Page == nil {
			return
		}
	default:
		if loaded[0].Page != nil {
			m.kept[id] = loaded[0].Page.Clone()
		}
		return
	}
	_, err = m.store.Replace(t.Context(), r) // it fails if the page is written to in between
	must(t, err)
}

// Three processes write, undo and look at random, while the number of pages grows. Users get
// dedicated pages and give them up, and pages are lost and set back. No activity is missed, and
// undone ones are gone. In a bubble no call times out.
func TestGrowUnderLoad(t *testing.T) { growUnderLoad(t, 5) }

func TestLongGrowUnderLoad(t *testing.T) {
	for range 5 {
		growUnderLoad(t, 9)
	}
}

func growUnderLoad(t *testing.T, doublings int) {
	t.Helper()
	for _, heavy := range []bool{false, true} {
		t.Run(fmt.Sprint("heavy users ", heavy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, store := newLedger(t, 2), &favfilter.Memory{}
				var rigs []*rig
				for range 3 {
					g := &rig{ledger: l, store: store}
					g.open(t, l, store)
					if heavy {
						g.rebuilder.maxSharedKeys, g.rebuilder.large.least, g.rebuilder.held.least = 16, 256, 256
					}
					rigs = append(rigs, g)
				}
				stop := make(chan struct{})
				var wg sync.WaitGroup
				for w := range 6 {
					wg.Go(func() { stepUntil(t, rigs, fmt.Sprint("u", w), rand.New(rand.NewPCG(9, uint64(w))), stop) })
				}
				if heavy {
					wg.Go(func() { moveAround(t, rigs, []string{"u0", "u1", "u2"}, stop) })
				}
				growAround(t, rigs, doublings)
				close(stop)
				wg.Wait()
				for _, g := range rigs {
					g.settleMoves()
					g.Close()
				}
			})
		})
	}
}

// stepUntil writes and looks for one user, through any process.
func stepUntil(t *testing.T, rigs []*rig, user string, rng *rand.Rand, stop <-chan struct{}) {
	t.Helper()
	live := make(map[act]bool)
	looked, wrong := 0, 0
	for {
		select {
		case <-stop:
			if most := ratetest.Most(rigs[0].storage.keyRate * float64(looked)); wrong > most {
				t.Errorf("%s: of %d undone activities, %d are found", user, looked, wrong)
			}
			return
		default:
		}
		a := add(user, "hide", fmt.Sprint("p", rng.IntN(60)))
		found, absent := rigs[rng.IntN(len(rigs))].step(t, rng, live, a)
		if absent {
			looked++
		}
		if found && absent {
			wrong++
		}
	}
}

// growAround doubles the number of pages that often, and meddles with the pages in between.
func growAround(t *testing.T, rigs []*rig, doublings int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(10, 10))
	m := &meddler{rig: rigs[0], rng: rng, kept: make(map[favfilter.PageID]*favfilter.Page)}
	for n := range doublings {
		for range rng.IntN(6) {
			m.meddle(t)
		}
		var both sync.WaitGroup // two processes grow the same layout
		for range 1 + rng.IntN(2) {
			g := rigs[rng.IntN(len(rigs))]
			both.Go(func() {
				if err := g.grower.growTo(t.Context(), 4<<n); err != nil {
					t.Errorf("grow: %v", err)
				}
			})
		}
		both.Wait()
	}
}

// With a staleness bound, processes learn of a growth long after it. In every phase of the growth,
// one process finds at once what another has acknowledged.
func TestGrowthIsFollowed(t *testing.T) { growthIsFollowed(t, 3) }

func TestLongGrowthIsFollowed(t *testing.T) { growthIsFollowed(t, 10) }

func growthIsFollowed(t *testing.T, rounds int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 4), &favfilter.Memory{}
		slow := Config{StalenessBound: time.Minute, ScrubRate: 1, MaxSharedKeys: 16}
		a, b := startProcess(t, l, store, slow), startProcess(t, l, store, slow)
		rng := rand.New(rand.NewPCG(11, 11))
		live := make(map[act]bool)
		absent, found := 0, 0
		for round := range rounds {
			var growing sync.WaitGroup
			growing.Go(func() {
				if err := a.grower.growTo(t.Context(), 8<<round); err != nil {
					t.Error(err)
				}
			})
			for range 300 {
				time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond) // a growth takes at least the bound
				writer, reader := a, b
				if rng.IntN(2) == 0 {
					writer, reader = b, a
				}
				act := add(fmt.Sprint("u", rng.IntN(10)), "hide", fmt.Sprint("p", rng.IntN(30)))
				change := act
				change.Remove = live[act]
				writer.record(t, true, change)
				live[act] = !live[act]
				match := reader.check(t, act.User, act.Kind, act.Target)
				if live[act] && !match {
					t.Fatalf("round %d: the other process misses %+v", round, act)
				}
				if !live[act] {
					absent++
					if match {
						found++
					}
				}
			}
			growing.Wait()
		}
		a.checkRate(t, found, absent)
		a.settleMoves()
		b.settleMoves()
	})
}

// Every step of a growth fails once, before and after it takes effect. Views still find all
// activities, and the next call completes the growth.
func TestLongGrowFaults(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := range faulttest.EachCall() {
			g := newRig(t, &favfilter.Memory{}, 4)
			check := g.everybody(t, 30)
			f := &faulttest.Faults{At: at, After: after}
			g.open(t, g.ledger, g.store)
			g.useAround(f.Around)
			g.useStore(faulttest.Store{Store: g.store, Faults: f})
			err := g.grower.growTo(t.Context(), 16)
			if err != nil && dependency(err) == "" {
				t.Fatal(err)
			}
			calls := f.Calls()
			name := fmt.Sprintf("call %d fails, after %v", at, after)
			check(name)
			if err != nil {
				must(t, g.grower.growTo(t.Context(), 16))
			}
			if now, err := g.ledger.Layouts(t.Context()); err != nil || now != (ledger.Layouts{Current: 16}) {
				t.Errorf("%s: %+v, %v", name, now, err)
			}
			check(name + ", again")
			must(t, g.grower.growTo(t.Context(), 32))
			check(name + ", and further")
			g.scrubAll()
			g.wantWhole(t)
			g.Close()
			must(t, g.ledger.Close())
			if t.Failed() {
				t.FailNow()
			}
			if calls < at {
				t.Logf("%d calls", calls)
				break
			}
		}
	}
}

// A growth in the background waits for unavailable backends, continues to larger numbers, and ends
// with the Recorder.
func TestGrowInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 4)
		cut := &partitioned{Store: &favfilter.Memory{}}
		p := startProcess(t, l, cut, Config{ScrubRate: 1})
		check := p.everybody(t, 40)
		cut.down.Store(true)
		start := func(pages uint32, want bool, wantErr error) {
			t.Helper()
			if started, err := p.grower.Grow(t.Context(), pages, false); started != want || !errors.Is(err, wantErr) {
				t.Errorf("to %d pages: started %v, %v", pages, started, err)
			}
		}
		start(4, false, nil)
		start(16, true, nil)
		start(16, false, nil)
		start(32, true, nil) // follows the first growth
		time.Sleep(10 * time.Second)
		if l, err := p.grower.Layout(t.Context()); err != nil || !l.Growing || l.Current != 4 || l.Pages != 32 || l.Built != 0 || l.Err == nil {
			t.Errorf("without the store: %+v, %v", l, err)
		}
		cut.down.Store(false)
		time.Sleep(20 * time.Second)
		if l, err := p.grower.Layout(t.Context()); err != nil || l.Growing || l.Current != 32 || l.Built != 32 || l.Err != nil {
			t.Errorf("with the store: %+v, %v", l, err)
		}
		check("done")
		start(32, false, nil)
		cut.down.Store(true)
		start(64, true, nil)
		p.Close()
		start(64, false, ErrClosed)
	})
}
