package activity

import (
	"fmt"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
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
