package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

var errInjected = errors.New("injected")

// faults makes one call of a ledger or a store fail: the one numbered at, before or
// after it takes effect.
type faults struct {
	at    int64
	after bool
	calls atomic.Int64
}

// inject reports whether the call that begins now fails, before or after.
func (f *faults) inject() (before, after bool) {
	fails := f.calls.Add(1) == f.at
	return fails && !f.after, fails && f.after
}

// failing runs call with the fault injected, if it is its turn.
func failing[T any](f *faults, call func() (T, error)) (T, error) {
	before, after := f.inject()
	if before {
		var zero T
		return zero, errInjected
	}
	v, err := call()
	if after && err == nil {
		var zero T
		return zero, errInjected
	}
	return v, err
}

type faultyLedger struct {
	Ledger
	*faults
}

func (l faultyLedger) Record(ctx context.Context, changes []ledger.Change) (ledger.Receipt, error) {
	return failing(l.faults, func() (ledger.Receipt, error) { return l.Ledger.Record(ctx, changes) })
}

func (l faultyLedger) Snapshot(ctx context.Context, page uint32) ([]ledger.Row, uint64, error) {
	type snapshot struct {
		rows     []ledger.Row
		sequence uint64
	}
	s, err := failing(l.faults, func() (snapshot, error) {
		rows, sequence, err := l.Ledger.Snapshot(ctx, page)
		return snapshot{rows, sequence}, err
	})
	return s.rows, s.sequence, err
}

func (l faultyLedger) Sequence(ctx context.Context, page uint32) (uint64, error) {
	return failing(l.faults, func() (uint64, error) { return l.Ledger.Sequence(ctx, page) })
}

type faultyStore struct {
	favfilter.Store
	*faults
}

func (s faultyStore) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return failing(s.faults, func() ([]favfilter.Loaded, error) { return s.Store.Load(ctx, ids) })
}

func (s faultyStore) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	return failing(s.faults, func() (bool, error) { return s.Store.Replace(ctx, r) })
}

func (s faultyStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	results, err := failing(s.faults, func() ([]favfilter.Result, error) { return s.Store.Apply(ctx, batches), nil })
	if err != nil {
		results = make([]favfilter.Result, len(batches))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}

// TestFaultAtEveryStep lets each call of ledger and store fail once, before and after
// it takes effect, until a run goes by without a fault. After each run the Recorder is
// started anew: what was acknowledged is there, what was refused is whole or not at all.
func TestFaultAtEveryStep(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			absent, found := 0, 0
			for at := int64(1); ; at++ {
				f := &faults{at: at, after: after}
				g, a, n := runWithFault(t, f)
				absent += a
				found += n
				if t.Failed() {
					t.Fatalf("fault at call %d", at)
				}
				if f.calls.Load() < at {
					t.Logf("%d calls", at-1)
					g.checkRate(t, found, absent)
					return
				}
			}
		})
	}
}

// scenario touches both pages, in every way.
func scenario() [][]Activity {
	batch := func(n int, remove bool) (b []Activity) {
		for i := range n {
			b = append(b, Activity{User: fmt.Sprint(i % 3), Kind: "hide", Target: fmt.Sprint("b", i), Remove: remove})
		}
		return b
	}
	return [][]Activity{
		{add("1", "hide", "p")},
		{add("1", "block", "2")},
		{add("1", "block", "2")},
		{add("1", "seen", "s")},
		batch(60, false),
		{undo("1", "block", "2"), add("2", "block", "3"), add("3", "like", "p")},
		batch(200, false), // grows
		{undo("1", "hide", "p")},
		{undo("1", "hide", "p")},
		batch(200, true), // shrinks
		{add("2", "hide", "q"), add("2", "seen", "q")},
	}
}

// runWithFault returns how many keys that are not live it looked for at the end, and
// how many of them it found.
func runWithFault(t *testing.T, f *faults) (g *rig, absent, found int) {
	t.Helper()
	g = newRig(t, &favfilter.Memory{}, 2)
	g.open(t, faultyLedger{g.ledger, f}, faultyStore{g.store, f})
	type fate struct{ live, undecided bool }
	model := map[Activity]fate{}
	views := func() {
		absent, found = 0, 0
		for _, user := range []string{"1", "2", "3", "0"} {
			v, err := g.View(t.Context(), user, g.Kinds().All())
			if err != nil || len(v.Degraded) > 0 {
				continue
			}
			for a, m := range model {
				if m.undecided || a.User != user {
					continue
				}
				match := v.Check(slices.IndexFunc(g.Kinds().All(), func(k Kind) bool { return k.Name == a.Kind }), a.Target)
				switch {
				case m.live && match == None:
					t.Errorf("%+v is missed", a)
				case !m.live:
					absent++
					if match != None {
						found++
					}
				}
			}
		}
	}
	for _, call := range scenario() {
		changed, err := g.Record(t.Context(), call)
		if err != nil && !errors.Is(err, errInjected) {
			t.Errorf("record: %v", err)
		}
		for i, a := range call {
			key, remove := a, a.Remove
			key.Remove = false
			was := model[key]
			if err == nil && !was.undecided && changed[i] != (was.live == remove) {
				t.Errorf("%+v: changed %v", a, changed[i])
			}
			model[key] = fate{live: !remove, undecided: err != nil}
		}
		views()
	}
	g.open(t, g.ledger, g.store)
	views()
	g.wantTwoSides(t)
	return g, absent, found
}

// wantTwoSides checks that every block of the ledger stands on both sides.
func (g *rig) wantTwoSides(t *testing.T) {
	t.Helper()
	sides := map[Activity]int{}
	for page := range g.identity.Pages {
		rows, _, err := g.ledger.Snapshot(t.Context(), page)
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
			t.Errorf("%+v stands on %d sides", a, n)
		}
	}
}

// dependency names what err says is unavailable; "" if it says nothing of the kind.
func dependency(err error) string {
	if down, ok := errors.AsType[*UnavailableError](err); ok {
		return down.Dependency
	}
	return ""
}

// downStore answers nothing.
type downStore struct{}

func (downStore) Load(context.Context, []favfilter.PageID) ([]favfilter.Loaded, error) {
	return nil, errInjected
}

func (downStore) Apply(_ context.Context, batches []favfilter.Batch) []favfilter.Result {
	results := make([]favfilter.Result, len(batches))
	for i := range results {
		results[i].Err = errInjected
	}
	return results
}

func (downStore) Replace(context.Context, favfilter.Replacement) (bool, error) {
	return false, errInjected
}
