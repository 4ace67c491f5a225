package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// begun calls BeginLayout for a ledger and its model, which must agree on its success.
func begun(t tester, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	busy, invalid := m.begin(pages)
	err := l.BeginLayout(context.Background(), pages)
	if errors.Is(err, ledger.ErrLayoutBusy) != busy || err != nil != (busy || invalid) {
		t.Fatalf("BeginLayout(%d): %v; want busy: %t, refused: %t", pages, err, busy, invalid)
	}
}

// switched calls SwitchLayout for a ledger and its model.
func switched(t tester, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	busy := m.switchTo(pages)
	if err := l.SwitchLayout(context.Background(), pages); errors.Is(err, ledger.ErrLayoutBusy) != busy || err != nil && !busy {
		t.Fatalf("SwitchLayout(%d): %v; want busy: %t", pages, err, busy)
	}
}

// left calls LeaveLayout for a ledger and its model.
func left(t tester, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	m.leave(pages)
	if err := l.LeaveLayout(context.Background(), pages); err != nil {
		t.Fatalf("LeaveLayout(%d): %v", pages, err)
	}
}

// grow takes the next step of a growth, after the given number of steps.
func grow(t tester, l *ledger.Ledger, m *model, steps int, factor uint32) {
	t.Helper()
	switch steps % 3 {
	case 0:
		begun(t, l, m, factor*m.layouts.Current)
	case 1:
		switched(t, l, m, m.layouts.Building)
	default:
		left(t, l, m, m.layouts.Leaving)
	}
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// layoutsBegunAgain repeats each step, which must be a no-op. Other numbers of pages must be
// refused until the growth ends.
func (s suite) layoutsBegunAgain(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a"), block(15, "a")))
	numbers := []uint32{0, 1, 2, 3, 4, 8, 16, 2 * ledger.MaxPages, 1<<24 + 1, 1 << 31, math.MaxUint32}
	for steps := range 7 {
		_, progress := changes(t, l, "")
		was := m.layouts
		for _, pages := range numbers {
			if pages != was.Leaving {
				left(t, l, m, pages)
			}
			if pages != was.Building {
				switched(t, l, m, pages)
			}
			if pages <= was.Current || was.Building > 0 || was.Leaving > 0 || pages == 3 || pages > ledger.MaxPages {
				begun(t, l, m, pages)
			}
		}
		got, p := changes(t, l, progress.Next)
		if len(got) > 0 || p.Layouts != was {
			t.Errorf("layouts %+v, pages %v, want no change of %+v", p.Layouts, got, was)
		}
		m.check(t, l)
		grow(t, l, m, steps, 2)
		recordAt(t, l, m, at(0), add(block(steps, "b")))
		m.check(t, l)
	}
}

// layoutsOpen opens a ledger with each number of pages that it has, and with others.
func (s suite) layoutsOpen(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 2})
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a"), block(15, "a")))
	for steps, allowed := range [][]uint32{{0, 2}, {0, 2, 8}, {0, 2, 8}, {0, 2, 8}, {0, 2, 8, 32}, {0, 2, 8, 32}, {0, 2, 32}} {
		shut(t, l)
		for _, pages := range []uint32{1, 2, 4, 8, 16, 32, 64} {
			again, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
			if !slices.Contains(allowed, pages) {
				told := err != nil && strings.Contains(err.Error(), fmt.Sprint(pages)) && strings.Contains(err.Error(), fmt.Sprint(m.layouts.Current))
				if !errors.Is(err, ledger.ErrPagesDiffer) || !told {
					t.Errorf("opened with %d pages in %+v: error %v, want ErrPagesDiffer and both numbers", pages, m.layouts, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("opened with %d pages in %+v: %v", pages, m.layouts, err)
			}
			if again.Identity() != m.id {
				t.Errorf("identity %+v, want %+v", again.Identity(), m.id)
			}
			shut(t, again)
		}
		l = open(t, url, ledger.Options{})
		m.check(t, l)
		if steps < 6 {
			grow(t, l, m, steps, 4)
		}
	}
}

// layoutsRestored checks that layouts survive a restore in each phase.
func (s suite) layoutsRestored(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(4, "a"), block(6, "a")))
	dedicated(t, l, m, block(6, "").Hash)
	for steps := range 4 {
		shut(t, l)
		l = open(t, url, ledger.Options{Restored: true})
		m.id = l.Identity()
		m.check(t, l)
		recordAt(t, l, m, at(0), add(block(9, "a"), block(7, fmt.Sprint(steps))))
		grow(t, l, m, steps, 2)
		m.check(t, l)
	}
}

// layoutsManyPages grows from one page to more pages than one transaction seeds.
func (s suite) layoutsManyPages(t *testing.T) {
	l := s.make(t, 1)
	const pages = 1 << 14
	row := func(n uint64) ledger.Row {
		return ledger.Row{Hash: n << 50, Owner: fmt.Sprint("u", n), Kind: "block", Target: "t", Since: at(0)}
	}
	record(t, l, add(row(0), row(4095), row(4096), row(pages-1)))
	must(t, l.BeginLayout(t.Context(), pages))
	record(t, l, remove(row(4096)))
	must(t, l.SwitchLayout(t.Context(), pages))
	must(t, l.LeaveLayout(t.Context(), 1))
	must(t, l.LeaveLayout(t.Context(), 1))
	got, p := changes(t, l, "")
	if len(got) != pages || got[pages] != 1 || got[pages+4095] != 1 || got[pages+4096] != 2 || got[2*pages-1] != 1 {
		t.Errorf("%d pages, want %d, all at 1 but one", len(got), pages)
	}
	if p.Layouts != (ledger.Layouts{Current: pages}) {
		t.Errorf("layouts %+v", p.Layouts)
	}
	checkPage(t, l, pages+4095, []ledger.Row{row(4095)}, 1)
	checkPage(t, l, pages+4096, nil, 2)
	checkPage(t, l, 2*pages-1, []ledger.Row{row(pages - 1)}, 1)
	checkGone(t, l, 0)
	// It takes more than one transaction to remove these pages.
	must(t, l.BeginLayout(t.Context(), 2*pages))
	must(t, l.SwitchLayout(t.Context(), 2*pages))
	must(t, l.LeaveLayout(t.Context(), pages))
	if got, _ := changes(t, l, ""); len(got) != 2*pages || got[2*pages+2*4096] != 2 || got[2*pages+2*4095] != 1 {
		t.Errorf("%d pages, want %d", len(got), 2*pages)
	}
}

// layoutsEnds has users at both ends of all hashes, and of all pages of the layouts.
func (s suite) layoutsEnds(t *testing.T) {
	for _, c := range []struct{ pages, factor uint32 }{{1, 2}, {1, 8}, {2, 4}} {
		l := s.make(t, c.pages)
		m := newModel(l.Identity())
		var rows []ledger.Change
		for n := range uint32(16) {
			least, greatest := hashesOf(16, n)
			for _, hash := range []uint64{least, greatest} {
				rows = append(rows, add(ledger.Row{Hash: hash, Owner: "u", Kind: "block", Target: "t", Since: at(0)}))
			}
		}
		recordAt(t, l, m, at(0), rows[:24]...)
		dedicated(t, l, m, 0)
		dedicated(t, l, m, math.MaxUint64)
		dedicated(t, l, m, math.MaxUint64/4) // at the end of a page of 4
		for steps := 0; m.layouts.Current*c.factor <= 8 || steps%3 > 0; steps++ {
			grow(t, l, m, steps, c.factor)
			m.check(t, l)
			recordAt(t, l, m, at(0), rows[steps%5], rows[24+steps%8], remove(rows[8+steps%16].Rows...))
			m.check(t, l)
		}
		released(t, l, m, 0)
		released(t, l, m, math.MaxUint64)
		m.check(t, l)
	}
}

// layoutsPolled continues polling during a growth. After each poll the view must equal the
// ledger.
func (s suite) layoutsPolled(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	v := newView()
	seldom := newView()
	for steps := range 10 {
		v.poll(t, l, m)
		// Also poll when nothing was raised after a layout was left.
		if steps%3 > 0 {
			recordAt(t, l, m, at(0), add(block(steps, "a"), block(15-steps, "b")))
			v.poll(t, l, m)
		}
		if steps%4 == 1 {
			dedicated(t, l, m, block(steps, "").Hash)
			v.poll(t, l, m)
		}
		if steps == 7 {
			released(t, l, m, block(1, "").Hash)
			seldom.poll(t, l, m)
			dedicated(t, l, m, block(1, "").Hash)
			released(t, l, m, block(5, "").Hash)
		}
		grow(t, l, m, steps, 2)
	}
	v.poll(t, l, m)
	seldom.poll(t, l, m)
	if got, _ := changes(t, l, v.next); len(got) > 0 {
		t.Errorf("a poll repeats pages %v", got)
	}
}

// view is what a process that polls knows.
type view struct {
	next    ledger.Cursor
	pages   map[uint32]ledger.PageState
	owners  map[uint64]uint32
	layouts ledger.Layouts
}

func newView() *view {
	return &view{pages: map[uint32]ledger.PageState{}, owners: map[uint64]uint32{}}
}

// take polls, and updates the view.
func (v *view) take(t tester, l *ledger.Ledger) {
	t.Helper()
	pages, p := standings(t, l, v.next)
	maps.Copy(v.pages, pages)
	maps.Copy(v.owners, p.Owners)
	maps.DeleteFunc(v.owners, func(_ uint64, page uint32) bool { return v.pages[page].Left > 0 })
	v.layouts, v.next = p.Layouts, p.Next
	maps.DeleteFunc(v.pages, func(page uint32, _ ledger.PageState) bool {
		of := l.Identity().LayoutOf(page)
		return of > 0 && of != p.Layouts.Current && of != p.Layouts.Building && of != p.Layouts.Leaving
	})
}

// poll polls, and compares the view with the model.
func (v *view) poll(t tester, l *ledger.Ledger, m *model) {
	t.Helper()
	v.take(t, l)
	if !maps.Equal(v.owners, m.owners) || v.layouts != m.layouts {
		t.Errorf("owners %v in %+v, want %v in %+v", v.owners, v.layouts, m.owners, m.layouts)
	}
	if !maps.Equal(v.pages, m.states) {
		t.Errorf("pages %v, want %v", v.pages, m.states)
	}
}

// layoutsCancelledAnywhere ends the context at each check of it. A repeated call must complete
// what an earlier one began.
func (s suite) layoutsCancelledAnywhere(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a"), block(7, "a")))
	for steps := range 3 {
		was := m.layouts
		pages := []uint32{8, 8, 2}[steps]
		anywhere(t, func(ctx context.Context) error {
			return []func(context.Context, uint32) error{l.BeginLayout, l.SwitchLayout, l.LeaveLayout}[steps](ctx, pages)
		}, func() {
			if now, err := l.Layouts(t.Context()); err != nil || steps > 0 && now != was {
				t.Errorf("layouts %+v, %v, want %+v", now, err, was)
			}
		})
		grow(t, l, m, steps, 4) // repeats the step
		m.check(t, l)
	}
}

// layoutsMany records many changes in each phase. It has rows on new pages that were
// never raised, and on pages whose ancestor changed in one half only.
func (s suite) layoutsMany(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	var every []ledger.Change
	for user := range 16 {
		for i := range 12 {
			every = append(every, add(block(user, fmt.Sprint("t", i))))
		}
	}
	some := func(from, step int) (changes []ledger.Change) {
		for i := from; i < len(every); i += step {
			changes = append(changes, every[i])
		}
		return changes
	}
	recordAt(t, l, m, at(0), some(0, 2)...)
	dedicated(t, l, m, block(2, "").Hash)
	for steps := range 7 {
		grow(t, l, m, steps, 2)
		changes := some(steps, 7)
		for i := range changes {
			switch (i + steps) % 4 {
			case 0:
				changes[i].Remove = true
			case 1:
				changes[i].Limit = 6
			}
		}
		recordAt(t, l, m, at(0), changes...)
		m.check(t, l)
	}
	recordAt(t, l, m, at(0), every...)
	m.check(t, l)
	for i := range every {
		every[i].Remove = true
	}
	recordAt(t, l, m, at(0), every...)
	m.check(t, l)
	// No write touches this page in the new layout, before all of its rows are removed.
	recordAt(t, l, m, at(0), add(block(12, "x"), block(13, "x")), add(block(13, "y")))
	for steps := m.steps(); m.layouts.Current < 64; steps++ {
		grow(t, l, m, steps, 2)
	}
	recordAt(t, l, m, at(0), remove(block(12, "x")), upTo(2, block(13, "x")), upTo(2, block(13, "z")))
	m.check(t, l)
}

// steps returns the number of steps, of three, that the current growth has taken.
func (m *model) steps() int {
	switch {
	case m.layouts.Building > 0:
		return 1
	case m.layouts.Leaving > 0:
		return 2
	default:
		return 0
	}
}
