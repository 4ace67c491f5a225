package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// begun begins a layout in a ledger and its model, which have to agree on whether that is possible.
func begun(t tester, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	busy, invalid := m.begin(pages)
	err := l.BeginLayout(context.Background(), pages)
	if errors.Is(err, ledger.ErrLayoutBusy) != busy || err != nil != (busy || invalid) {
		t.Fatalf("BeginLayout(%d): %v; want busy: %t, refused: %t", pages, err, busy, invalid)
	}
}

// switched is begun for SwitchLayout.
func switched(t tester, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	busy := m.switchTo(pages)
	if err := l.SwitchLayout(context.Background(), pages); errors.Is(err, ledger.ErrLayoutBusy) != busy || err != nil && !busy {
		t.Fatalf("SwitchLayout(%d): %v; want busy: %t", pages, err, busy)
	}
}

// left is begun for LeaveLayout.
func left(t tester, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	m.leave(pages)
	if err := l.LeaveLayout(context.Background(), pages); err != nil {
		t.Fatalf("LeaveLayout(%d): %v", pages, err)
	}
}

// grow takes the step of a change of the number of pages that follows so many others.
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

// layouts follows users from 4 pages to 8: what receipts say, what pages hold, what polls report.
func (s suite) layouts(t *testing.T) {
	l := s.make(t, 4)
	low, high, idle := block(4, "a"), block(6, "a"), block(12, "a") // pages 1 and 3 of 4; 2, 3 and 6 of 8
	record(t, l, add(low, high, idle))
	record(t, l, add(block(4, "b")))
	_, progress := changes(t, l, "")
	poll := func(layouts ledger.Layouts, want map[uint32]uint64) {
		t.Helper()
		got, p := changes(t, l, progress.Next)
		if !maps.Equal(got, want) || p.Layouts != layouts {
			t.Errorf("a poll reports %v in %+v, want %v in %+v", got, p.Layouts, want, layouts)
		}
		progress = p
	}
	check := func(receipt ledger.Receipt, layouts ledger.Layouts, page uint32, sequence uint64) {
		t.Helper()
		if len(receipt.Pages) != 1 || receipt.Pages[0].Page != page || receipt.Pages[0].Sequence != sequence || receipt.Layouts != layouts {
			t.Errorf("receipt of %+v in %+v, want page %d at %d in %+v", receipt.Pages, receipt.Layouts, page, sequence, layouts)
		}
	}
	four := ledger.Layouts{Current: 4}
	poll(four, map[uint32]uint64{})

	building := ledger.Layouts{Current: 4, Building: 8}
	must(t, l.BeginLayout(t.Context(), 8))
	poll(building, map[uint32]uint64{10: 2, 11: 2, 14: 1, 15: 1}) // those of pages that ever changed
	check(record(t, l, add(block(6, "b"))), building, 1, 3)
	poll(building, map[uint32]uint64{1: 3, 11: 3})
	check(record(t, l, add(block(6, "b"))), building, 1, 3) // no change
	check(record(t, l, add(block(8, "a"))), building, 2, 1) // the first one of both pages
	check(record(t, l, remove(low)), building, 1, 4)
	poll(building, map[uint32]uint64{1: 4, 10: 3, 2: 1, 12: 1})
	checkPage(t, l, 1, []ledger.Row{block(4, "b"), high, block(6, "b")}, 4)
	checkPage(t, l, 10, []ledger.Row{block(4, "b")}, 3)
	checkPage(t, l, 11, []ledger.Row{high, block(6, "b")}, 3)
	checkPage(t, l, 14, []ledger.Row{idle}, 1)
	checkPage(t, l, 8, nil, 0)
	checkPage(t, l, 13, nil, 0)
	checkGone(t, l, 16)

	leaving := ledger.Layouts{Current: 8, Leaving: 4}
	must(t, l.SwitchLayout(t.Context(), 8))
	poll(leaving, map[uint32]uint64{13: 1}) // of a page that changed after the layout began
	checkGone(t, l, 1)
	check(record(t, l, add(low)), leaving, 10, 4)
	check(record(t, l, add(high)), leaving, 11, 3)
	poll(leaving, map[uint32]uint64{10: 4})
	checkPage(t, l, 10, []ledger.Row{low, block(4, "b")}, 4)

	eight := ledger.Layouts{Current: 8}
	must(t, l.LeaveLayout(t.Context(), 4))
	poll(eight, map[uint32]uint64{})
	checkGone(t, l, 1)
	check(record(t, l, remove(idle)), eight, 14, 2)
	got, _ := changes(t, l, "")
	if want := map[uint32]uint64{10: 4, 11: 3, 12: 1, 13: 1, 14: 2, 15: 1}; !maps.Equal(got, want) {
		t.Errorf("in the end there are pages %v, want %v", got, want)
	}
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// layoutsBegunAgain repeats each step, which does nothing then, and refuses other numbers meanwhile.
func (s suite) layoutsBegunAgain(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(3, "a"), block(15, "a")))
	numbers := []uint32{0, 1, 2, 3, 4, 8, 16, 2 * ledger.MaxPages}
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

// layoutsRefused asks for numbers of pages that there cannot be, and for as many as there can.
func (s suite) layoutsRefused(t *testing.T) {
	l := s.make(t, 16)
	for _, pages := range []uint32{0, 1, 8, 15, 17, 24, 1<<24 + 1, 1 << 25, 1 << 31, math.MaxUint32} {
		if err := l.BeginLayout(t.Context(), pages); err == nil || errors.Is(err, ledger.ErrLayoutBusy) {
			t.Errorf("%d pages after 16: error %v", pages, err)
		}
	}
	if now, err := l.Layouts(t.Context()); err != nil || now != (ledger.Layouts{Current: 16}) {
		t.Errorf("layouts %+v, %v after refusals", now, err)
	}
	most := s.make(t, ledger.MaxPages)
	if err := most.BeginLayout(t.Context(), ledger.MaxPages); err != nil {
		t.Errorf("the number that there is: %v", err)
	}
	if err := most.BeginLayout(t.Context(), 2*ledger.MaxPages); err == nil {
		t.Error("a ledger got more pages than the most")
	}
}

// layoutsOpen opens a ledger with every number of pages that it has, and with others.
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
				if !errors.Is(err, ledger.ErrPagesDiffer) {
					t.Errorf("opened with %d pages in %+v: error %v, want ErrPagesDiffer", pages, m.layouts, err)
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

// layoutsRestored has layouts outlive a restore, in each phase.
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

// layoutsManyPages grows to more pages than one transaction gives a sequence, and from one page.
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
		t.Errorf("%d pages, want %d, all but one at 1", len(got), pages)
	}
	if p.Layouts != (ledger.Layouts{Current: pages}) {
		t.Errorf("layouts %+v", p.Layouts)
	}
	checkPage(t, l, pages+4095, []ledger.Row{row(4095)}, 1)
	checkPage(t, l, pages+4096, nil, 2)
	checkPage(t, l, 2*pages-1, []ledger.Row{row(pages - 1)}, 1)
	checkGone(t, l, 0)
	// More than one transaction removes.
	must(t, l.BeginLayout(t.Context(), 2*pages))
	must(t, l.SwitchLayout(t.Context(), 2*pages))
	must(t, l.LeaveLayout(t.Context(), pages))
	if got, _ := changes(t, l, ""); len(got) != 2*pages || got[2*pages+2*4096] != 2 || got[2*pages+2*4095] != 1 {
		t.Errorf("%d pages, want %d", len(got), 2*pages)
	}
}

// layoutsEnds has users at both ends of all pages that there are on the way, and of all hashes.
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
		dedicated(t, l, m, math.MaxUint64/4) // the last of a page of 4
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

// layoutsPolled goes on polling from where it was: what is known after each poll is what there is.
func (s suite) layoutsPolled(t *testing.T) {
	l := s.make(t, 2)
	m := newModel(l.Identity())
	v := newView()
	seldom := newView()
	for steps := range 10 {
		v.poll(t, l, m)
		// A poll when nothing was raised after the layout was left, too.
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
		t.Errorf("pages %v are reported again", got)
	}
}

// view is what somebody knows who polls.
type view struct {
	next    ledger.Cursor
	pages   map[uint32]ledger.Standing
	owners  map[uint64]uint32
	layouts ledger.Layouts
}

func newView() *view {
	return &view{pages: map[uint32]ledger.Standing{}, owners: map[uint64]uint32{}}
}

// take polls, and takes up what is reported.
func (v *view) take(t tester, l *ledger.Ledger) {
	t.Helper()
	pages, p := standings(t, l, v.next)
	maps.Copy(v.pages, pages)
	maps.Copy(v.owners, ownersIn(p))
	maps.DeleteFunc(v.owners, func(_ uint64, page uint32) bool { return v.pages[page].Left > 0 })
	v.layouts, v.next = p.Layouts, p.Next
	maps.DeleteFunc(v.pages, func(page uint32, _ ledger.Standing) bool {
		of := l.Identity().LayoutOf(page)
		return of > 0 && of != p.Layouts.Current && of != p.Layouts.Building && of != p.Layouts.Leaving
	})
}

// poll polls, and compares what is known then with the model.
func (v *view) poll(t tester, l *ledger.Ledger, m *model) {
	t.Helper()
	v.take(t, l)
	if !maps.Equal(v.owners, m.owners) || v.layouts != m.layouts {
		t.Errorf("owners %v in %+v, want %v in %+v", v.owners, v.layouts, m.owners, m.layouts)
	}
	if !maps.Equal(v.pages, m.standing) {
		t.Errorf("pages %v, want %v", v.pages, m.standing)
	}
}

// layoutsCancelledAnywhere lets the context end at each place where it is honoured. What begins in
// several steps goes on when it is called again.
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
		grow(t, l, m, steps, 4) // again
		m.check(t, l)
	}
}

// prepared records changes the other way in a ledger and its model, which have to agree on what that
// comes to.
func prepared(t tester, l *ledger.Ledger, m *model, now time.Time, changes ...ledger.Change) {
	t.Helper()
	p, err := l.Prepare(changes)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	receipt, err := l.RecordPrepared(context.Background(), now, p)
	if err != nil {
		t.Fatalf("RecordPrepared: %v", err)
	}
	checkReceipt(t, receipt, m.recordAt(now, changes))
}

// layoutsPrepared records prepared changes in each phase: rows on pages of the new layout that were
// never raised are there, and so are those of a page that was written to in one half alone.
func (s suite) layoutsPrepared(t *testing.T) {
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
	prepared(t, l, m, at(0), some(0, 2)...)
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
		prepared(t, l, m, at(0), changes...)
		m.check(t, l)
	}
	prepared(t, l, m, at(0), every...)
	m.check(t, l)
	for i := range every {
		every[i].Remove = true
	}
	prepared(t, l, m, at(0), every...)
	m.check(t, l)
	// A page that is never written to in the new layout, all of whose rows are removed.
	prepared(t, l, m, at(0), add(block(12, "x"), block(13, "x")), add(block(13, "y")))
	for steps := m.steps(); m.layouts.Current < 64; steps++ {
		grow(t, l, m, steps, 2)
	}
	prepared(t, l, m, at(0), remove(block(12, "x")), upTo(2, block(13, "x")), upTo(2, block(13, "z")))
	m.check(t, l)
}

// steps is how many steps, of three, a change of the number of pages has come.
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
