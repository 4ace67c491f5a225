package activity

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// TestWindowsAreOneUsers: windows are not shared.
func TestWindowsAreOneUsers(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.record(t, true, add("1", "seen", "p"))
	g.want(t, "2", "seen", "p", None)
	g.want(t, "1", "seen", "p", Direct)
	w, err := g.Window(t.Context(), g.kind(t, "seen"), "1")
	must(t, err)
	if w.Keys() != 1 {
		t.Errorf("the window of one user has %d keys", w.Keys())
	}
}

// The rate of a candidate is divided among what it is looked up in.
func TestRates(t *testing.T) {
	drop := func(name string, window time.Duration) Kind {
		return Kind{Name: name, Plural: name + "s", Target: Post, Effect: Drop, Window: window}
	}
	block := Kind{Name: "block", Plural: "blocks", Target: User, Effect: Drop, Reverse: "blocked-by"}
	note := Kind{Name: "note", Plural: "notes", Target: Post, Effect: Annotate}
	const all = 0.75 / 512 // whose third is exact
	for name, c := range map[string]struct {
		kinds []Kind
		want  Rates
	}{
		"both":         {[]Kind{block, drop("hide", 0), note, drop("seen", time.Hour), drop("read", time.Hour)}, Rates{all, all / 6, all / 4}},
		"pages alone":  {[]Kind{block, drop("hide", 0), note}, Rates{all, all / 3, all}},
		"windows only": {[]Kind{note, drop("seen", time.Hour), drop("read", time.Hour)}, Rates{all, all, all / 2}},
		"none":         {[]Kind{note}, Rates{all, all, all}},
	} {
		kinds, err := NewKinds(c.kinds...)
		must(t, err)
		if got := kinds.Rates(all); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		// The weights of keys are enough for keys that set eight bits or more.
		if got, want := kinds.Rates(0.5).Key, pages.MaxKeyRate; got != want {
			t.Errorf("%s: %v of a key at a rate of a half, want %v", name, got, want)
		}
	}
}

// A window that version 0.2.0 wrote, in which each key has the rate of a candidate, stays in use.
// It takes further posts.
func TestWindowOfTheFormerRate(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	id, now := g.Inside().Identity(), g.windows["seen"]
	former, err := seen.Open(g.store, seen.Config{
		Name: "seen", Length: 30 * 24 * time.Hour, Seed: id.Seed, Pages: id.Pages, FalsePositiveRate: g.rates.Window,
	})
	must(t, err)
	posts := func(from, n int) (all []Activity) {
		for i := from; i < from+n; i++ {
			all = append(all, add("1", "seen", fmt.Sprint("p", i)))
		}
		return all
	}
	g.windows["seen"] = former
	_, err = g.Record(t.Context(), posts(0, 9000))
	must(t, err)
	g.windows["seen"] = now
	w, err := g.Window(t.Context(), g.kind(t, "seen"), "1")
	must(t, err)
	rate := 0.0
	for _, run := range w.Runs() {
		rate += run.FalsePositiveRate
	}
	if most := 3 * g.rates.OfWindow(g.kind(t, "seen")); rate <= most {
		t.Fatalf("the window reports %.2g, want more than %.2g to try this", rate, most)
	}
	_, err = g.Record(t.Context(), posts(9000, 100))
	must(t, err)
	for _, i := range []int{0, 4500, 8999, 9000, 9099} {
		g.want(t, "1", "seen", fmt.Sprint("p", i), Direct)
	}
}

// TestWindowHistory: what was seen before the service came is recorded with its own time, and kept
// for the window from then on.
func TestWindowHistory(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 4)
		g.rate = 1e-8 // a hundred looks must find nothing
		g.open(t, g.ledger, store)
		const day = 24 * time.Hour
		var batch []Activity
		for i := range 60 { // 40 days
			a := add("1", "seen", fmt.Sprint("p", i))
			a.Since = g.Now().Add(-time.Duration(i) * 16 * time.Hour)
			batch = append(batch, a)
		}
		outcomes, err := g.Record(t.Context(), batch)
		must(t, err)
		for range 3 {
			for i, a := range batch {
				age := g.Now().Sub(a.Since)
				match := g.match(t, "1", "seen", a.Target)
				if age <= 30*day && match != Direct || age > 35*day && match != None {
					t.Errorf("post %d, seen %v ago: %v", i, age, match)
				}
			}
			g.now.Add(int64(10 * day))
		}
		ahead := add("2", "seen", "p") // as of a clock that is fast
		ahead.Since = g.Now().Add(time.Minute)
		g.record(t, true, ahead)
		g.want(t, "2", "seen", "p", Direct)
		if changed := count(outcomes, Changed); changed < 45 || changed > 53 {
			t.Errorf("%d of 60 posts, of which 46 are of the last 30 days, were recorded", changed)
		}
		undone := batch[0]
		undone.Remove = true
		if _, err := g.Record(t.Context(), []Activity{undone}); !errors.As(err, new(*InvalidError)) {
			t.Errorf("an undo with a time: %v", err)
		}
	})
}

// TestViewRecords: what a View has read is added to in one write, and nobody's is lost.
func TestViewRecords(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 4)
		kinds := []Kind{g.kind(t, "hide"), g.kind(t, "seen")}
		var views []*View
		for range 3 {
			v, err := g.View(t.Context(), "1", kinds)
			must(t, err)
			views = append(views, v)
		}
		for i, v := range views { // each of a state that the others have changed meanwhile
			must(t, v.Record(t.Context(), kinds[1].Name, []string{fmt.Sprint("p", i), fmt.Sprint("q", i)}))
		}
		for i := range views {
			g.want(t, "1", "seen", fmt.Sprint("p", i), Direct)
			g.want(t, "1", "seen", fmt.Sprint("q", i), Direct)
		}
		if err := views[0].Record(t.Context(), kinds[0].Name, []string{"p"}); err == nil {
			t.Error("a kind without a window was recorded")
		}
	})
}

// TestStoreDown: without the store feeds come from the ledger, windows are named as
// degraded, and writes are seen by all once the ledger has them.
func TestStoreDown(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 2)
	g.record(t, true, add("1", "block", "2"))
	g.record(t, true, add("1", "seen", "p"))
	down := faulttest.Down()
	g.useStore(down)
	v, err := g.View(t.Context(), "1", g.Kinds().All())
	must(t, err)
	if v.Check(0, "2") != Direct || v.Check(3, "p") != None {
		t.Error("the block is missed, or the window invented")
	}
	if len(v.Degraded) != 1 || v.Degraded[0].Kind != "seen" {
		t.Errorf("degraded %v", v.Degraded)
	}
	g.record(t, true, add("1", "hide", "q"))
	g.want(t, "1", "hide", "q", Direct)
	g.record(t, true, add("1", "hide", "r"))
	g.record(t, true, undo("1", "hide", "r"))
	g.want(t, "1", "hide", "r", None)
	if _, err = g.Record(t.Context(), []Activity{add("1", "seen", "q")}); dependency(err) != "pages" {
		t.Errorf("seen: %v", err)
	}
	if ready, down := g.Ready(t.Context()); !ready || len(down) != 1 || dependency(down[0]) != "pages" {
		t.Errorf("ready: %v", down)
	}
	g.useStore(g.store)
	g.want(t, "1", "hide", "q", Direct) // the page is behind
	g.want(t, "1", "hide", "r", None)
	g.record(t, false, add("1", "hide", "q"))
	if ready, down := g.Ready(t.Context()); !ready || len(down) != 0 {
		t.Errorf("ready: %v", down)
	}
}

// TestLedgerDown: without the ledger feeds come from the pages, and writes of kinds
// that need it are refused.
func TestLedgerDown(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 2)
	g.record(t, true, add("1", "block", "2"))
	must(t, g.ledger.Close())
	g.want(t, "1", "block", "2", Direct)
	g.want(t, "2", "block", "1", Reverse)
	if _, err := g.Record(t.Context(), []Activity{add("1", "hide", "q")}); dependency(err) != "ledger" {
		t.Errorf("hide: %v", err)
	}
	g.record(t, true, add("1", "seen", "q"))
	if _, err := g.List(t.Context(), "1", "hide", "", 10); dependency(err) != "ledger" {
		t.Errorf("list: %v", err)
	}
	if ready, down := g.Ready(t.Context()); !ready || len(down) != 1 || dependency(down[0]) != "ledger" {
		t.Errorf("ready: %v", down)
	}
	g.useStore(faulttest.Down())
	if ready, down := g.Ready(t.Context()); ready || len(down) != 2 {
		t.Errorf("ready %v with neither: %v", ready, down)
	}
}

func count(outcomes []Outcome, of Outcome) (n int) {
	for _, o := range outcomes {
		if o == of {
			n++
		}
	}
	return n
}
