package activity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

const pinLimit = 20

func pinKinds(t *testing.T) *Kinds {
	t.Helper()
	kinds, err := NewKinds(append(builtinKinds(), Kind{Name: "pin", Plural: "pins", Target: Post, Effect: Annotate, Limit: pinLimit})...)
	must(t, err)
	return kinds
}

// pins are what the ledger lists for user.
func (g *rig) pins(t *testing.T, user string) []string {
	t.Helper()
	list, err := g.List(t.Context(), user, "pin", "", MaxListed)
	must(t, err)
	var ids []string
	for _, item := range list.Items {
		ids = append(ids, item.Target)
	}
	counts, err := g.Counts(t.Context(), user)
	must(t, err)
	if counts["pin"] != len(ids) {
		t.Errorf("%d counted, %d listed", counts["pin"], len(ids))
	}
	slices.Sort(ids)
	return ids
}

// writeAll has 16 writers, half of them at each of two Recorders, record what changes yields for
// each, one activity after another, and returns what was changed.
func writeAll(t *testing.T, recorders []*rig, changes func(writer int) []Activity) (changed []Activity) {
	t.Helper()
	var mu sync.Mutex
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for _, a := range changes(w) {
				outcomes, err := recorders[w%len(recorders)].Record(t.Context(), []Activity{a})
				if err != nil {
					t.Errorf("%+v: %v", a, err)
					return
				}
				if outcomes[0] == Changed {
					mu.Lock()
					changed = append(changed, a)
					mu.Unlock()
				}
			}
		})
	}
	writers.Wait()
	return changed
}

// TestLimitOfManyWriters checks that a limit is exact with many writers. A refused activity is
// neither in the ledger nor in a page.
func TestLimitOfManyWriters(t *testing.T) {
	url := pgtest.Start(t).Schema()
	store := &favfilter.Memory{}
	var recorders []*rig
	for range 2 {
		recorders = append(recorders, openKinds(t, openLedgerAt(t, url, 4), store, pinKinds(t)))
	}
	changed := writeAll(t, recorders, func(w int) (all []Activity) {
		for i := range 6 {
			all = append(all, add("1", "pin", fmt.Sprint("p", w, "/", i)))
		}
		return all
	})
	var ids []string
	for _, a := range changed {
		ids = append(ids, a.Target)
	}
	slices.Sort(ids)
	for _, g := range recorders {
		if pins := g.pins(t, "1"); len(pins) != pinLimit || !slices.Equal(pins, ids) {
			t.Errorf("pinned %v, acknowledged %v, the limit is %d", pins, ids, pinLimit)
		}
		found := 0
		for w := range 16 {
			for i := range 6 {
				id := fmt.Sprint("p", w, "/", i)
				switch match := g.check(t, "1", "pin", id); {
				case match != None && !slices.Contains(ids, id):
					found++
				case match == None && slices.Contains(ids, id):
					t.Errorf("%s is missed", id)
				}
			}
		}
		wantRate(t, g.rates.Key, found, 16*6-pinLimit)
	}
	// Each undoes what is there, and tries others: there is never one too many, and none is refused
	// for nothing.
	churned := writeAll(t, recorders, func(w int) (all []Activity) {
		rng := rand.New(rand.NewPCG(3, uint64(w)))
		for i := range 6 {
			all = append(all, undo("1", "pin", ids[rng.IntN(len(ids))]), add("1", "pin", fmt.Sprint("q", w, "/", i)))
		}
		return all
	})
	left := make(map[string]bool)
	for _, id := range ids {
		left[id] = true
	}
	for _, a := range churned { // each is added once at most, and undone once at most
		if left[a.Target] = !a.Remove; a.Remove {
			delete(left, a.Target)
		}
	}
	want := slices.Sorted(maps.Keys(left))
	if pins := recorders[0].pins(t, "1"); len(pins) > pinLimit || !slices.Equal(pins, want) {
		t.Errorf("pinned %v, acknowledged %v, the limit is %d", pins, want, pinLimit)
	}
}

// TestLimitInOneCall: activities of one call count one after another, each user's for themselves,
// and a preview says before what they come to.
func TestLimitInOneCall(t *testing.T) {
	g := openKinds(t, openLedger(t, t.TempDir()+"/ledger.db", 4), &favfilter.Memory{}, pinKinds(t))
	targets := func(from, to int) (ids []string) {
		for i := from; i < to; i++ {
			ids = append(ids, fmt.Sprint("p", i))
		}
		return ids
	}
	preview := func(user string, ids []string, want Preview) {
		t.Helper()
		before := g.pins(t, user)
		want.Limit = pinLimit
		if p, err := g.Preview(t.Context(), user, "pin", ids); err != nil || p != want {
			t.Errorf("preview %+v, %v, want %+v", p, err, want)
		}
		if after := g.pins(t, user); !slices.Equal(before, after) {
			t.Errorf("the preview took %v to %v", before, after)
		}
	}
	preview("1", targets(0, pinLimit), Preview{New: pinLimit, Total: pinLimit})
	preview("1", append(targets(0, pinLimit+1), "p0"), Preview{New: pinLimit + 1, Total: pinLimit + 1, Over: true})
	var batch []Activity
	var want []Outcome
	put := func(a Activity, o Outcome) { batch, want = append(batch, a), append(want, o) }
	for i, id := range targets(0, pinLimit+3) {
		if i < pinLimit {
			put(add("1", "pin", id), Changed)
			put(add("2", "pin", id), Changed)
		} else {
			put(add("1", "pin", id), OverLimit)
		}
	}
	put(undo("2", "pin", "p1"), Changed)     // makes room for one of theirs
	put(add("1", "pin", "new"), OverLimit)   // not for another's
	put(add("2", "pin", "new"), Changed)     //
	put(add("2", "pin", "newer"), OverLimit) //
	put(add("1", "pin", "p0"), Unchanged)    // is there
	put(add("1", "hide", "h"), Changed)      // of another kind
	put(undo("1", "pin", "never"), Unchanged)
	put(add("3", "pin", "p1"), Changed)
	outcomes, err := g.Record(t.Context(), batch)
	must(t, err)
	for i, o := range outcomes {
		if o != want[i] {
			t.Errorf("%d, %+v: %v, want %v", i, batch[i], o, want[i])
		}
	}
	preview("1", targets(0, pinLimit), Preview{Present: pinLimit, Total: pinLimit})
	preview("1", []string{"new", "p0"}, Preview{New: 1, Present: 1, Total: pinLimit + 1, Over: true})
	preview("2", []string{"p0", "p1", "new"}, Preview{New: 1, Present: 2, Total: pinLimit + 1, Over: true})
	preview("3", []string{"p0", "p1"}, Preview{New: 1, Present: 1, Total: 2})
	g.want(t, "2", "pin", "new", Direct)
	g.want(t, "2", "pin", "p1", None)
	g.want(t, "1", "pin", fmt.Sprint("p", pinLimit), None)
}

// TestLimitAndEnds checks that an activity that has ended makes room at once, before it is removed.
// Prolonging an activity is not refused at the limit.
func TestLimitAndEnds(t *testing.T) {
	g := openKinds(t, openLedger(t, t.TempDir()+"/ledger.db", 4), &favfilter.Memory{}, pinKinds(t))
	end := g.Now().Add(1e9)
	for i := range pinLimit {
		g.record(t, true, add("1", "pin", fmt.Sprint("p", i)).until(end))
	}
	outcomes, err := g.Record(t.Context(), []Activity{add("1", "pin", "p0"), add("1", "pin", "q")})
	must(t, err)
	if want := []Outcome{Changed, OverLimit}; !slices.Equal(outcomes, want) {
		t.Errorf("%v, want %v", outcomes, want)
	}
	g.now.Store(end.UnixNano())
	if p, err := g.Preview(t.Context(), "1", "pin", []string{"p0", "p1", "q"}); err != nil || p != (Preview{New: 2, Present: 1, Total: 3, Limit: pinLimit}) {
		t.Errorf("preview %+v, %v", p, err)
	}
	for i := range pinLimit - 1 {
		g.record(t, true, add("1", "pin", fmt.Sprint("q", i)))
	}
	g.record(t, false, add("1", "pin", "p1"))
	if pins := g.pins(t, "1"); len(pins) != pinLimit || pins[0] != "p0" {
		t.Errorf("pinned %v", pins)
	}
}

// TestLimitLowered checks that activities from before a limit was lowered stay. They may be undone
// and prolonged.
func TestLimitLowered(t *testing.T) {
	l, store := openLedger(t, t.TempDir()+"/ledger.db", 4), &favfilter.Memory{}
	g := openKinds(t, l, store, pinKinds(t))
	for i := range pinLimit {
		g.record(t, true, add("1", "pin", fmt.Sprint("p", i)))
	}
	lowered, err := NewKinds(append(builtinKinds(), Kind{Name: "pin", Plural: "pins", Target: Post, Effect: Annotate, Limit: 5})...)
	must(t, err)
	g = openKinds(t, l, store, lowered)
	preview := func(id string, want Preview) {
		t.Helper()
		want.Limit = 5
		if p, err := g.Preview(t.Context(), "1", "pin", []string{id}); err != nil || p != want {
			t.Errorf("preview %+v, %v, want %+v", p, err, want)
		}
	}
	preview("p0", Preview{Present: 1, Total: pinLimit})
	preview("q", Preview{New: 1, Total: pinLimit + 1, Over: true})
	outcomes, err := g.Record(t.Context(), []Activity{
		add("1", "pin", "p0"), add("1", "pin", "p1").until(g.Now().Add(1e12)), add("1", "pin", "q"), undo("1", "pin", "p2"), add("1", "pin", "p2"),
	})
	must(t, err)
	if want := []Outcome{Unchanged, Changed, OverLimit, Changed, OverLimit}; !slices.Equal(outcomes, want) {
		t.Errorf("%v, want %v", outcomes, want)
	}
	if pins := g.pins(t, "1"); len(pins) != pinLimit-1 {
		t.Errorf("pinned %v", pins)
	}
}
