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

// list reads lists of rows with ends, at all times, in steps of all sizes, and from positions without
// a row.
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
