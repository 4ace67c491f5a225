package activity

import (
	"context"
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
)

// meddler loses pages of a store, and sets them back to what they once were.
type meddler struct {
	*rig
	rng  *rand.Rand
	kept map[favfilter.PageID]*favfilter.Page
}

func (m *meddler) meddle(t *testing.T) {
	t.Helper()
	others := m.placements.census()
	id := m.pageID(m.pageNumber(others, m.rng.IntN(int(m.identity.Pages)+others.len())))
	loaded, err := m.store.LoadWhole(t.Context(), []favfilter.PageID{id})
	must(t, err)
	r := favfilter.Replacement{ID: id, Seen: loaded[0].Version}
	switch m.rng.IntN(3) {
	case 0: // lost
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
	_, err = m.store.Replace(t.Context(), r) // it fails if somebody writes meanwhile
	must(t, err)
}

// The number of pages changes, and users move to pages of their own, at random, while three processes write, undo and look, and
// pages are lost and set back: nothing is missed, and what is undone is gone. In a bubble no call takes too long.
func TestReshapeUnderLoad(t *testing.T) { reshapeUnderLoad(t, 10) }

func TestLongReshapeUnderLoad(t *testing.T) { reshapeUnderLoad(t, 25) }

func reshapeUnderLoad(t *testing.T, reshapes int) {
	t.Helper()
	for _, heavy := range []bool{false, true} {
		t.Run(fmt.Sprint("heavy users ", heavy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, store := bubbleLedger(t, 4), &favfilter.Memory{}
				var rigs []*rig
				for range 3 {
					g := &rig{ledger: l, store: store}
					g.open(t, l, store)
					if heavy {
						g.ownPage, g.Recorder.largePage = 16, 256
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
				reshapeAround(t, rigs, reshapes)
				close(stop)
				wg.Wait()
				for _, g := range rigs {
					g.settleMoves()
					g.Close()
				}
				must(t, l.Close())
			})
		})
	}
}

// stepUntil writes and looks for one user, through one process or another.
func stepUntil(t *testing.T, rigs []*rig, user string, rng *rand.Rand, stop <-chan struct{}) {
	t.Helper()
	live := make(map[Activity]bool)
	looked, wrong := 0, 0
	for {
		select {
		case <-stop:
			if most := mostByChance(rigs[0].keyRate * float64(looked)); wrong > most {
				t.Errorf("%s: of %d that were undone, %d are found", user, looked, wrong)
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

// reshapeAround makes so many reshapes, and meddles with the pages in between.
func reshapeAround(t *testing.T, rigs []*rig, reshapes int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(10, 10))
	m := &meddler{rig: rigs[0], rng: rng, kept: make(map[favfilter.PageID]*favfilter.Page)}
	for range reshapes {
		for range rng.IntN(6) {
			m.meddle(t)
		}
		g := rigs[rng.IntN(len(rigs))]
		if err := g.Reshape(t.Context(), 1<<rng.IntN(8), nil); err != nil {
			t.Errorf("reshape: %v", err)
		}
	}
}

// The same with a staleness bound, by which processes learn of a reshape long after it, and a minute between two: what one has
// acknowledged, the other finds at once.
func TestReshapeIsFollowed(t *testing.T) { reshapeIsFollowed(t, 6) }

func TestLongReshapeIsFollowed(t *testing.T) { reshapeIsFollowed(t, 20) }

func reshapeIsFollowed(t *testing.T, rounds int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, store := bubbleLedger(t, 4), &favfilter.Memory{}
		slow := Config{StalenessBound: time.Minute, ScrubRate: 1, OwnPage: 16}
		a, b := startProcess(t, l, store, slow), startProcess(t, l, store, slow)
		rng := rand.New(rand.NewPCG(11, 11))
		live := make(map[Activity]bool)
		absent, found := 0, 0
		for round := range rounds {
			must(t, a.Reshape(t.Context(), 1<<rng.IntN(8), nil))
			for range 150 {
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
				if live[act] && match == None {
					t.Fatalf("round %d: %+v is missed by who has not heard", round, act)
				}
				if !live[act] {
					absent++
					if match != None {
						found++
					}
				}
			}
			time.Sleep(time.Minute + time.Second)
		}
		a.checkRate(t, found, absent)
		a.settleMoves()
		b.settleMoves()
		a.Close()
		b.Close()
		must(t, l.Close())
	})
}

// Every step of a reshape fails once, before and after it takes effect: what was recorded is found all the same, and the reshape is
// done when it is called again.
func TestLongReshapeFaults(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := int64(1); ; at++ {
			g := newRig(t, &favfilter.Memory{}, 4)
			check := g.everybody(t, 30)
			f := &faulttest.Faults{At: at, After: after}
			g.open(t, faulttest.Ledger{Ledger: g.ledger, Faults: &faulttest.Faults{}}, g.store)
			g.Recorder.ledger = faulttest.Ledger{Ledger: g.ledger, Faults: f}
			g.useStore(t, faulttest.Store{Store: g.store, Faults: f})
			err := g.Reshape(t.Context(), 16, nil)
			if err != nil && !errors.Is(err, faulttest.ErrInjected) {
				t.Fatal(err)
			}
			calls := f.Calls()
			name := fmt.Sprintf("call %d fails, after %v", at, after)
			check(name)
			if err != nil {
				must(t, g.Reshape(t.Context(), 16, nil))
			}
			cut, err := g.ledger.Cut(t.Context())
			if err != nil || cut.Done != 4 || cut.Pages != 16 {
				t.Errorf("%s: %+v, %v", name, cut, err)
			}
			check(name + ", again")
			must(t, g.Reshape(t.Context(), 2, nil))
			check(name + ", and back")
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

// A reshape that is called off leaves everything where it is looked for, and goes on later, through another process.
func TestReshapeCalledOff(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 16)
	check := g.everybody(t, 60)
	ctx, cancel := context.WithCancel(t.Context())
	err := g.Reshape(ctx, 64, func(done, _ int) {
		if done >= 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("called off: %v", err)
	}
	check("called off")
	s, err := g.Shape(t.Context())
	must(t, err)
	if s.Pages != 64 || s.Reshaped < 5 || s.Reshaped == 16 || s.Reshaping {
		t.Errorf("%+v", s)
	}
	g.open(t, g.ledger, g.store)
	first := 0
	must(t, g.Reshape(t.Context(), 64, func(done, _ int) { first = max(first, done) }))
	check("done")
	if s, err := g.Shape(t.Context()); err != nil || s.Reshaped != 16 || s.Shared != 64 {
		t.Errorf("%+v, %v", s, err)
	}
}

// In the background, a reshape waits for what is unavailable, and ends with the Recorder.
func TestStartReshape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bubbleLedger(t, 4)
		cut := &partitioned{Store: &favfilter.Memory{}}
		p := startProcess(t, l, cut, Config{ScrubRate: 1})
		check := p.everybody(t, 40)
		cut.down.Store(true)
		start := func(pages uint32, want bool, wantErr error) {
			t.Helper()
			if started, err := p.StartReshape(t.Context(), pages); started != want || !errors.Is(err, wantErr) {
				t.Errorf("to %d pages: started %v, %v", pages, started, err)
			}
		}
		start(4, false, nil)
		start(16, true, nil)
		start(16, false, nil)
		start(8, true, nil) // in the place of the other
		start(16, true, nil)
		time.Sleep(10 * time.Second)
		if s, err := p.Shape(t.Context()); err != nil || !s.Reshaping || s.Reshaped != 0 || s.Err == nil {
			t.Errorf("without the store: %+v, %v", s, err)
		}
		cut.down.Store(false)
		time.Sleep(10 * time.Second)
		if s, err := p.Shape(t.Context()); err != nil || s.Reshaping || s.Reshaped != 4 || s.Err != nil || s.Shared != 16 {
			t.Errorf("with the store: %+v, %v", s, err)
		}
		check("done")
		start(16, false, nil)
		cut.down.Store(true)
		start(2, true, nil)
		p.Close()
		start(2, false, ErrClosed)
		must(t, l.Close())
	})
}

// busyLedger says for a while that homes were reshaped too short a time ago.
type busyLedger struct {
	*ledger.Ledger
	until time.Time
}

func (l busyLedger) PlanReshape(ctx context.Context, home uint32) (*ledger.ReshapePlan, error) {
	if left := time.Until(l.until); left > 0 {
		return nil, fmt.Errorf("plan: %w", &ledger.TooSoonError{Left: left})
	}
	return l.Ledger.PlanReshape(ctx, home)
}

// Homes that were reshaped a short time ago are waited for, unless the caller gives up, or the Recorder is closed.
func TestReshapeTooSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bubbleLedger(t, 4)
		busy := busyLedger{l, time.Now().Add(time.Minute)}
		p := startProcess(t, busy, &favfilter.Memory{}, Config{ScrubRate: 1})
		check := p.everybody(t, 20)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		if err := p.Reshape(ctx, 16, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Second {
			t.Errorf("given up after %v: %v", time.Since(start), err)
		}
		must(t, p.Reshape(t.Context(), 16, nil))
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("done after %v", took)
		}
		check("done")
		p.Close()
		busy.until = time.Now().Add(time.Hour)
		q := startProcess(t, busy, &favfilter.Memory{}, Config{ScrubRate: 1})
		if started, err := q.StartReshape(t.Context(), 4); !started || err != nil {
			t.Errorf("started %v, %v", started, err)
		}
		q.Close() // which does not take an hour
		if took := time.Since(start); took > 2*time.Minute {
			t.Errorf("closed after %v", took)
		}
		must(t, l.Close())
	})
}
