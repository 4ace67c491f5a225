package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// hashes records rows at both ends of pages.
func (s suite) hashes(t *testing.T) {
	for _, c := range []struct {
		pages uint32
		hash  uint64
		page  uint32
	}{
		{1, 0, 0},
		{1, 1 << 63, 0},
		{1, math.MaxUint64, 0},
		{2, 0, 0},
		{2, 1<<63 - 1, 0},
		{2, 1 << 63, 1},
		{2, math.MaxUint64, 1},
		{16384, 1<<50 - 1, 0},
		{16384, 1 << 50, 1},
		{16384, 0x8000_0000_0000_0000, 8192},
		{16384, 0x7fff_ffff_ffff_ffff, 8191},
		{1 << 24, 1<<40 - 1, 0},
		{1 << 24, 1 << 40, 1},
		{1 << 24, math.MaxUint64, 1<<24 - 1},
	} {
		t.Run(fmt.Sprintf("%d/%#x", c.pages, c.hash), func(t *testing.T) {
			l := s.make(t, c.pages)
			if page := l.Identity().PageIn(c.pages, c.hash); page != c.page {
				t.Fatalf("hash %#x is on page %d, want %d", c.hash, page, c.page)
			}
			row := ledger.Row{Hash: c.hash, Owner: "u", Kind: "block", Target: "a", Since: at(0)}
			receipt := record(t, l, add(row))
			if page := receipt.Pages[0].Page; len(receipt.Pages) != 1 || page != c.page {
				t.Errorf("recorded on %+v, want page %d", receipt.Pages, c.page)
			}
			checkPage(t, l, c.page, []ledger.Row{row}, 1)
			for _, other := range []uint32{c.page - 1, c.page + 1} {
				if other < c.pages {
					checkPage(t, l, other, nil, 0)
				}
			}
			// The same owner, kind and target with another hash is another row.
			twin := row
			twin.Hash ^= 1
			record(t, l, add(twin))
			both := []ledger.Row{row, twin}
			slices.SortFunc(both, compareRows)
			checkPage(t, l, c.page, both, 2)
		})
	}
}

func (s suite) reopen(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 4})
	m := newModel(l.Identity())
	for round := range 3 {
		for i := range 20 {
			changes := []ledger.Change{
				add(block(i, fmt.Sprint("r", round)), block(i+1, "x")),
				remove(block(i, fmt.Sprint("r", round-1))),
			}
			checkReceipt(t, record(t, l, changes...), m.record(changes))
		}
		shut(t, l)
		l = open(t, url, ledger.Options{})
		m.check(t, l)
	}
}

func (s suite) noSuchPage(t *testing.T) {
	most := s.make(t, ledger.MaxPages) // all other numbers are those of dedicated pages
	checkGone(t, most, ledger.DedicatedPages)
	l := s.make(t, 16)
	checkGone(t, l, 32) // of a layout that does not exist
	checkGone(t, l, ledger.DedicatedPages)
	checkGone(t, l, math.MaxUint32)
	for _, page := range []uint32{16, 31, 2 * ledger.MaxPages, ledger.DedicatedPages - 1} {
		if _, _, err := rowsOf(l, page); err == nil || errors.Is(err, ledger.ErrGone) {
			t.Errorf("rows of page %d, which no layout has: %v", page, err)
		}
		if _, _, err := l.Keys(t.Context(), page); err == nil || errors.Is(err, ledger.ErrGone) {
			t.Errorf("keys of page %d, which no layout has: %v", page, err)
		}
		if _, err := l.Sequence(t.Context(), page); err == nil || errors.Is(err, ledger.ErrGone) {
			t.Errorf("sequence of page %d, which no layout has: %v", page, err)
		}
	}
}

// listQuery is the query of the tests of lists. listRows are 38 rows that it lists, six of each
// microsecond, among others that it does not list.
func listQuery() ledger.ListQuery {
	return ledger.ListQuery{Hash: 3 << 60, Owner: "u3", Kind: "block"}
}

func listRows() []ledger.Change {
	var changes []ledger.Change
	for i := range 40 {
		row := block(3, fmt.Sprint("t", i*7%40))
		row.Since = at(int64(i / 6))
		other := row
		other.Kind = "hide"
		changes = append(changes, add(row), add(other))
		if i%5 == 0 {
			neighbour := block(3, row.Target)
			neighbour.Owner = "u33"
			twin := block(3, row.Target)
			twin.Hash++
			changes = append(changes, add(neighbour), add(twin))
		}
	}
	return append(changes, remove(block(3, "t0")), remove(block(3, "t39")))
}

// list reads a list in steps of all sizes.
func (s suite) list(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	m.record(listRows())
	record(t, l, listRows()...)
	q := listQuery()
	for q.Limit = 1; q.Limit <= 45; q.Limit++ {
		q.Before = nil
		seen := 0
		for {
			got := listed(t, l, m, q)
			seen += len(got)
			if len(got) < q.Limit {
				break
			}
			q.Before = &got[q.Limit-1]
		}
		if seen != 38 {
			t.Errorf("%d rows in steps of %d, want 38", seen, q.Limit)
		}
	}
}

// listFrom lists from positions without a row, and lists without any row.
func (s suite) listFrom(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	m.record(listRows())
	record(t, l, listRows()...)
	q := listQuery()
	q.Limit = 10
	for _, before := range []ledger.Row{
		{Since: at(3), Target: ""},         // all of that microsecond
		{Since: at(3), Target: "t"},        // the same
		{Since: at(3), Target: "t22"},      // between rows
		{Since: at(3), Target: "zzz"},      // none of it
		{Since: at(1000), Target: "t1"},    // before the newest
		{Since: at(-1), Target: "t1"},      // past the oldest
		{Since: time.Time{}, Target: "t1"}, // the oldest possible
		{Since: at(3).In(time.FixedZone("", 3600)), Target: "t2"},
	} {
		q.Before = &before
		listed(t, l, m, q)
	}
	for _, none := range []ledger.ListQuery{
		{Hash: q.Hash, Owner: "u4", Kind: "block", Limit: 5},
		{Hash: q.Hash, Owner: "u3", Kind: "like", Limit: 5},
		{Hash: q.Hash + 2, Owner: "u3", Kind: "block", Limit: 5},
	} {
		if got := listed(t, l, m, none); len(got) != 0 {
			t.Errorf("%+v lists %v", none, got)
		}
	}
}

// listed reads a list, and compares it with the model.
func listed(t tester, l *ledger.Ledger, m *model, q ledger.ListQuery) []ledger.Row {
	t.Helper()
	got, err := l.List(context.Background(), q)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if want := m.list(q); !slices.Equal(got, want) {
		t.Fatalf("list %+v before %+v is %v, want %v", q, q.Before, got, want)
	}
	return got
}

func (s suite) listInvalid(t *testing.T) {
	l := s.make(t, 16)
	for _, q := range []ledger.ListQuery{
		{Owner: "u", Kind: "block", Limit: 0},
		{Owner: "u", Kind: "block", Limit: -1},
		{Owner: "", Kind: "block", Limit: 1},
		{Owner: "u", Kind: "", Limit: 1},
		{Owner: "u\x00", Kind: "block", Limit: 1},
	} {
		if rows, err := l.List(t.Context(), q); err == nil {
			t.Errorf("%+v lists %v, want an error", q, rows)
		}
	}
}
