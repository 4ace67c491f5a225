package pages

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// faultRig makes an empty rig of one pair of backends, and a function that loses all its pages. The
// rig before must have ended.
type faultRig func(t *testing.T) (g *rig, lose func())

// seedEvery is how many runs share a seed, and with it the connections to PostgreSQL: new ones
// would take longer than a run.
const seedEvery = 16

// TestLongFaultAtEveryStep lets each call of ledger and store fail once, before and after it takes
// effect, until a run meets no fault. The Recorder restarts after each run. Acknowledged writes
// must all be there. A failed write must be there completely or not at all.
func TestLongFaultAtEveryStep(t *testing.T) {
	t.Run("memory and sqlite", func(t *testing.T) {
		t.Parallel()
		faultAtEveryStep(t, func(*testing.T) faultRig {
			return func(t *testing.T) (*rig, func()) {
				t.Helper()
				store := &partitioned{Store: &favfilter.Memory{}}
				return newRig(t, store, 2), func() { store.Store = &favfilter.Memory{} }
			}
		})
	})
	t.Run("redis and postgres", func(t *testing.T) {
		t.Parallel()
		postgres := pgtest.Start(t)
		faultAtEveryStep(t, func(t *testing.T) faultRig {
			t.Helper()
			redis, empty := redistest.Start(t), emptyLedgers(t, postgres.Schema())
			return func(t *testing.T) (*rig, func()) {
				t.Helper()
				flush := func() { must(t, redis.Client().FlushAll(t.Context()).Err()) }
				flush()
				return newRigWith(t, redisStore(t, redis), empty(t)), flush
			}
		})
	})
}

// end closes the rig, and its ledger if that is a file. One of PostgreSQL is used again.
func (g *rig) end(t *testing.T) {
	t.Helper()
	g.Close()
	if g.file != "" {
		must(t, g.ledger.Close())
	}
}

// emptyLedgers returns a function that empties a PostgreSQL ledger of two pages, and returns it.
// Making new tables would take longer than a run.
func emptyLedgers(t *testing.T, url string) func(t *testing.T) *ledger.Ledger {
	t.Helper()
	l := openLedgerAt(t, url, 2)
	direct, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, direct.Close(context.WithoutCancel(t.Context()))) })
	runs := 0
	return func(t *testing.T) *ledger.Ledger {
		t.Helper()
		_, err := direct.Exec(t.Context(), `DELETE FROM entries; DELETE FROM pages; DELETE FROM owners`)
		must(t, err)
		runs++
		if runs%seedEvery == 0 {
			_, err := direct.Exec(t.Context(), fmt.Sprintf(`UPDATE meta SET value = '%d' WHERE name = 'seed'`, runs))
			must(t, errors.Join(err, l.Close()))
			l = openLedgerAt(t, url, 2)
		}
		return l
	}
}

// faultAtEveryStep runs two tests in parallel, each on its own backends. In one the failing call
// takes effect, in the other it does not.
func faultAtEveryStep(t *testing.T, backends func(t *testing.T) faultRig) {
	t.Helper()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			t.Parallel()
			fresh := backends(t)
			absent, found := 0, 0
			for at := range faulttest.EachCall() {
				f := &faulttest.Faults{At: at, After: after}
				run := newFaultRun(t, fresh, f)
				run.all(t)
				absent += run.absent
				found += run.found
				if t.Failed() {
					t.Fatalf("fault at call %d", at)
				}
				if f.Calls() < at {
					t.Logf("%d calls", at-1)
					run.checkRate(t, found, absent)
					return
				}
				run.end(t)
			}
		})
	}
}

// scenario returns calls that touch both pages in every way. A call without activities stands for
// the loss of all pages.
func scenario() [][]act {
	batch := func(n int, remove bool) (b []act) {
		for i := range n {
			b = append(b, act{User: fmt.Sprint(i % 3), Kind: "hide", Target: fmt.Sprint("b", i), Remove: remove})
		}
		return b
	}
	return [][]act{
		{add("1", "hide", "p")},
		{add("1", "block", "2")},
		{add("1", "block", "2")},
		batch(60, false),
		{undo("1", "block", "2"), add("2", "block", "3"), add("3", "like", "p")},
		nil,
		{add("1", "hide", "after the loss")},
		batch(200, false), // grows
		{undo("1", "hide", "p")},
		{undo("1", "hide", "p")},
		nil,
		{undo("1", "hide", "after the loss")},
		batch(200, true), // shrinks
		{add("2", "hide", "q")},
	}
}

// fate is the known state of an activity.
type fate struct{ live, undecided bool }

// faultRun is one run of the scenario with one fault.
type faultRun struct {
	*rig
	lose  func()
	model map[act]fate

	absent, found int // absent keys looked for at the end, and those of them found
}

func newFaultRun(t *testing.T, fresh faultRig, f *faulttest.Faults) *faultRun {
	t.Helper()
	g, lose := fresh(t)
	g.Close()
	l, s := g.ledger.Around(f.Around), faulttest.Store{Store: g.store, Faults: f}
	if err := g.tryOpen(t, l, s); err != nil {
		if !errors.Is(err, faulttest.ErrInjected) {
			t.Fatal(err)
		}
		g.open(t, l, s) // the one fault is over
	}
	g.rebuilder.maxSharedKeys = 16 // so that users of the large batches move
	return &faultRun{rig: g, lose: lose, model: map[act]fate{}}
}

func (r *faultRun) all(t *testing.T) {
	t.Helper()
	for _, call := range scenario() {
		if len(call) == 0 {
			r.lose()
		} else {
			r.call(t, call)
		}
		r.settleMoves()
		r.views(t)
		r.settleMoves() // a View can start a move by a rebuild
	}
	r.scrubAll()
	r.open(t, r.ledger, r.store)
	r.views(t)
	r.wantTwoSides(t)
	r.scrubAll()
	r.wantWhole(t)
}

func (r *faultRun) call(t *testing.T, call []act) {
	t.Helper()
	changed, err := r.Record(t.Context(), call)
	if err != nil && !errors.Is(err, faulttest.ErrInjected) {
		t.Errorf("record: %v", err)
	}
	for i, a := range call {
		key := a
		key.Remove = false
		was := r.model[key]
		if err == nil && !was.undecided && changed[i] != (was.live == a.Remove) {
			t.Errorf("%+v: changed %v", a, changed[i])
		}
		r.model[key] = fate{live: !a.Remove, undecided: err != nil}
	}
}

// views compares what every user sees with the model. A View may fail while pages are lost.
func (r *faultRun) views(t *testing.T) {
	t.Helper()
	r.absent, r.found = 0, 0
	for _, user := range []string{"1", "2", "3", "0"} {
		v, err := r.view(t.Context(), user)
		if err != nil {
			continue
		}
		for a, m := range r.model {
			if m.undecided || a.User != user {
				continue
			}
			match := v.has(a.Kind, a.Target)
			switch {
			case m.live && !match:
				t.Errorf("%+v is missed", a)
			case !m.live:
				r.absent++
				if match {
					r.found++
				}
			}
		}
	}
}

// wantTwoSides checks that the ledger has both rows of every block.
func (g *rig) wantTwoSides(t *testing.T) {
	t.Helper()
	sides := map[act]int{}
	for _, page := range g.allPages(t) {
		rows, _, err := g.ledger.Keys(t.Context(), page)
		must(t, err)
		for _, row := range rows {
			switch row.Kind {
			case "block":
				sides[add(row.Owner, "block", row.Target)]++
			case "blocked-by":
				sides[add(row.Target, "block", row.Owner)]++
			}
		}
	}
	for a, n := range sides {
		if n != 2 {
			t.Errorf("%+v has %d rows, want 2", a, n)
		}
	}
}

// Without a ledger, the content of a page tells its state.
func TestStateWithoutLedger(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	sound, foreign := favfilter.Header{Identity: g.storage.identity}, favfilter.Header{}
	for want, st := range map[string]favfilter.Status{
		PageSound:   {Header: sound},
		PageForeign: {Header: foreign},
		PageUnused:  {Missing: true},
		PageDamaged: {Damage: faulttest.ErrInjected},
	} {
		if got := g.storage.stateAlone(st); got != want {
			t.Errorf("state %q, want %q", got, want)
		}
	}
}

// dependency names what err says is unavailable; "" if it is another error.
func dependency(err error) string {
	if down, ok := errors.AsType[*UnavailableError](err); ok {
		return down.Dependency
	}
	return ""
}
