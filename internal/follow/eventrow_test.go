package follow

import (
	"testing"

	"github.com/feedfilter/feedfilter/activity"
)

const eventRowTables = `{"tables": [
  {"table": "mutes", "kind": "block", "user": "u", "target": "who[]"},
  {"table": "a", "kind": "block", "user": "a:{u}", "target": "v", "where": {"ok": "true"}},
  {"table": "b", "kind": "block", "user": "b:{u}", "target": "v", "where": {"ok": "0"}},
  {"table": "shop.hides", "kind": "hide", "user": "u", "target": "v", "where": {"ok": "true"}, "unless": ["gone"]}]}`

// TestEventsOfLists: an array in an event, or JSON as a string, gives an activity for each element.
func TestEventsOfLists(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s = newSinkOf(t, s.recorder, s.ledger, eventRowTables)
	s.want(t, recorded(1), pg("c", "mutes", 100, 110, "", `{"u":1,"who":["2",3,null]}`))
	s.wantHas(t, "block 1 2", "block 1 3")
	s.want(t, recorded(1), pg("u", "mutes", 120, 130, `{"u":1,"who":["2",3,null]}`, `{"u":1,"who":[3,"4"]}`))
	s.wantHas(t, "block 1 3", "block 1 4")
	s.want(t, recorded(1), pg("u", "mutes", 140, 150, `{"u":1,"who":[3,"4"]}`, `{"u":1,"who":"[\"5\", 4]"}`)) // JSON
	s.wantHas(t, "block 1 4", "block 1 5")
	s.want(t, recorded(1), pg("u", "mutes", 160, 170, `{"u":1,"who":["5","4"]}`, `{"u":1,"who":"`+unchanged+`"}`))
	s.wantHas(t, "block 1 4", "block 1 5")
	s.want(t, recorded(1), pg("d", "mutes", 180, 190, `{"u":1,"who":["5","4"]}`, ""))
	s.wantHas(t)
	s.refuses(t, CodeInvalidRow, "an element is neither", pg("c", "mutes", 200, 210, "", `{"u":1,"who":[1.5]}`))
}

// TestEventsOfBooleans: where takes a boolean of either connector by its truth.
func TestEventsOfBooleans(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s = newSinkOf(t, s.recorder, s.ledger, eventRowTables)
	row := func(table string, lsn int, ok string) string {
		return pg("c", table, lsn, lsn, "", `{"u":1,"v":`+ok+`2,"ok":`+map[string]string{"1": "true", "2": "false", "3": "null"}[ok]+`}`)
	}
	for n, table := range []string{"a", "b"} {
		for k, ok := range []string{"1", "2", "3"} {
			s.want(t, recorded(1), row(table, 100+10*(3*n+k), ok))
		}
	}
	s.wantHas(t, "block a:1 12", "block b:1 22")

	m := newSink(t)
	m = newSinkOf(t, m.recorder, m.ledger, eventRowTables)
	for n, row := range []string{`{"u":1,"v":2,"ok":1,"gone":0}`, `{"u":1,"v":3,"ok":0,"gone":0}`, `{"u":1,"v":4,"ok":1,"gone":1}`, `{"u":1,"v":5,"ok":true,"gone":false}`} {
		m.want(t, recorded(1), mysql("c", "null", "000001", 100+n, 0, "", row))
	}
	m.wantHas(t, "hide 1 2", "hide 1 5")
}

// TestTextOfBooleans: without a condition, the boolean of an event has the text of PostgreSQL's, or
// its number.
func TestTextOfBooleans(t *testing.T) {
	t.Parallel()
	tables, err := ParseTables([]byte(eventRowTables), activity.BuiltinKinds())
	must(t, err)
	for text, want := range map[string]string{"true": "t", "false": "f", "1": "1", "0": "0"} {
		if got := tables[0].boolean("u", text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := tables[3].boolean("gone", "0"); got != "f" {
		t.Errorf("0 in unless: %q", got)
	}
}
