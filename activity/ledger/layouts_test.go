package ledger

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// onBoth runs a test on a new ledger of each kind.
func onBoth(t *testing.T, pages uint32, test func(t *testing.T, l *Ledger)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, openFile(t, temporary(t), Options{Pages: pages})) })
	t.Run("Postgres", func(t *testing.T) { test(t, openURL(t, pgtest.Start(t).Schema(), Options{Pages: pages})) })
}

// eighth returns a row of the user with the lowest hash of a page of 8.
func eighth(n uint64, target string) Row {
	return Row{Hash: n << 61, Owner: "u", Kind: "block", Target: target, Since: time.UnixMicro(1).UTC()}
}

func recordRows(t *testing.T, l *Ledger, c Change) Receipt {
	t.Helper()
	receipt, err := l.Record(t.Context(), time.UnixMicro(1), []Change{c})
	must(t, err)
	return receipt
}

func checkStandings(t *testing.T, l *Ledger, want map[uint32]uint64) {
	t.Helper()
	for page, sequence := range want {
		if got, err := l.Sequence(t.Context(), page); err != nil || got != sequence {
			t.Errorf("page %d at %d, %v, want %d", page, got, err, sequence)
		}
	}
}

// beginUnseeded begins a layout like a process that dies before it seeds the new pages.
func beginUnseeded(t *testing.T, l *Ledger, pages uint32) {
	t.Helper()
	_, err := l.changeLayouts(t.Context(), func(now Layouts) (Layouts, error) { return l.id.begin(now, pages) })
	must(t, err)
}

// A page of a new layout begins with the sequence of its ancestor. This also holds if a write
// raises it first or changes nothing, and if the ancestor was raised since.
func TestWriteBeforeSeed(t *testing.T) {
	onBoth(t, 2, func(t *testing.T, l *Ledger) {
		for _, target := range []string{"a", "b", "c"} { // page 0 of 2; 8 and 9 of 8
			recordRows(t, l, Change{Rows: []Row{eighth(0, target), eighth(1, target)}})
		}
		beginUnseeded(t, l, 8)
		recordRows(t, l, Change{Rows: []Row{eighth(0, "a"), eighth(2, "never there")}, Remove: true})
		recordRows(t, l, Change{Rows: []Row{eighth(1, "a")}}) // now the page exists
		recordRows(t, l, Change{Rows: []Row{eighth(7, "a")}}) // the first write of page 1
		checkStandings(t, l, map[uint32]uint64{0: 4, 8: 4, 9: 0, 10: 0, 1: 1, 15: 1, 14: 0})
		must(t, l.BeginLayout(t.Context(), 8))
		checkStandings(t, l, map[uint32]uint64{0: 4, 8: 4, 9: 4, 10: 4, 11: 4, 1: 1, 15: 1, 14: 1})
		recordRows(t, l, Change{Rows: []Row{eighth(0, "a")}})
		must(t, l.BeginLayout(t.Context(), 8))
		checkStandings(t, l, map[uint32]uint64{0: 5, 8: 5, 9: 4, 10: 4})
	})
}

// A move before the new pages are seeded raises them from the sequences of their ancestors.
func TestMoveBeforeSeed(t *testing.T) {
	onBoth(t, 2, func(t *testing.T, l *Ledger) {
		recordRows(t, l, Change{Rows: []Row{eighth(0, "a"), eighth(1, "a")}})
		recordRows(t, l, Change{Rows: []Row{eighth(0, "b"), eighth(1, "b")}})
		beginUnseeded(t, l, 8)
		_, err := l.Move(t.Context(), eighth(1, "").Hash, true)
		must(t, err)
		must(t, l.BeginLayout(t.Context(), 8))
		if rows, s, err := l.Snapshot(t.Context(), 9); err != nil || s != (PageState{3, 3}) || len(rows) > 0 {
			t.Errorf("page 9: %v at %+v, %v, want none at {3 3}", rows, s, err)
		}
		checkStandings(t, l, map[uint32]uint64{0: 3, 8: 3, DedicatedPages: 1})
	})
}

// SwitchLayout seeds the new pages if no process has. By these sequences, prepared changes find the
// rows of pages that were never raised.
func TestSwitchSeeds(t *testing.T) {
	onBoth(t, 2, func(t *testing.T, l *Ledger) {
		recordRows(t, l, Change{Rows: []Row{eighth(0, "a"), eighth(1, "a"), eighth(1, "b")}})
		beginUnseeded(t, l, 8)
		must(t, l.SwitchLayout(t.Context(), 8))
		checkStandings(t, l, map[uint32]uint64{8: 1, 9: 1, 11: 1, 15: 0})
		receipt, err := l.Record(t.Context(), time.UnixMicro(1), []Change{
			{Rows: []Row{eighth(0, "a")}},
			{Rows: []Row{eighth(1, "a")}, Remove: true},
			{Rows: []Row{eighth(1, "b"), eighth(1, "c")}, Limit: 1},
		})
		if err != nil || !slices.Equal(receipt.Changed, []bool{false, true, false}) || !slices.Equal(receipt.Refused, []bool{false, false, true}) {
			t.Errorf("changed %v, refused %v, %v", receipt.Changed, receipt.Refused, err)
		}
		checkStandings(t, l, map[uint32]uint64{8: 1, 9: 2})
	})
}

// In the first layout, the number of a page is the top bits of its users' hashes. In other
// layouts the number of pages is added. The hash slot is that of the users' page in the first
// layout.
func TestPageNumbers(t *testing.T) {
	for _, c := range []struct {
		first, pages uint32
		hash         uint64
		page, slot   uint32
	}{
		{1, 1, 0, 0, 0},
		{1, 1, math.MaxUint64, 0, 0},
		{1, 2, 0, 2, 0},
		{1, 2, math.MaxUint64, 3, 0},
		{1, 1 << 24, 0, 1 << 24, 0},
		{1, 1 << 24, math.MaxUint64, 1<<25 - 1, 0},
		{4, 4, 1 << 62, 1, 1},
		{4, 4, 1<<62 - 1, 0, 0},
		{4, 8, 1 << 62, 10, 1},
		{4, 8, 1<<62 - 1, 9, 0},
		{4, 16, math.MaxUint64, 31, 3},
		{4, 16, 0, 16, 0},
		{1 << 24, 1 << 24, math.MaxUint64, 1<<24 - 1, 1<<24 - 1},
	} {
		id := Identity{Pages: c.first}
		if page, slot := id.PageIn(c.pages, c.hash), id.Slot(c.hash); page != c.page || slot != c.slot {
			t.Errorf("of %d pages at first, hash %#x is on page %d of %d in slot %d, want %d, %d", c.first, c.hash, page, c.pages, slot, c.page, c.slot)
		}
		if of, slot := id.LayoutOf(c.page), id.SlotOf(c.page); of != c.pages || slot != c.slot {
			t.Errorf("of %d pages at first, page %d is of %d in slot %d, want %d, %d", c.first, c.page, of, slot, c.pages, c.slot)
		}
	}
	id := Identity{Pages: 4}
	for _, page := range []uint32{4, 7, 1 << 25, DedicatedPages - 1, DedicatedPages, math.MaxUint32} {
		if of := id.LayoutOf(page); of != 0 {
			t.Errorf("of 4 pages at first, page %d is of %d", page, of)
		}
	}
}

// TestMoveNumbers checks the numbers of new dedicated pages, up to the highest one and beyond.
func TestMoveNumbers(t *testing.T) {
	m, p := move{hash: 5, dedicate: true}, &plan{id: Identity{Pages: 4}, layouts: Layouts{Current: 4}}
	for _, c := range []struct{ greatest, want uint32 }{
		{0, DedicatedPages}, {1<<25 - 1, DedicatedPages}, {DedicatedPages - 1, DedicatedPages},
		{DedicatedPages, DedicatedPages + 1}, {1<<32 - 2, 1<<32 - 1},
	} {
		r, raised, err := m.decide(p, map[uint32]PageState{}, c.greatest)
		if err != nil || len(raised) != 2 || r.Pages[1].Page != c.want || r.Owners[5] != c.want {
			t.Errorf("after page %d: %+v, %v, %v, want page %d", c.greatest, r, raised, err, c.want)
		}
	}
	if r, raised, err := m.decide(p, nil, 1<<32-1); !errors.Is(err, errNoNumbers) || len(raised) > 0 {
		t.Errorf("after the last page: %+v, %v, %v, want an error", r, raised, err)
	}
}

// TestRanges removes the hashes of users with dedicated pages from ranges, at both ends of the
// ranges and of all hashes.
func TestRanges(t *testing.T) {
	const most = 1<<64 - 1
	onBoth(t, 1, func(t *testing.T, l *Ledger) {
		for _, c := range []struct {
			of      hashRange
			without []uint64
			want    []hashRange
		}{
			{hashRange{3, 9}, nil, []hashRange{{3, 9}}},
			{hashRange{3, 9}, []uint64{5}, []hashRange{{3, 4}, {6, 9}}},
			{hashRange{3, 9}, []uint64{2, 10}, []hashRange{{3, 9}}},
			{hashRange{3, 9}, []uint64{3, 9}, []hashRange{{4, 8}}},
			{hashRange{3, 9}, []uint64{5, 6, 8}, []hashRange{{3, 4}, {7, 7}, {9, 9}}},
			{hashRange{3, 4}, []uint64{3, 4}, nil},
			{hashRange{0, most}, []uint64{0, most}, []hashRange{{1, most - 1}}},
			{hashRange{most, most}, []uint64{most}, nil},
		} {
			owners := []statement{{sql: `DELETE FROM owners`}}
			for i, hash := range c.without {
				owners = append(owners, statement{sql: l.sql.putOwner, args: []any{stored(hash), DedicatedPages + uint32(i)}})
			}
			must(t, update(t.Context(), l.db, owners...))
			var least, greatest int64
			read := statement{sql: rangesSQL, args: c.of.args(), into: []any{&least, &greatest}}
			got, err := collect(t.Context(), l.db, read, func() hashRange { return hashRange{unstored(least), unstored(greatest)} })
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v without %v: %v, %v, want %v", c.of, c.without, got, err, c.want)
			}
		}
	})
}
