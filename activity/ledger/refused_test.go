package ledger

import (
	"context"
	"strings"
	"testing"
	"time"
)

// refusing is a ledger with a database that refuses statements on request.
type refusing struct {
	*Ledger
	exec   func(t *testing.T, sql string)
	refuse func(event, table string) (begin, end string) // statements
}

// onRefusing runs the test on each kind of database.
func onRefusing(t *testing.T, run func(t *testing.T, l refusing)) {
	onBoth(t, 1, func(t *testing.T, l *Ledger) {
		r := refusing{
			l, func(t *testing.T, sql string) { execute(t, l, sql) }, func(event, table string) (begin, end string) {
				return "CREATE TRIGGER refuse BEFORE " + event + " ON " + table + " BEGIN SELECT RAISE(ABORT, 'refused'); END",
					"DROP TRIGGER refuse"
			},
		}
		if d, ok := l.db.(*postgresDatabase); ok {
			r.exec = func(t *testing.T, sql string) {
				t.Helper()
				_, err := d.pool.Exec(t.Context(), sql)
				must(t, err)
			}
			r.exec(t, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$")
			r.refuse = func(event, table string) (begin, end string) {
				return "CREATE TRIGGER refuse BEFORE " + event + " ON " + table + " FOR EACH ROW EXECUTE FUNCTION refuse()",
					"DROP TRIGGER refuse ON " + table
			}
		}
		run(t, r)
	})
}

func rename(from, to string) string { return "ALTER TABLE " + from + " RENAME TO " + to }

// A write has no effect, and returns an error, if one of its statements fails.
func TestStatementsFail(t *testing.T) {
	onRefusing(t, func(t *testing.T, l refusing) {
		_, err := l.Record(t.Context(), time.Time{}, numbered(10))
		must(t, err)
		changes := numbered(20) // 10 of them are new
		changes[0].Remove = true
		type statements struct{ begin, end string }
		of := func(begin, end string) statements { return statements{begin, end} }
		raise := "INSERT"
		if l.Shared() {
			raise = "UPDATE"
		}
		for name, c := range map[string]statements{
			"look up rows":    {rename("entries", "hidden"), rename("hidden", "entries")},
			"look up pages":   {rename("pages", "hidden"), rename("hidden", "pages")},
			"look up layouts": {rename("layouts", "hidden"), rename("hidden", "layouts")},
			"look up owners":  {rename("owners", "hidden"), rename("hidden", "owners")},
			"add rows":        of(l.refuse("INSERT", "entries")),
			"remove rows":     of(l.refuse("DELETE", "entries")),
			"raise sequences": of(l.refuse(raise, "pages")),
		} {
			l.exec(t, c.begin)
			if _, err := l.Record(t.Context(), time.Time{}, changes); err == nil {
				t.Errorf("%s: no error", name)
			}
			l.exec(t, c.end)
			if rows, s, err := l.Snapshot(t.Context(), 0); err != nil || len(rows) != 10 || s.Sequence != 1 {
				t.Errorf("%s: %d rows at sequence %d, %v, want 10 at 1", name, len(rows), s.Sequence, err)
			}
		}
		_, err = l.Record(t.Context(), time.Time{}, changes)
		must(t, err)
		if rows, s, err := l.Snapshot(t.Context(), 0); err != nil || len(rows) != 19 || s.Sequence != 2 {
			t.Errorf("then %d rows at sequence %d, %v, want 19 at 2", len(rows), s.Sequence, err)
		}
	})
}

// A read returns an error, and not an empty result, if the database fails.
func TestReadsFail(t *testing.T) {
	onRefusing(t, func(t *testing.T, l refusing) {
		_, err := l.Record(t.Context(), time.Time{}, numbered(10))
		must(t, err)
		row := numbered(1)[0].Rows[0]
		reads := map[string]func() error{
			"Keys":     func() error { _, _, err := l.Keys(t.Context(), 0); return err },
			"EachRow":  func() error { _, err := l.EachRow(t.Context(), 0, func([]Row) error { return nil }); return err },
			"Sequence": func() error { _, err := l.Sequence(t.Context(), 0); return err },
			"Changed": func() error {
				_, err := l.Changed(t.Context(), "", func(uint32, PageState) error { return nil })
				return err
			},
			"Place":   func() error { _, err := l.Place(t.Context(), 0); return err },
			"Layouts": func() error { _, err := l.Layouts(t.Context()); return err },
		}
		list := ListQuery{Hash: row.Hash, Owner: row.Owner, Kind: row.Kind, Limit: 10}
		reads["List"] = func() error { _, err := l.List(t.Context(), list); return err }
		reads["ListNaming"] = func() error { _, _, err := l.ListNaming(t.Context(), list); return err }
		for table, names := range map[string]string{
			"entries": "Keys EachRow List ListNaming", "pages": "Keys EachRow Sequence Changed Place",
			"layouts": "Keys EachRow Sequence Changed Place Layouts", "owners": "Keys EachRow Changed Place",
		} {
			l.exec(t, rename(table, "hidden"))
			for name := range strings.FieldsSeq(names) {
				if reads[name]() == nil {
					t.Errorf("%s without %s: no error", name, table)
				}
			}
			l.exec(t, rename("hidden", table))
			for name, read := range reads {
				if err := read(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}

// A move or a change of layouts has no effect if one of its statements fails. The exception is a
// layout that has begun: it stays, and BeginLayout completes it.
func TestMovesAndLayoutsFail(t *testing.T) {
	onRefusing(t, func(t *testing.T, l refusing) {
		row := numbered(1)
		_, err := l.Record(t.Context(), time.Time{}, row)
		must(t, err)
		hash := row[0].Rows[0].Hash
		dedicate := func() error { _, err := l.Move(t.Context(), hash, true); return err }
		release := func() error { _, err := l.Move(t.Context(), hash, false); return err }
		layout := func(do func(context.Context, uint32) error, pages uint32) func() error {
			return func() error { return do(t.Context(), pages) }
		}
		raise := "INSERT"
		if l.Shared() {
			raise = "UPDATE"
		}
		first, building := Layouts{Current: 1}, Layouts{Current: 1, Building: 4}
		switched := Layouts{Current: 4, Leaving: 1}
		for _, c := range []struct {
			call          func() error
			event, table  string
			during, after Place // the state if the statement fails, and if none does
		}{
			{dedicate, "INSERT", "owners", Place{0, PageState{1, 0}, first}, Place{0, PageState{1, 0}, first}},
			{dedicate, raise, "pages", Place{0, PageState{1, 0}, first}, Place{DedicatedPages, PageState{1, 0}, first}},
			{release, "DELETE", "owners", Place{DedicatedPages, PageState{1, 0}, first}, Place{DedicatedPages, PageState{1, 0}, first}},
			{release, raise, "pages", Place{DedicatedPages, PageState{1, 0}, first}, Place{0, PageState{3, 2}, first}},
			{layout(l.BeginLayout, 4), "INSERT", "layouts", Place{0, PageState{3, 2}, first}, Place{0, PageState{3, 2}, first}},
			{layout(l.BeginLayout, 4), "INSERT", "pages", Place{0, PageState{3, 2}, building}, Place{0, PageState{3, 2}, building}},
			{layout(l.SwitchLayout, 4), "DELETE", "layouts", Place{0, PageState{3, 2}, building}, Place{4, PageState{3, 0}, switched}},
			{layout(l.LeaveLayout, 1), "DELETE", "pages", Place{4, PageState{3, 0}, switched}, Place{4, PageState{3, 0}, switched}},
			{layout(l.LeaveLayout, 1), "DELETE", "layouts", Place{4, PageState{3, 0}, switched}, Place{4, PageState{3, 0}, Layouts{Current: 4}}},
		} {
			begin, end := l.refuse(c.event, c.table)
			l.exec(t, begin)
			if err := c.call(); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("without %s of %s: error %v", c.event, c.table, err)
			}
			l.exec(t, end)
			if got, err := l.Place(t.Context(), hash); err != nil || got != c.during {
				t.Errorf("without %s of %s: on %+v, %v, want %+v", c.event, c.table, got, err, c.during)
			}
			if c.during == c.after { // the next case must fail at another statement of the same call
				continue
			}
			if err := c.call(); err != nil {
				t.Error(err)
			}
			if got, err := l.Place(t.Context(), hash); err != nil || got != c.after {
				t.Errorf("then on %+v, %v, want %+v", got, err, c.after)
			}
		}
	})
}
