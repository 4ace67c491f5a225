package activity

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// faultyWhole is a store whose reads of pages with their marks count as calls that may fail, too.
type faultyWhole struct{ faulttest.Store }

func (s faultyWhole) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return faulttest.Do(s.Faults, func() ([]favfilter.Loaded, error) { return s.Store.LoadWhole(ctx, ids) })
}

// TestInspectFaults lets each call that a look makes fail: it says so, or gets by without, and never shows half of what there is.
func TestInspectFaults(t *testing.T) {
	f := &faulttest.Faults{}
	g := newRig(t, &favfilter.Memory{}, 4)
	_, err := g.Record(t.Context(), []Activity{add("1", "block", "2"), add("1", "hide", "p"), add("1", "seen", "p")})
	must(t, err)
	g.open(t, faulttest.Ledger{Ledger: g.ledger, Faults: f}, faultyWhole{faulttest.Store{Store: g.store, Faults: f}})
	key := func(kind, target string) func() (bool, error) {
		return func() (bool, error) {
			in, err := g.InspectKey(t.Context(), kind, "1", target)
			return in != nil && len(in.Sides) > 0 && (in.Sides[0].Verdict == Held || in.Sides[0].Verdict == Reported), err
		}
	}
	for name, look := range map[string]func() (whole bool, err error){
		"a page": func() (bool, error) {
			p, err := g.InspectPage(t.Context(), g.layout.pageOf(userHash(g.identity.Seed, "1")))
			return p != nil && p.Agrees() && p.Ledger.Keys > 1, err
		},
		"a key": key("block", "2"), "a key of a window": key("seen", "p"),
		"a user": func() (bool, error) {
			u, err := g.InspectUser(t.Context(), "1")
			return u != nil && u.Total == 2 && u.Holds == 2 && len(u.Windows) == 1 && u.Windows[0].Keys == 1, err
		},
	} {
		failed := 0
		for at := int64(1); ; at++ {
			f.At = f.Calls() + at
			whole, err := look()
			switch {
			case err == nil && !whole:
				t.Errorf("%s, call %d fails: it is not whole, and nothing is said", name, at)
			case err != nil && (!errors.As(err, new(*UnavailableError)) || !errors.Is(err, faulttest.ErrInjected)):
				t.Errorf("%s, call %d fails: %v", name, at, err)
			case err != nil:
				failed++
			}
			if f.Calls() < f.At {
				break
			}
		}
		if failed == 0 {
			t.Errorf("%s: no call matters", name)
		}
	}
}

// overtaken is a store that something is written to whenever a page was read with its marks.
type overtaken struct {
	favfilter.Store

	then func()
}

func (s overtaken) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, err := s.Store.LoadWhole(ctx, ids)
	s.then()
	return loaded, err
}

// A write between the looks at the page and at the ledger is no difference between the two, unless there is one each time.
func TestInspectWhileWritten(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.record(t, true, add("1", "hide", "p"))
	reads, writes, written := 0, 1, 0
	g.useStore(t, overtaken{g.store, func() {
		reads++
		if reads <= writes {
			written++
			g.record(t, true, add("1", "hide", fmt.Sprint(written)))
		}
	}})
	if p := g.inspectOne(t, 0); !p.Agrees() || p.Ledger.Keys != 2 || reads != 2 {
		t.Errorf("after one write, read %d times: %+v", reads, p)
	}
	reads, writes = 0, 1000
	if p := g.inspectOne(t, 0); p.State != PageBehind || p.Behind != 1 || p.Agrees() || reads != inspectTries {
		t.Errorf("while writes do not cease, read %d times: %+v", reads, p)
	}
}

// A page that is not as the ledger has it does not agree, whatever it is that differs.
func TestAgrees(t *testing.T) {
	sound := func(change func(*PageInside)) *PageInside {
		p := &PageInside{State: PageSound, Ledger: &LedgerPage{Keys: 1}, Lacks: map[string]int{}}
		change(p)
		return p
	}
	for _, c := range []struct {
		what string
		page *PageInside
		want bool
	}{
		{"sound", sound(func(*PageInside) {}), true},
		{"of another state", sound(func(p *PageInside) { p.State = PageOverfull }), false},
		{"behind", sound(func(p *PageInside) { p.Behind = 1 }), false},
		{"a key too few", sound(func(p *PageInside) { p.Residual = -1 }), false},
		{"a key that is not reported", sound(func(p *PageInside) { p.Lacks["hide"] = 1 }), false},
		{"unused", &PageInside{State: PageUnused, Ledger: &LedgerPage{}}, true},
		{"unused, of keys", &PageInside{State: PageUnused, Ledger: &LedgerPage{Keys: 1}}, false},
		{"unused, without a ledger", &PageInside{State: PageUnused}, true},
		{"damaged, without a ledger", &PageInside{State: PageDamaged}, false},
	} {
		if got := c.page.Agrees(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// A page is overfull from the day on that the rate is made less; one where there should be none is not taken for unused.
func TestInspectOddPages(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	page, err := g.image(t.Context(), 0, nil, ledger.PageState{Sequence: 5})
	must(t, err)
	put(t, g.store, page)
	if p := g.inspectOne(t, 0); p.State != PageAhead || p.Agrees() {
		t.Errorf("where nobody has done anything: %v, agrees %v", p.State, p.Agrees())
	}
	_, err = g.RebuildPage(t.Context(), 0)
	must(t, err)
	somePopulation(t, g)
	g.keyRate = 1e-30
	if p := g.inspectOne(t, 0); p.State != PageOverfull || p.Agrees() || p.Standing.Header.Set <= p.Limit {
		t.Errorf("of another rate: %v, agrees %v", p.State, p.Agrees())
	}
}

// harmed is a store in which what is read is damaged.
type harmed struct{ favfilter.Store }

func (s harmed) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, err := s.Store.Load(ctx, ids)
	for i := range loaded {
		loaded[i] = favfilter.Loaded{Damage: faulttest.ErrInjected}
	}
	return loaded, err
}

func (s harmed) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return s.Load(ctx, ids)
}

// Without a ledger a page that is not there is unused, and one that cannot be read is damaged.
func TestInspectWithoutLedgerAmiss(t *testing.T) {
	g := openWithout(t, PlainConfig{Store: &favfilter.Memory{}, Pages: 4})
	if p := g.inspectOne(t, 1); p.State != PageUnused || !p.Agrees() || p.Damage != nil {
		t.Errorf("where nothing is: %+v", p)
	}
	g.useStore(t, harmed{g.store})
	if p := g.inspectOne(t, 1); p.State != PageDamaged || p.Agrees() || p.Damage == nil {
		t.Errorf("of a damaged page: %+v", p)
	}
	g.useStore(t, downStore{})
	if _, err := g.InspectPage(t.Context(), 1); !errors.As(err, new(*UnavailableError)) {
		t.Errorf("without the store: %v", err)
	}
}

// A part of a window that cannot be read is a side: what was recorded in it is not there.
func TestInspectHarmedWindow(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	g.record(t, true, add("1", "seen", "p"))
	g.useStore(t, harmed{g.store})
	in := g.inspectedKey(t, "seen", "1", "p")
	if len(in.Sides) == 0 || in.Sides[0].State != PageDamaged || in.Sides[0].Verdict != Gone {
		t.Errorf("%+v", in.Sides)
	}
}
