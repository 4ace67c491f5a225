package ledgertest

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// hashes records rows at both ends of the first pages, those in the middle and the last.
func (s suite) hashes(t *testing.T) {
	for _, pages := range []uint32{1, 2, 16384, 1 << 24} {
		l := s.make(t, pages)
		some := []uint32{0, min(1, pages-1), (pages - 1) / 2, pages / 2, pages - 1}
		slices.Sort(some)
		for _, page := range slices.Compact(some) {
			least, greatest := hashesOf(pages, page)
			var rows []ledger.Row
			for _, hash := range []uint64{least, least + 1, greatest} {
				row := ledger.Row{Hash: hash, Owner: "u", Kind: "block", Target: "a", Since: at(0)}
				rows = append(rows, row)
				receipt := record(t, l, add(row))
				if in := l.Identity().PageIn(pages, hash); in != page || len(receipt.Pages) != 1 || receipt.Pages[0].Page != page {
					t.Errorf("hash %#x of %d pages is on page %d, recorded on %+v, want page %d", hash, pages, in, receipt.Pages, page)
				}
			}
			checkPage(t, l, page, rows, 3)
		}
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

// list reads lists of rows with ends, at all times, in steps of all sizes, and from positions
// without a row.
func (s suite) list(t *testing.T) {
	l := s.make(t, 16)
	m := newModel(l.Identity())
	recordAt(t, l, m, at(-1), ownedRows()...)
	recordAt(t, l, m, at(-1), remove(block(3, "t0"), block(3, "t39")))
	q := ledger.ListQuery{Hash: 3 << 60, Owner: "u3", Kind: "block"}
	for now := int64(-1); now < 10; now++ {
		q.Now = at(now)
		for q.Limit = 1; q.Limit <= 16; q.Limit++ {
			q.Before = nil
			seen := 0
			for got := listed(t, l, m, q); ; got = listed(t, l, m, q) {
				seen += len(got)
				if len(got) < q.Limit {
					break
				}
				q.Before = &got[q.Limit-1]
			}
			if seen < 8 {
				t.Errorf("%d rows in steps of %d at %d, want at least 8", seen, q.Limit, now)
			}
		}
	}
	q.Now = at(0)
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
