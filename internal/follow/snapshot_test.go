package follow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// The ledger lost a row that the source removes. The source is read whole, once.
func TestFollowStrayRow(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 3)`)
	stop := a.start(a.follower("one"))
	a.reached()
	stop()
	src, err := a.recorder.Follow(t.Context(), "app", "any", a.tables.Kinds(), time.Minute, false)
	must(t, err)
	must(t, src.Record(t.Context(), src.Position, []activity.SourceChange{
		{User: "1", Kind: "block", Target: "2", At: time.Now(), Whole: true}, {User: "1", Kind: "block", Target: "3", At: time.Now(), Whole: true},
	}))
	must(t, src.Renew(t.Context(), 0, time.Time{}))
	a.exec(`DELETE FROM blocks WHERE blocked_id = 2`)
	f := a.follower("two")
	a.start(f)
	a.reached()
	a.wantMapped()
	if n := f.figures.snapshots.Load(); n != 1 {
		t.Errorf("the source was read %d times", n)
	}
}

// Two rows give an activity that the ledger has already: after a full read, it ends with the last.
func TestFollowRowsAfterFullRead(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (1, 2)`)
	f := a.follower("one")
	stop := a.start(f)
	a.reached()
	stop()
	must(t, f.source.dropSlot(t.Context(), a.conn))
	f = a.follower("two")
	a.start(f)
	soon(t, "the full read", func() bool { return f.Stats().Active })
	for _, want := range []int{1, 0} {
		a.exec(`DELETE FROM blocks WHERE id = (SELECT min(id) FROM blocks)`)
		a.reached()
		a.wantMapped()
		if rows, err := a.ledger.All(t.Context(), nil, 10); err != nil || len(rows) != 2*want {
			t.Errorf("%d rows in the ledger, %v, want %d", len(rows), err, 2*want)
		}
	}
}

// The file of tables has changed, of the same kinds: the source is read whole.
func TestFollowFileChanged(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`INSERT INTO list_members VALUES (7, 8, 'accepted')`)
	whole := a.tables
	a.tables = slices.Clone(whole)
	a.tables[2].Where = map[string]string{"state": "asked"}
	stop := a.start(a.follower("one"))
	a.reached()
	stop()
	a.tables = whole
	f := a.follower("two")
	stop = a.start(f)
	soon(t, "the full read", func() bool { return f.figures.snapshots.Load() > 0 })
	a.reached() // before that, the next one reads it whole, too
	a.wantMapped()
	stop()
	f = a.follower("three")
	a.start(f)
	a.exec(`INSERT INTO list_members VALUES (7, 9, 'accepted')`)
	a.reached()
	if f.figures.snapshots.Load() > 0 {
		t.Error("the file has not changed, and the source was read whole")
	}
}

// All rows that are not valid are counted, and the first are listed by table and columns.
func TestReadInvalid(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.follower("one")
	report, err := f.Check(t.Context(), true)
	must(t, err)
	if report.Invalid != 0 || report.Rows != nil {
		t.Errorf("%+v", report)
	}
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT n, n FROM generate_series(1, 30) n`)
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2), (NULL, 3)`)
	a.exec(`INSERT INTO "App"."Mutes" VALUES ('00000000-0000-0000-0000-000000000001', '')`)
	a.exec(`INSERT INTO list_members VALUES (1, 2, 'accepted')`)
	report, err = f.Check(t.Context(), true)
	must(t, err)
	const first = `table blocks, row blocked_id="1" blocker_id="1": target: a user cannot block themselves`
	if report.Invalid != 31 || len(report.Rows) != maxListed || report.Rows[0] != first {
		t.Errorf("%d: %q, want %q first", report.Invalid, report.Rows, first)
	}
	a.exec(`DELETE FROM blocks`)
	report, err = f.Check(t.Context(), true)
	must(t, err)
	var text strings.Builder
	must(t, report.Print(&text))
	if !strings.Contains(text.String(), "1 rows are not valid, such as:\n- table App.Mutes, row Post=\"\" account_id=\"00000000-") {
		t.Errorf("%s", text.String())
	}
}
