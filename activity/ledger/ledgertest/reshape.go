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

// setCut asks for a number of pages.
func setCut(t tester, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	if err := l.SetCut(context.Background(), pages); err != nil {
		t.Fatalf("SetCut: %v", err)
	}
	m.asked = pages
}

// planned plans the reshape of a home, which has to be as the model says.
func planned(t tester, l *ledger.Ledger, m *model, home uint32) (*ledger.ReshapePlan, *reshape) {
	t.Helper()
	got, err := l.PlanReshape(context.Background(), home)
	if err != nil {
		t.Fatalf("PlanReshape: %v", err)
	}
	done := m.cutOf(home) == m.asked
	if got.Done != done || got.Pages != m.asked || !slices.Equal(got.Homes, m.span(home)) {
		t.Fatalf("plan of home %d: %+v, want one of homes %v to %d pages, done: %v", home, got, m.span(home), m.asked, done)
	}
	if done {
		if len(got.Sources)+len(got.Targets) > 0 {
			t.Errorf("there is something to do in %+v", got)
		}
		return got, nil
	}
	want := m.plan(home, ledger.OwnPages+m.numbers)
	m.numbers += uint32(len(want.made))
	var targets []ledger.Target
	for _, s := range want.targets {
		if want.come[s.page] {
			targets = append(targets, ledger.Target{Page: s.page, Least: s.least, Greatest: s.greatest, Made: want.made[s.page]})
		}
	}
	if sources := slices.Sorted(maps.Keys(want.leave)); !slices.Equal(got.Sources, sources) || !slices.Equal(got.Targets, targets) {
		t.Fatalf("plan of home %d: sources %v, targets %+v, want %v, %+v", home, got.Sources, got.Targets, sources, targets)
	}
	return got, want
}

// reshaped reshapes a home and those with it in a ledger and its model, which have to agree on what that comes to. Images that were made
// before are what the pages hold afterwards. It returns the homes.
func (s suite) reshaped(t tester, url string, l *ledger.Ledger, m *model, home uint32) (homes []uint32) {
	t.Helper()
	s.pass(t, url)
	plan, want := planned(t, l, m, home)
	if plan.Done {
		return nil
	}
	plan.Expect = map[uint32]uint64{}
	for _, target := range plan.Targets {
		if !target.Made {
			plan.Expect[target.Page] = m.sequences[target.Page]
		}
	}
	var rows []ledger.Row
	for _, page := range plan.Sources {
		some, standing := snapshot(t, l, page)
		rows = append(rows, some...)
		plan.Expect[page] = standing.Sequence
	}
	receipt, err := l.Reshape(context.Background(), plan)
	if err != nil {
		t.Fatalf("Reshape: %v", err)
	}
	checkReceipt(t, receipt, m.reshape(want))
	slices.SortFunc(rows, compareRows)
	for _, target := range plan.Targets {
		if !target.Made {
			continue
		}
		var image []ledger.Row
		for _, row := range rows {
			if target.Least <= row.Hash && row.Hash <= target.Greatest {
				image = append(image, row)
			}
		}
		checkPage(t, l, target.Page, image, 1)
	}
	return plan.Homes
}

// reshapedAll reshapes all homes to a number of pages.
func (s suite) reshapedAll(t tester, url string, l *ledger.Ledger, m *model, pages uint32) {
	t.Helper()
	setCut(t, l, m, pages)
	for home := range m.id.Pages {
		s.reshaped(t, url, l, m, home)
	}
}

// reshape follows users of a ledger of 4 pages to 8 and back, to 2 and back: what the receipts say, what the pages hold, what
// polls are told.
func (s suite) reshape(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	low, high := block(4, "a"), block(6, "a") // the two halves of home 1
	record(t, l, add(low, high))
	_, progress := changes(t, l, "")
	const first = ledger.OwnPages
	reshape := func(pages uint32, home uint32, want ...ledger.PageChange) {
		t.Helper()
		if err := l.SetCut(t.Context(), pages); err != nil {
			t.Fatal(err)
		}
		s.pass(t, url)
		plan, err := l.PlanReshape(t.Context(), home)
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := l.Reshape(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		checkReceipt(t, receipt, ledger.Receipt{Pages: want})
		got := map[uint32]uint64{}
		for _, p := range want {
			got[p.Page] = p.Sequence
		}
		poll, p := changes(t, l, progress.Next)
		if progress = p; !maps.Equal(poll, got) {
			t.Errorf("polls are told of %v, want %v", poll, got)
		}
	}
	placed := func(want map[uint64]ledger.Placed, pages ...ledger.PageChange) {
		t.Helper()
		receipt := record(t, l, add(low, high))
		checkReceipt(t, receipt, ledger.Receipt{Changed: []bool{false}, Pages: pages, Placed: want})
	}
	home := func(sequence uint64) ledger.PageChange { return ledger.PageChange{Page: 1, Sequence: sequence} }
	other := func(n uint32, slot, sequence uint64) ledger.PageChange {
		return ledger.PageChange{Page: first + n, Own: true, Owner: slot, Sequence: sequence}
	}
	const half, whole = 6 << 60, 0

	reshape(8, 1, home(2), other(0, half, 1))
	checkPage(t, l, 1, []ledger.Row{low}, 2)
	checkPage(t, l, first, []ledger.Row{high}, 1)
	placed(map[uint64]ledger.Placed{high.Hash: {Page: first}}, home(2), other(0, half, 1))

	reshape(4, 1, home(3), other(0, half, 2))
	checkPage(t, l, 1, []ledger.Row{low, high}, 3)
	checkPage(t, l, first, nil, 2)
	placed(map[uint64]ledger.Placed{high.Hash: {Page: 1, Left: []uint32{first}}}, home(3), other(0, half, 2))

	reshape(2, 1, ledger.PageChange{Page: 0, Sequence: 1}, home(4), other(1, whole, 1))
	checkPage(t, l, 0, nil, 1)
	checkPage(t, l, 1, nil, 4)
	checkPage(t, l, first+1, []ledger.Row{low, high}, 1)
	placed(map[uint64]ledger.Placed{low.Hash: {Page: first + 1}, high.Hash: {Page: first + 1}}, home(4), other(1, whole, 1))

	// Straight to 8, from the page of two homes: that is given up, and remembered as the one they left.
	reshape(8, 0, ledger.PageChange{Page: 0, Sequence: 2}, home(5), other(1, whole, 2), other(2, 2<<60, 1), other(3, half, 1))
	checkPage(t, l, 1, []ledger.Row{low}, 5)
	checkPage(t, l, first+1, nil, 2)
	checkPage(t, l, first+3, []ledger.Row{high}, 1)
	placed(map[uint64]ledger.Placed{low.Hash: {Page: 1, Left: []uint32{first + 1}}, high.Hash: {Page: first + 3, Left: []uint32{first + 1}}},
		home(5), other(1, whole, 2), other(3, half, 1))

	// A reshape that does not move somebody has no page left for them, and one that keeps a page keeps its number.
	reshape(16, 1, home(6), other(3, half, 2), other(4, 5<<60, 1), other(5, 7<<60, 1))
	placed(map[uint64]ledger.Placed{high.Hash: {Page: first + 3}}, home(6), other(3, half, 2))
}

// reshapeChanged has plans meet what has changed since they were made: nothing is done then.
func (s suite) reshapeChanged(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(4, "a"), block(6, "a")))
	setCut(t, l, m, 8)
	refused := func(p *ledger.ReshapePlan, err error) {
		t.Helper()
		if receipt, failed := l.Reshape(t.Context(), p); !errors.Is(failed, err) || len(receipt.Pages) > 0 {
			t.Errorf("%+v, %v, want %v", receipt, failed, err)
		}
		m.check(t, l)
	}
	// Writes of a page that users leave.
	plan, want := planned(t, l, m, 1)
	plan.Expect = map[uint32]uint64{1: 1}
	recordAt(t, l, m, at(0), add(block(4, "b")))
	refused(plan, ledger.ErrChanged)
	recordAt(t, l, m, at(0), remove(block(6, "a")))
	refused(plan, ledger.ErrChanged)
	// Pages that have nothing to do with it.
	for _, page := range []uint32{0, plan.Targets[0].Page} {
		plan.Expect = map[uint32]uint64{1: 3, page: 0}
		if receipt, err := l.Reshape(t.Context(), plan); err == nil || errors.Is(err, ledger.ErrChanged) {
			t.Errorf("page %d is expected somewhere: %+v, %v", page, receipt, err)
		}
	}
	m.check(t, l)
	// Without images, or with those of now, it is no matter.
	plan.Expect = nil
	receipt, err := l.Reshape(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	checkReceipt(t, receipt, m.reshape(want))
	m.check(t, l)
	// It has been carried out.
	refused(plan, ledger.ErrChanged)
	s.pass(t, url)
	refused(plan, ledger.ErrChanged)
	planned(t, l, m, 1) // done
	if receipt, err := l.Reshape(t.Context(), first(planned(t, l, m, 1))); err != nil || len(receipt.Pages) > 0 {
		t.Errorf("what is done: %+v, %v", receipt, err)
	}
	// Another reshape of one of its homes, to and fro, so that nothing but the cells' past has changed.
	setCut(t, l, m, 2)
	stale, _ := planned(t, l, m, 0)
	for _, pages := range []uint32{16, 8} {
		setCut(t, l, m, pages)
		s.reshaped(t, url, l, m, 1)
	}
	s.pass(t, url)
	refused(stale, ledger.ErrChanged)
	setCut(t, l, m, 2)
	s.reshaped(t, url, l, m, 1)
	m.check(t, l)
	// A page of two homes that has become one of four since: their cells are as they were.
	for _, pages := range []uint32{1, 2} {
		setCut(t, l, m, pages)
		s.reshaped(t, url, l, m, 0)
	}
	setCut(t, l, m, 4)
	s.pass(t, url)
	stale, _ = planned(t, l, m, 0)
	setCut(t, l, m, 1)
	s.reshaped(t, url, l, m, 0)
	s.pass(t, url)
	refused(stale, ledger.ErrChanged)
	setCut(t, l, m, 2)
	s.reshaped(t, url, l, m, 0)
	m.check(t, l)
	// A move of a user raises the page.
	setCut(t, l, m, 4)
	s.pass(t, url)
	plan, want = planned(t, l, m, 0)
	page := plan.Sources[0]
	_, standing := snapshot(t, l, page)
	plan.Expect = map[uint32]uint64{page: standing.Sequence}
	moved(t, l, m, block(4, "").Hash, true)
	refused(plan, ledger.ErrChanged)
	plan.Expect[page]++
	receipt, err = l.Reshape(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	checkReceipt(t, receipt, m.reshape(want))
	m.check(t, l)
	// Another number is asked for: a plan for the earlier number is void until that number is asked for again.
	setCut(t, l, m, 16)
	s.pass(t, url)
	plan, want = planned(t, l, m, 2)
	setCut(t, l, m, 4)
	refused(plan, ledger.ErrChanged)
	setCut(t, l, m, 16)
	receipt, err = l.Reshape(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	checkReceipt(t, receipt, m.reshape(want))
	m.check(t, l)
}

func first[A, B any](a A, _ B) A { return a }

// reshapeTooSoon reshapes homes twice at once: where others may not have heard of the first time, that is refused, for those homes
// and all that come with them.
func (s suite) reshapeTooSoon(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	m := newModel(l.Identity())
	recordAt(t, l, m, at(0), add(block(4, "a"), block(6, "a")))
	setCut(t, l, m, 2)
	early, _ := planned(t, l, m, 0) // of homes 0 and 1
	setCut(t, l, m, 8)
	s.reshaped(t, url, l, m, 1)
	m.check(t, l)
	setCut(t, l, m, 2)
	if !l.Shared() {
		s.reshaped(t, url, l, m, 1)
		m.check(t, l)
		return
	}
	tooSoon := func(err error) {
		t.Helper()
		var refused *ledger.TooSoonError
		if !errors.As(err, &refused) || refused.Left <= time.Minute || refused.Left > 75*time.Second {
			t.Errorf("error %v, want a TooSoonError with a minute and some seconds left", err)
		}
	}
	for home := range uint32(2) {
		_, err := l.PlanReshape(t.Context(), home)
		tooSoon(err)
	}
	if _, err := l.Reshape(t.Context(), early); !errors.Is(err, ledger.ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	// Users move all the same, and are no reason to wait.
	moved(t, l, m, block(6, "").Hash, true)
	moved(t, l, m, block(4, "").Hash, true)
	moved(t, l, m, block(4, "").Hash, false)
	m.check(t, l)
	s.pass(t, url)
	moved(t, l, m, block(4, "").Hash, true)
	plan, want := planned(t, l, m, 1)
	receipt, err := l.Reshape(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	checkReceipt(t, receipt, m.reshape(want))
	m.check(t, l)
}

// reshapeMoved has users who have pages of their own before and after their homes are reshaped.
func (s suite) reshapeMoved(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	m := newModel(l.Identity())
	for user := range 16 {
		recordAt(t, l, m, at(0), add(block(user, "a")))
	}
	for _, pages := range []uint32{8, 2, 16, 1, 4, 2, 32, 4} {
		moved(t, l, m, block(int(pages)%16, "").Hash, true)
		s.reshapedAll(t, url, l, m, pages)
		m.check(t, l)
		moved(t, l, m, block(int(pages)%16+1, "").Hash, true)
		recordAt(t, l, m, at(0), remove(block(int(pages)%16, "a"), block(3, "b")), add(block(15, fmt.Sprint(pages)), block(14, "b")))
		m.check(t, l)
		moved(t, l, m, block(int(pages)%16, "").Hash, false)
		m.check(t, l)
	}
}

// reshapeEnds has users at both ends of all pages that there are on the way, and of all hashes.
func (s suite) reshapeEnds(t *testing.T) {
	for _, pages := range []uint32{1, 2, 8} {
		url := s.fresh(t)
		l := open(t, url, ledger.Options{Pages: pages})
		m := newModel(l.Identity())
		var rows []ledger.Change
		for n := range uint32(16) {
			least, greatest := hashesOf(16, n)
			for _, hash := range []uint64{least, least + 1, greatest - 1, greatest} {
				rows = append(rows, add(ledger.Row{Hash: hash, Owner: "u", Kind: "block", Target: "t", Since: at(0)}))
			}
		}
		recordAt(t, l, m, at(0), rows...)
		moved(t, l, m, 0, true)
		moved(t, l, m, math.MaxUint64, true)
		moved(t, l, m, math.MaxUint64/4, true)   // the last of a page of 4,
		moved(t, l, m, math.MaxUint64/4+1, true) // and the first of the next
		for _, to := range []uint32{2, 4, 16, 1, 8, 4, 1, 2} {
			s.reshapedAll(t, url, l, m, to)
			m.check(t, l)
			recordAt(t, l, m, at(0), rows...)
		}
		for i := range rows {
			rows[i].Remove = i%3 == 0
		}
		recordAt(t, l, m, at(0), rows...)
		m.check(t, l)
	}
}
