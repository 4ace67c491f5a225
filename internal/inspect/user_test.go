package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// somePopulation records activities on a single page, with known numbers of keys.
func somePopulation(t *testing.T, g *rig) {
	t.Helper()
	var batch []activity.Activity
	for i := range 30 {
		batch = append(batch, add("heavy", "hide", fmt.Sprint("p", i)))
	}
	for i := range 5 {
		batch = append(batch, add("light", "block", fmt.Sprint("b", i)))
	}
	batch = append(batch, add("light", "like", "p1"))
	_, err := g.Record(t.Context(), batch)
	must(t, err)
}

func TestInspectUser(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 1)
		somePopulation(t, g)
		_, err := g.Record(t.Context(), []activity.Activity{add("light", "seen", "p1"), add("light", "seen", "p2")})
		must(t, err)
		look := func() *User {
			t.Helper()
			u, err := ReadUser(t.Context(), g.Activities, "light")
			must(t, err)
			return u
		}
		u := look()
		if u.Page != 0 || u.Slot != 0 || u.Dedicated || u.Keys != 6 || u.PageHolds != 6 || len(u.Lacks) > 0 ||
			!maps.Equal(u.Counts, map[string]int{"block": 5, "like": 1}) || u.PageUsers != 7 || u.PageState != "sound" || u.PageKeys != 41 {
			t.Errorf("%+v", u)
		}
		if len(u.Windows) != 1 || u.Windows[0].Kind != "seen" || u.Windows[0].Parts != 1 || u.Windows[0].Keys != 2 {
			t.Errorf("windows: %+v", u.Windows)
		}
		if bits := favfilter.HeaderBytes + int(g.inspectOne(t, 0).Status.Size.Bits/8); u.FeedBytes != bits+u.Windows[0].Bytes || u.Windows[0].Bytes < 30 {
			t.Errorf("a feed reads %d, the page has %d, windows %+v", u.FeedBytes, bits, u.Windows)
		}
		put(t, g.store, emptied(t, g))
		if u := look(); u.Keys != 6 || u.PageHolds != 0 || !maps.Equal(u.Lacks, map[string]int{"block": 5, "like": 1}) {
			t.Errorf("after the page lost its keys: %+v", u)
		}
		g.dedicate(t, "light")
		g.want(t, "light", "like", "p1", activity.Direct)
		must(t, err)
		if u := look(); u.Page != ledger.DedicatedPages || u.Slot != 0 || !u.Dedicated || u.PageHolds != 6 || u.PageUsers != 1 {
			t.Errorf("on a dedicated page: %+v", u)
		}
		nobody, err := ReadUser(t.Context(), g.Activities, "nobody")
		if err != nil || nobody.Keys != 0 || nobody.PageHolds != 0 || nobody.Page != 0 || nobody.Windows[0].Parts != 0 {
			t.Errorf("user without activities: %+v, %v", nobody, err)
		}
		if _, err := ReadUser(t.Context(), g.Activities, "a\x00"); !isInvalid(err, activity.CodeInvalidID, "user") {
			t.Errorf("invalid id: %v", err)
		}
	})
}

// Inspecting a user works before any activity was recorded.
func TestInspectUnusedPage(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 64)
	for _, user := range []string{"1", "2", "3"} {
		u, err := ReadUser(t.Context(), g.Activities, user)
		must(t, err)
		if slot := g.slot(user); u.Slot != slot || u.Page != slot || u.FeedBytes != 0 || u.Keys != 0 || u.PageState != "unused" {
			t.Errorf("%s, in slot %d: %+v", user, slot, u)
		}
	}
}

// A page of the format before weights says that each of its keys sets as many bits.
func TestInspectPageFormat(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	somePopulation(t, g)
	header := emptied(t, g).Header()
	for _, uniform := range []bool{false, true} {
		header.Shape.Uniform = uniform
		page, err := favfilter.NewPage(header)
		must(t, err)
		put(t, g.store, page)
		p, err := ReadPage(t.Context(), g.Activities, 0, func(user string) string { return user })
		if err != nil || p.Page == nil || p.Page.Uniform != uniform {
			t.Errorf("uniform %v: %+v, %v", uniform, p, err)
		}
	}
}

// faultyWhole is a store in which reads of pages with their collision bitmaps may fail, too.
type faultyWhole struct{ faulttest.Store }

func (s faultyWhole) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return faulttest.Do(s.Faults, func() ([]favfilter.Loaded, error) { return s.Store.LoadWhole(ctx, ids) })
}

// TestInspectFaults lets each call of an inspection fail. The inspection returns an error or a
// complete answer, never a part of one.
func TestInspectFaults(t *testing.T) {
	f := &faulttest.Faults{}
	g := newRig(t, &favfilter.Memory{}, 4)
	_, err := g.Record(t.Context(), []activity.Activity{add("1", "block", "2"), add("1", "hide", "p"), add("1", "seen", "p")})
	must(t, err)
	g.open(t, g.ledger.Around(f.Around), faultyWhole{faulttest.Store{Store: g.store, Faults: f}}, 0)
	key := func(kind, target string) func() (bool, error) {
		return func() (bool, error) {
			in, err := ReadKey(t.Context(), g.Activities, g.recorder(), kind, "1", target)
			return in != nil && len(in.Sides) > 0 && (in.Sides[0].Verdict == Held || in.Sides[0].Verdict == Reported), err
		}
	}
	for name, look := range map[string]func() (whole bool, err error){
		"a key": key("block", "2"), "a key of a window": key("seen", "p"),
		"a user": func() (bool, error) {
			u, err := ReadUser(t.Context(), g.Activities, "1")
			return u != nil && u.Keys == 2 && u.PageHolds == 2 && len(u.Windows) == 1 && u.Windows[0].Keys == 1, err
		},
	} {
		failed := 0
		for at := int64(1); ; at++ {
			f.At = f.Calls() + at
			whole, err := look()
			switch {
			case err == nil && !whole:
				t.Errorf("%s, call %d fails: incomplete, without an error", name, at)
			case err != nil && (!errors.As(err, new(*activity.UnavailableError)) || !errors.Is(err, faulttest.ErrInjected)):
				t.Errorf("%s, call %d fails: %v", name, at, err)
			case err != nil:
				failed++
			}
			if f.Calls() < f.At {
				break
			}
		}
		if failed == 0 {
			t.Errorf("%s: no failed call caused an error", name)
		}
	}
}

// harmed is a store that returns damaged pages.
type harmed struct{ favfilter.Store }

func (s harmed) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	loaded, versions, err := s.Store.Load(ctx, ids, held...)
	for i := range loaded {
		loaded[i] = favfilter.Loaded{Damage: faulttest.ErrInjected}
		if ids[i].IsValue() {
			loaded[i] = favfilter.Loaded{Value: []byte("half a window")}
		}
	}
	return loaded, versions, err
}

func (s harmed) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, _, err := s.Load(ctx, ids)
	return loaded, err
}

// Without a ledger, a missing page counts as unused, and an unreadable one as damaged.
func TestInspectFaultsWithoutLedger(t *testing.T) {
	g := openWithout(t, activity.PlainConfig{Store: &favfilter.Memory{}, Pages: 4})
	if p := g.inspectOne(t, 1); p.State != pages.PageUnused || !p.Agrees() || p.Damage != nil {
		t.Errorf("missing page: %+v", p)
	}
	g.under.Store = harmed{g.under.Store}
	if p := g.inspectOne(t, 1); p.State != pages.PageDamaged || p.Agrees() || p.Damage == nil {
		t.Errorf("damaged page: %+v", p)
	}
	g.under.Store = faulttest.Down()
	if _, err := g.Inside().InspectPage(t.Context(), 1); !errors.As(err, new(*activity.UnavailableError)) {
		t.Errorf("without the store: %v", err)
	}
}

// If a window is unreadable, its side is damaged and lacks its keys.
func TestInspectHarmedWindow(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	g.record(t, add("1", "seen", "p"))
	g.under.Store = harmed{g.under.Store}
	in := g.inspectedKey(t, "seen", "1", "p")
	if len(in.Sides) == 0 || in.Sides[0].PageState != "damaged" || in.Sides[0].Verdict != Gone {
		t.Errorf("%+v", in.Sides)
	}
}
