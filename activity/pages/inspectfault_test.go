package pages

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// faultyWhole is a store whose LoadWhole counts as a call that may fail, too.
type faultyWhole struct{ faulttest.Store }

func (s faultyWhole) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return faulttest.Do(s.Faults, func() ([]favfilter.Loaded, error) { return s.Store.LoadWhole(ctx, ids) })
}

// TestInspectFaults lets each call of an inspection fail. The inspection returns an error or a
// complete answer, never a part of one.
func TestInspectFaults(t *testing.T) {
	f := &faulttest.Faults{}
	g := newRig(t, &favfilter.Memory{}, 4)
	_, err := g.Record(t.Context(), []act{add("1", "block", "2"), add("1", "hide", "p")})
	must(t, err)
	g.open(t, g.ledger.Around(f.Around), faultyWhole{faulttest.Store{Store: g.store, Faults: f}})
	for name, look := range map[string]func() (whole bool, err error){
		"a page": func() (bool, error) {
			p, err := g.inspector.InspectPage(t.Context(), g.pageOf("1"))
			return p != nil && p.Agrees() && p.Ledger.Keys > 1, err
		},
		"a user": func() (bool, error) {
			in, err := g.inspector.InspectUser(t.Context(), "1")
			return in != nil && in.Agrees() && len(in.User.Rows) == 2 && len(in.User.Keys) == 2 && len(in.User.Lacks) == 0, err
		},
	} {
		failed := 0
		for at := int64(1); ; at++ {
			f.At = f.Calls() + at
			whole, err := look()
			switch {
			case err == nil && !whole:
				t.Errorf("%s, call %d fails: incomplete, without an error", name, at)
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
			t.Errorf("%s: no failed call caused an error", name)
		}
	}
}

// overtaken is a store that calls then after each read of a page with its collision bits.
type overtaken struct {
	favfilter.Store

	then func()
}

func (s overtaken) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	loaded, err := s.Store.LoadWhole(ctx, ids)
	s.then()
	return loaded, err
}

// A write between the reads of page and ledger does not count as a difference. If there is one at
// each try, the page is reported as behind.
func TestInspectWhileWritten(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	g.record(t, true, add("1", "hide", "p"))
	reads, writes, written := 0, 1, 0
	g.useStore(overtaken{g.store, func() {
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
		t.Errorf("with a write at each try, read %d times: %+v", reads, p)
	}
}

// Agrees reports false for a page that differs from the ledger in any way.
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
		{"overfull", sound(func(p *PageInside) { p.State = PageOverfull }), false},
		{"behind", sound(func(p *PageInside) { p.Behind = 1 }), false},
		{"one key too few", sound(func(p *PageInside) { p.Residual = -1 }), false},
		{"a key that a View misses", sound(func(p *PageInside) { p.Lacks["hide"] = 1 }), false},
		{"unused", &PageInside{State: PageUnused, Ledger: &LedgerPage{}}, true},
		{"unused, with keys in the ledger", &PageInside{State: PageUnused, Ledger: &LedgerPage{Keys: 1}}, false},
		{"unused, without a ledger", &PageInside{State: PageUnused}, true},
		{"damaged, without a ledger", &PageInside{State: PageDamaged}, false},
	} {
		if got := c.page.Agrees(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// A page counts as overfull once the rate is lowered. A page whose users have no activities is
// ahead, not unused.
func TestInspectOddPages(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	page, err := g.image(t.Context(), 0, nil, ledger.PageState{Sequence: 5})
	must(t, err)
	put(t, g.store, page)
	if p := g.inspectOne(t, 0); p.State != PageAhead || p.Agrees() {
		t.Errorf("page without activities: %v, agrees %v", p.State, p.Agrees())
	}
	_, err = g.RebuildPage(t.Context(), 0)
	must(t, err)
	somePopulation(t, g)
	g.storage.keyRate = 1e-30
	if p := g.inspectOne(t, 0); p.State != PageOverfull || p.Agrees() || p.Status.Header.Set <= p.Limit {
		t.Errorf("after the rate was lowered: %v, agrees %v", p.State, p.Agrees())
	}
}
