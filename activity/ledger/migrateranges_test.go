package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// beforeRanges fills a ledger of 2 pages as it was made before their number could be changed: of the users of page 0, u has a page
// of their own, and v had one.
const beforeRanges = beforeOwners + `;
	UPDATE pages SET moves = 3 WHERE page = 0;
	INSERT INTO pages (page, sequence, changed, moves) VALUES (16777216, 4, 3, 1), (16777217, 2, 4, 0);
	INSERT INTO owners (hash, page) VALUES (-9223372036854775807, 16777217)`

// checkRanges reshapes a ledger of beforeRanges.
func checkRanges(t *testing.T, l *Ledger) {
	t.Helper()
	row := func(hash uint64, owner string, since int64) Row {
		return Row{Hash: hash, Owner: owner, Kind: "hide", Target: "p", Since: time.UnixMicro(since).UTC()}
	}
	check := func(page uint32, want Standing, rows ...Row) {
		t.Helper()
		got, s, err := l.Snapshot(t.Context(), page)
		if err != nil || s != want || !slices.Equal(got, rows) {
			t.Errorf("page %d: %v at %v, %v, want %v at %v", page, got, s, err, rows, want)
		}
	}
	homes, err := l.Homes(t.Context())
	if err != nil || len(homes) != 1 || len(homes[0].Ranges) > 0 || !slices.Equal(homes[0].Owners, []Owner{{1, OwnPages + 1}}) {
		t.Errorf("homes %+v, %v", homes, err)
	}
	if cut, err := l.Cut(t.Context()); err != nil || cut != (Cut{Pages: 2, Done: 2, Homes: 2}) {
		t.Errorf("cut %+v, %v", cut, err)
	}
	if err := l.SetCut(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	plan, err := l.PlanReshape(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := l.Reshape(t.Context(), plan)
	if err != nil || len(receipt.Pages) != 3 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	check(0, Standing{8, 4})
	check(1, Standing{4, 1})
	check(OwnPages, Standing{4, 1})
	check(OwnPages+1, Standing{2, 0}, row(1, "u", 42))
	check(OwnPages+2, Standing{1, 0}, row(2, "v", 43), row(1<<63, "t", 44))
	if receipt, err = l.MoveIn(t.Context(), 1); err != nil || len(receipt.Pages) != 3 || receipt.Pages[1].Owner != 1 {
		t.Errorf("%+v, %v", receipt, err)
	}
	check(OwnPages+2, Standing{2, 1}, row(1, "u", 42), row(2, "v", 43), row(1<<63, "t", 44))
	if _, err := l.Reshape(t.Context(), plan); !errors.Is(err, ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
}

func TestMigrateRanges(t *testing.T) {
	checkRanges(t, openFile(t, sqliteOf(t, 5, beforeRanges), Options{}))
}

func TestPostgresMigrateRanges(t *testing.T) {
	checkRanges(t, postgresOf(t, 4, beforeRanges))
}
