package ledgertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// until returns the row with another end.
func until(row ledger.Row, end time.Time) ledger.Row {
	row.Until = end
	return row
}

// recordUntil applies all kinds of changes to a row that ends at 10, before and after its end.
func (s suite) recordUntil(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	none := time.Time{}
	row := until(block(3, "a"), at(10))
	later := until(row, at(20))
	later.Since = at(5)
	endless := until(later, none)
	keeps := func(r ledger.Row) []ledger.Row { r.Since = row.Since; return []ledger.Row{r} }
	for name, c := range map[string]struct {
		now     int64
		changes []ledger.Change
		changed []bool
		rows    []ledger.Row // on the page afterwards
		removed bool         // whether the row is removed from the page
	}{
		"same again":                    {9, []ledger.Change{add(row)}, []bool{false}, keeps(row), false},
		"prolonged":                     {9, []ledger.Change{add(later)}, []bool{true}, keeps(later), false},
		"prolonged for ever":            {9, []ledger.Change{add(endless)}, []bool{true}, keeps(endless), false},
		"shortened into the past":       {9, []ledger.Change{add(until(row, at(1)))}, []bool{true}, keeps(until(row, at(1))), false},
		"prolonged there and back":      {9, []ledger.Change{add(later), add(row)}, []bool{true, true}, keeps(row), false},
		"removed":                       {9, []ledger.Change{remove(row)}, []bool{true}, nil, true},
		"removed and again":             {9, []ledger.Change{remove(row), add(later)}, []bool{true, true}, []ledger.Row{later}, false},
		"swept too soon":                {9, []ledger.Change{removeEnded(row)}, []bool{false}, keeps(row), false},
		"ended, again":                  {10, []ledger.Change{add(later)}, []bool{true}, []ledger.Row{later}, false},
		"ended, again for ever":         {10, []ledger.Change{add(endless)}, []bool{true}, []ledger.Row{endless}, false},
		"ended, again as it was":        {10, []ledger.Change{add(row)}, []bool{true}, keeps(row), false},
		"ended, again twice":            {10, []ledger.Change{add(later), add(later)}, []bool{true, false}, []ledger.Row{later}, false},
		"ended, removed":                {10, []ledger.Change{remove(row)}, []bool{false}, nil, true},
		"ended, removed and again":      {10, []ledger.Change{remove(row), add(later)}, []bool{false, true}, []ledger.Row{later}, false},
		"ended, again and removed":      {10, []ledger.Change{add(later), remove(row)}, []bool{true, true}, nil, true},
		"ended, swept":                  {10, []ledger.Change{removeEnded(row)}, []bool{true}, nil, true},
		"ended, swept twice":            {10, []ledger.Change{removeEnded(row), removeEnded(row)}, []bool{true, false}, nil, true},
		"ended, again and swept":        {10, []ledger.Change{add(later), removeEnded(row)}, []bool{true, false}, []ledger.Row{later}, false},
		"ended, swept and again":        {10, []ledger.Change{removeEnded(row), add(later)}, []bool{true, true}, []ledger.Row{later}, false},
		"ended long ago, half a change": {99, []ledger.Change{removeEnded(row, block(3, "b"))}, []bool{true}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			page := ledger.PageChange{Page: 3, Sequence: recordAt(t, l, m, at(0), add(row)).Pages[0].Sequence}
			if c.removed {
				page.Sequence, page.Removed = page.Sequence+1, []ledger.Row{row}
			}
			receipt := recordAt(t, l, m, at(c.now), c.changes...)
			checkReceipt(t, receipt, ledger.Receipt{Changed: c.changed, Pages: []ledger.PageChange{page}})
			checkPage(t, l, 3, c.rows, page.Sequence)
			m.check(t, l)
			m.clear(t, l)
		})
	}
}

// recordUntilOdd records all kinds of ends, and a row that ends before it begins.
func (s suite) recordUntilOdd(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	over := until(block(1, "over"), at(-5))
	recordAt(t, l, m, at(0), add(over), add(over))
	checkPage(t, l, 1, []ledger.Row{over}, 1)

	row := block(2, "a")
	row.Until = time.Date(2027, 3, 1, 12, 0, 0, 123_456_789, time.FixedZone("", 3600))
	record(t, l, add(row))
	row.Until = time.Date(2027, 3, 1, 11, 0, 0, 123_456_000, time.UTC)
	m.record([]ledger.Change{add(row)})
	checkPage(t, l, 2, []ledger.Row{row}, 1)
	for _, end := range []time.Time{
		time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMicro(-1).UTC(), time.UnixMicro(0).UTC(),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	} {
		row.Until = end
		recordAt(t, l, m, time.Time{}, add(row))
		checkPage(t, l, 2, []ledger.Row{row}, 1)
	}
	for _, end := range []time.Time{
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}.Add(1), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		_, err := l.Record(t.Context(), at(0), []ledger.Change{add(until(row, end))})
		if err == nil || !strings.Contains(err.Error(), "until") {
			t.Errorf("error %v for an end at %v, want one naming until", err, end)
		}
		record(t, l, ledger.Change{Rows: []ledger.Row{until(block(5, "no"), end)}, Remove: true}) // ignored
	}
	_, err := l.Record(t.Context(), at(0), []ledger.Change{{Rows: []ledger.Row{row}, Ended: true}})
	if err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("error %v for Ended without Remove, want one naming ended", err)
	}
}

// endedRows reads ended rows, and compares them with the model.
func endedRows(t tester, l *ledger.Ledger, m *model, now time.Time, limit int) []ledger.Row {
	t.Helper()
	got, err := l.Ended(context.Background(), now, limit)
	if err != nil {
		t.Fatalf("Ended: %v", err)
	}
	if want := m.ended(now, limit); !slices.Equal(got, want) {
		t.Fatalf("ended at %v: %v, want %v", now, got, want)
	}
	return got
}

// ended reads ended rows of all pages, in parts of all sizes.
func (s suite) ended(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	var changes []ledger.Change
	for i := range 60 {
		row := block(i*7%16, strings.Repeat("x", 1+i%5))
		row.Kind = []string{"block", "hide"}[i%2]
		if i%4 > 0 {
			row.Until = at(int64(i * 13 % 10))
		}
		changes = append(changes, add(row))
	}
	recordAt(t, l, m, at(-100), changes...)
	for now := int64(-1); now <= 10; now++ {
		for _, limit := range []int{1, 2, 7, 1000} {
			endedRows(t, l, m, at(now), limit)
		}
		endedRows(t, l, m, at(now).Add(999), 1000) // less than a microsecond later
	}
	if rows := endedRows(t, l, m, at(10), 1000); len(rows) < 30 {
		t.Errorf("%d rows have ended, want most of them", len(rows))
	}
}

// endedSwept removes ended rows after one was prolonged, one was recorded again, and one was
// removed.
func (s suite) endedSwept(t *testing.T) {
	l := s.make(t, 1)
	m := newModel(l.Identity())
	rows := []ledger.Row{block(1, "again"), block(1, "gone"), block(1, "swept"), block(1, "undone")}
	for i := range rows {
		rows[i].Until = at(10)
		recordAt(t, l, m, at(0), add(rows[i]))
	}
	found := endedRows(t, l, m, at(10), 100)
	again := until(rows[0], at(30))
	recordAt(t, l, m, at(11), add(again))
	recordAt(t, l, m, at(11), remove(rows[1]))
	var changes []ledger.Change
	for _, row := range found {
		changes = append(changes, removeEnded(row))
	}
	receipt := recordAt(t, l, m, at(12), changes...)
	if want := []bool{false, false, true, true}; !slices.Equal(receipt.Changed, want) {
		t.Errorf("changed %v, want %v", receipt.Changed, want)
	}
	checkPage(t, l, 0, []ledger.Row{again}, 6)
}
