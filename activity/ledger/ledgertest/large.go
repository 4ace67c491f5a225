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

// eachRow reads a page in parts, and returns the rows in order. It calls meanwhile after the first
// part, unless meanwhile is nil.
func eachRow(t tester, l *ledger.Ledger, page uint32, meanwhile func()) ([]ledger.Row, ledger.PageState) {
	t.Helper()
	rows, s, err := rowsWhile(l, page, meanwhile)
	if err != nil {
		t.Errorf("read page %d in parts: %v", page, err)
	}
	return rows, s
}

// rowsOf returns all rows of a page, in order, and its state.
func rowsOf(l *ledger.Ledger, page uint32) ([]ledger.Row, ledger.PageState, error) {
	return rowsWhile(l, page, nil)
}

func rowsWhile(l *ledger.Ledger, page uint32, meanwhile func()) (rows []ledger.Row, s ledger.PageState, err error) {
	s, err = l.EachRow(context.Background(), page, func(some []ledger.Row) error {
		if rows = append(rows, some...); meanwhile != nil {
			meanwhile()
			meanwhile = nil
		}
		return nil
	})
	slices.SortFunc(rows, compareRows)
	return rows, s, err
}

// largePage reads more rows than one statement returns, on a shared page and on a dedicated one.
// All rows must be from one snapshot.
func (s suite) largePage(t *testing.T) {
	l := s.make(t, 1)
	const heavy = math.MaxUint64
	var rows []ledger.Row
	for i := range ledger.LargePage {
		rows = append(rows, ledger.Row{Hash: heavy, Owner: "u", Kind: "hide", Target: fmt.Sprintf("p%06d", i), Since: at(int64(i))})
	}
	changes := make([]ledger.Change, len(rows))
	for i := range rows {
		changes[i] = add(rows[i])
	}
	if _, err := l.Record(t.Context(), time.Now(), changes); err != nil {
		t.Fatal(err)
	}
	keys, _, err := l.Keys(t.Context(), 0)
	if err != nil || len(keys) != len(rows) {
		t.Fatalf("%d of %d keys, %v", len(keys), len(rows), err)
	}
	one := ledger.Row{Hash: heavy, Owner: "u", Kind: "like", Target: "one more", Since: at(0)}
	record(t, l, add(one))
	rows = append(rows, one)
	for _, page := range []uint32{0, ledger.DedicatedPages} {
		if _, _, err := l.Keys(t.Context(), page); !errors.Is(err, ledger.ErrLargePage) {
			t.Errorf("keys of page %d: %v", page, err)
		}
		whole, before, err := rowsOf(l, page)
		if err != nil || !slices.Equal(whole, rows) {
			t.Errorf("page %d: %d of %d rows, %v", page, len(whole), len(rows), err)
		}
		parts, states := eachRow(t, l, page, func() {
			record(t, l, remove(rows[len(rows)-2]), add(ledger.Row{Hash: heavy, Owner: "u", Kind: "zzz", Target: "later", Since: at(0)}))
		})
		if !slices.Equal(parts, rows) || states != before {
			t.Errorf("page %d: %d of %d rows at %v, want %v", page, len(parts), len(rows), states, before)
		}
		record(t, l, add(rows[len(rows)-2]), remove(ledger.Row{Hash: heavy, Owner: "u", Kind: "zzz", Target: "later"}))
		if page == 0 {
			if _, err := l.Move(t.Context(), heavy, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.largePageEnds(t, l)
	checkAll(t, l, rows, 7000)
}

// largePageEnds ends reads early, which must not affect later calls.
func (suite) largePageEnds(t *testing.T, l *ledger.Ledger) {
	refused := errors.New("enough")
	times := 9
	for _, pool := range l.Pools() { // more often than there are connections
		times = max(times, pool.Most+1)
	}
	for range times {
		if _, err := l.EachRow(t.Context(), ledger.DedicatedPages, func([]ledger.Row) error { return refused }); !errors.Is(err, refused) {
			t.Fatalf("error %v, want that of each", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := l.EachRow(ctx, ledger.DedicatedPages, func([]ledger.Row) error {
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want context.Canceled", err)
		}
	}
	only := ledger.Row{Owner: "v", Kind: "like", Target: "p", Since: at(0)}
	record(t, l, add(only))
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := l.EachRow(ctx, 0, func([]ledger.Row) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of the last part, want context.Canceled", err)
	}
	record(t, l, remove(only))
}
