package ledger

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// beforeOwners fills a ledger of 2 pages as it was made before users could have pages of their own.
const beforeOwners = `
	INSERT INTO meta VALUES ('incarnation', '5'), ('seed', '6'), ('pages', '2');
	INSERT INTO pages (page, sequence, changed) VALUES (0, 7, 1), (1, 3, 2);
	INSERT INTO entries (hash, owner, kind, target, since) VALUES
		(-9223372036854775807, 'u', 'hide', 'p', 42), (-9223372036854775806, 'v', 'hide', 'p', 43), (0, 't', 'hide', 'p', 44)`

// checkOwners has users of a ledger of beforeOwners move.
func checkOwners(t *testing.T, l *Ledger) {
	t.Helper()
	us := func(n int64) time.Time { return time.UnixMicro(n).UTC() }
	first := Row{Hash: 1, Owner: "u", Kind: "hide", Target: "p", Since: us(42)}
	second := Row{Hash: 2, Owner: "v", Kind: "hide", Target: "p", Since: us(43)}
	check := func(page uint32, want Standing, rows ...Row) {
		t.Helper()
		got, s, err := l.Snapshot(t.Context(), page)
		if err != nil || s != want || !slices.Equal(got, rows) {
			t.Errorf("page %d: %v at %v, %v, want %v at %v", page, got, s, err, rows, want)
		}
	}
	check(0, Standing{Sequence: 7}, first, second)
	if homes, err := l.Homes(t.Context()); err != nil || len(homes) > 0 {
		t.Errorf("homes %v, %v, want none", homes, err)
	}
	if receipt, err := l.MoveOut(t.Context(), 1); err != nil || receipt.Pages[1].Page != OwnPages {
		t.Fatalf("%+v, %v", receipt, err)
	}
	check(0, Standing{Sequence: 8, Moves: 1}, second)
	check(1, Standing{Sequence: 3}, Row{Hash: 1 << 63, Owner: "t", Kind: "hide", Target: "p", Since: us(44)})
	check(OwnPages, Standing{Sequence: 1}, first)
	if _, err := l.Record(t.Context(), us(50), []Change{{Rows: []Row{first, second}, Remove: true}}); err != nil {
		t.Error(err)
	}
	got := map[uint32]Standing{}
	_, err := l.Changed(t.Context(), "", func(page uint32, s Standing) error {
		got[page] = s
		return nil
	})
	want := map[uint32]Standing{0: {Sequence: 9, Moves: 1}, 1: {Sequence: 3}, OwnPages: {Sequence: 2}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("changed %v, %v, want %v", got, err, want)
	}
}

func TestMigrateOwners(t *testing.T) {
	checkOwners(t, openFile(t, sqliteOf(t, 4, beforeOwners), Options{}))
}

func TestPostgresMigrateOwners(t *testing.T) {
	checkOwners(t, postgresOf(t, 3, beforeOwners))
}

// TestRangeWithout takes hashes out of ranges, at both ends of them and of all hashes.
func TestRangeWithout(t *testing.T) {
	const most = 1<<64 - 1
	for _, c := range []struct {
		of      hashRange
		without []uint64
		want    []hashRange
	}{
		{hashRange{3, 9}, nil, []hashRange{{3, 9}}},
		{hashRange{3, 9}, []uint64{5}, []hashRange{{3, 4}, {6, 9}}},
		{hashRange{3, 9}, []uint64{3, 9}, []hashRange{{4, 8}}},
		{hashRange{3, 9}, []uint64{5, 6, 8}, []hashRange{{3, 4}, {7, 7}, {9, 9}}},
		{hashRange{3, 4}, []uint64{3, 4}, nil},
		{hashRange{0, most}, []uint64{0, most}, []hashRange{{1, most - 1}}},
		{hashRange{most, most}, []uint64{most}, nil},
	} {
		if got := c.of.without(c.without); !slices.Equal(got, c.want) {
			t.Errorf("%v without %v: %v, want %v", c.of, c.without, got, c.want)
		}
	}
}

// TestMoveNumbers gives out the last number that a page can have, and no other one after it.
func TestMoveNumbers(t *testing.T) {
	m := move{hash: 5, home: 3, out: true}
	at := func(greatest uint32) moveState {
		return moveState{whereabouts{page: 3, left: 3}, map[uint32]footing{}, greatest}
	}
	for _, c := range []struct{ greatest, want uint32 }{
		{0, OwnPages}, {16383, OwnPages}, {OwnPages - 1, OwnPages}, {OwnPages, OwnPages + 1}, {1<<32 - 2, 1<<32 - 1},
	} {
		o, err := m.decide(at(c.greatest))
		if err != nil || len(o.raised) != 1 || o.own.Page != c.want || o.receipt.Pages[1].Page != c.want {
			t.Errorf("after page %d: %+v, %v, want page %d", c.greatest, o, err, c.want)
		}
		if first, last, err := numbersAfter(c.greatest, 1); err != nil || first != c.want || last != c.want {
			t.Errorf("after page %d: %d to %d, %v, want page %d", c.greatest, first, last, err, c.want)
		}
	}
	if o, err := m.decide(at(1<<32 - 1)); err == nil || len(o.raised) > 0 {
		t.Errorf("after the last page: %+v, want an error", o)
	}
	for _, c := range []struct {
		greatest uint32
		n        int
	}{{1<<32 - 1, 1}, {1<<32 - 2, 2}, {OwnPages, 1<<32 - 1}, {1<<32 - 4, 4}} {
		if first, last, err := numbersAfter(c.greatest, c.n); err == nil {
			t.Errorf("%d after page %d: %d to %d, want an error", c.n, c.greatest, first, last)
		}
	}
	if first, last, err := numbersAfter(1<<32-4, 3); err != nil || first != 1<<32-3 || last != 1<<32-1 {
		t.Errorf("the last three: %d to %d, %v", first, last, err)
	}
}
