package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

const eventTables = `{"tables": [
  {"table": "blocks", "kind": "block", "user": "blocker_id", "target": "blocked_id", "since": "created_at"},
  {"table": "shop.hides", "kind": "hide", "user": "user_id", "target": "post_id", "until": "ends", "unless": ["gone"]},
  {"table": "list_members", "kind": "block", "user": "list:{list_id}", "target": "member_id", "where": {"ok": "t"}}]}`

// sink is a source that sends events.
type sink struct {
	*Receiver

	ledger *ledger.Ledger
}

func newSink(t *testing.T) sink {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	must(t, err)
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}})
	must(t, err)
	t.Cleanup(func() { r.Close(); _ = l.Close() })
	return newSinkOf(t, r, l, eventTables)
}

func newSinkOf(t *testing.T, r *activity.Recorder, l *ledger.Ledger, file string) sink {
	t.Helper()
	tables, err := ParseTables([]byte(file), r.Kinds())
	must(t, err)
	return sink{NewReceiver(r, Options{Name: "app", Tables: tables, Log: slog.New(slog.DiscardHandler)}), l}
}

// sound ends a test after an error.
func sound(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send sends events; several are an array.
func (s sink) send(t rapid.TB, events ...string) (Received, error) {
	t.Helper()
	body := strings.Join(events, ",")
	if len(events) > 1 {
		body = "[" + body + "]"
	}
	var all Events
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return s.Receive(context.Background(), all)
}

// want sends events, and checks what became of them, such as "1 recorded".
func (s sink) want(t testing.TB, want Received, events ...string) {
	t.Helper()
	if got, err := s.send(t, events...); err != nil || got != want {
		t.Errorf("%v: %+v, %v, want %+v", events, got, err, want)
	}
}

// refuses sends events, and checks that they are refused with a code and a sentence, and change
// nothing.
func (s sink) refuses(t testing.TB, code, sentence string, events ...string) {
	t.Helper()
	before := s.state(t)
	_, err := s.send(t, events...)
	if bad, ok := errors.AsType[*activity.InvalidError](err); !ok || bad.Code != code || !strings.Contains(bad.Message, sentence) {
		t.Errorf("%v: %v, want %s with %q", events, err, code, sentence)
	}
	if after := s.state(t); after != before {
		t.Errorf("%v: changed\n%s\nto\n%s", events, before, after)
	}
}

func (s sink) position(t rapid.TB) string {
	t.Helper()
	all, err := s.ledger.Sources(context.Background())
	sound(t, err)
	if len(all) == 0 {
		return ""
	}
	return string(all[0].Position)
}

// has returns the activities, such as "block 1 2".
func (s sink) has(t rapid.TB) []string { return activitiesOf(t, s.recorder) }

// activitiesOf returns what a ledger has, such as "block 1 2".
func activitiesOf(t rapid.TB, r *activity.Recorder) (all []string) {
	t.Helper()
	sound(t, r.Export(context.Background(), "", func(a activity.Activity) error {
		all = append(all, a.Kind+" "+a.User+" "+a.Target)
		return nil
	}))
	slices.Sort(all)
	return all
}

func (s sink) state(t rapid.TB) string {
	return strings.Join(s.has(t), "\n") + "\n" + s.position(t)
}

func (s sink) wantHas(t testing.TB, want ...string) {
	t.Helper()
	if got := s.has(t); !slices.Equal(got, want) {
		t.Errorf("has %q, want %q; position %s", got, want, s.position(t))
	}
}

// pg returns an event of the PostgreSQL connector. A snapshot is of the LSN alone.
func pg(op, table string, commit, lsn int, before, after string) string {
	mark, sequence := "false", fmt.Sprintf(`"[\"%d\",\"%d\"]"`, commit, lsn)
	if op == "r" {
		mark, sequence = "true", fmt.Sprintf(`"[null,\"%d\"]"`, lsn)
	}
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"version":"3.0.5.Final","connector":"postgresql","name":"app","ts_ms":1714000000000,`+
		`"snapshot":"%s","db":"app","sequence":%s,"schema":"public","table":"%s","txId":555,"lsn":%d,"xmin":null},"op":"%s",`+
		`"ts_ms":1714000000142,"transaction":null}`, cmp.Or(before, "null"), cmp.Or(after, "null"), mark, sequence, table, lsn, op)
}

// marked returns an event with another mark in source.snapshot.
func marked(mark, event string) string {
	return regexp.MustCompile(`"snapshot":"[a-z]+"`).ReplaceAllString(event, `"snapshot":"`+mark+`"`)
}

// mysql returns an event of the MySQL connector.
func mysql(op, gtid, file string, pos, row int, before, after string) string { //nolint:revive // as the connector has them
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"version":"3.0.5.Final","connector":"mysql","name":"app","ts_ms":1714000000000,`+
		`"snapshot":"false","db":"shop","sequence":null,"table":"hides","server_id":223344,"gtid":%s,"file":"mysql-bin.%s","pos":%d,`+
		`"row":%d,"thread":7,"query":null},"op":"%s","ts_ms":1714000000142,"transaction":null}`,
		cmp.Or(before, "null"), cmp.Or(after, "null"), gtid, file, pos, row, op)
}

func block(user, target any) string { return blockRow(1, user, target) }

func blockRow(id int, user, target any) string {
	return fmt.Sprintf(`{"id":%d,"blocker_id":%v,"blocked_id":%v,"created_at":"2026-01-02T03:04:05.123456Z"}`, id, user, target)
}

func hide(user, post, ends, gone string) string {
	return fmt.Sprintf(`{"id":1,"user_id":%s,"post_id":%q,"ends":%s,"gone":%s}`, user, post, ends, gone)
}

// withSchema wraps an event as Debezium does if schemas are enabled. kind is the type of a column.
func withSchema(event, column, kind string) string {
	row := func(member string) string {
		return `{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},{"type":"int64","optional":true,"name":"` + kind +
			`","version":1,"field":"` + column + `"}],"optional":true,"name":"app.shop.hides.Value","field":"` + member + `"}`
	}
	return `{"schema":{"type":"struct","fields":[` + row("before") + `,` + row("after") +
		`,{"type":"struct","fields":[{"type":"string","optional":false,"field":"version"}],"optional":false,"field":"source"}],` +
		`"optional":false,"name":"app.shop.hides.Envelope","version":2},"payload":` + event + `}`
}

func recorded(n int) Received { return Received{Recorded: n} }

func replayed(n int) Received { return Received{Replayed: n} }

// TestEvents: each operation of both connectors has its effect, and repeated events have none.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	add := pg("c", "blocks", 100, 110, "", block(1, 2))
	s.want(t, recorded(1), add)
	s.want(t, replayed(1), add)
	s.wantHas(t, "block 1 2")
	change := pg("u", "blocks", 120, 130, block(1, 2), block(1, 3))
	s.want(t, Received{Recorded: 1, Replayed: 1}, add, change)
	s.wantHas(t, "block 1 3")
	s.want(t, replayed(2), add, change)
	s.want(t, recorded(1), pg("d", "blocks", 140, 150, block(1, 3), ""))
	s.wantHas(t)
	// A transaction that began earlier commits: its places are lower. It has three rows in a record.
	rows := []string{pg("c", "blocks", 160, 105, "", blockRow(1, 4, 5)), pg("c", "blocks", 160, 105, "", blockRow(2, 4, 5)), pg("c", "blocks", 160, 105, "", blockRow(3, 4, 6))}
	s.want(t, recorded(2), rows[:2]...)
	s.want(t, replayed(1), rows[1])
	s.want(t, Received{Recorded: 1, Replayed: 2}, rows...)
	s.want(t, recorded(1), pg("d", "blocks", 170, 180, blockRow(1, 4, 5), ""))
	s.wantHas(t, "block 4 5", "block 4 6")
	s.want(t, recorded(2), pg("d", "blocks", 170, 190, blockRow(2, 4, 5), ""), pg("d", "blocks", 170, 200, blockRow(3, 4, 6), ""))
	s.wantHas(t)
	// An update of the primary key is two events at one place.
	s.want(t, recorded(1), pg("c", "list_members", 210, 220, "", `{"list_id":7,"member_id":"3","ok":true,"more":[1]}`))
	s.want(t, recorded(1), pg("d", "list_members", 230, 240, `{"list_id":7,"member_id":"3","ok":true}`, ""))
	s.want(t, Received{Recorded: 1, Replayed: 1}, pg("d", "list_members", 230, 240, `{"list_id":7,"member_id":"3","ok":true}`, ""),
		pg("c", "list_members", 230, 240, "", `{"list_id":8,"member_id":"3","ok":true}`))
	s.wantHas(t, "block list:8 3")
	s.want(t, recorded(1), pg("u", "list_members", 250, 260, `{"list_id":8,"member_id":"3","ok":true}`, `{"list_id":8,"member_id":"3","ok":false}`))
	s.wantHas(t)
	// A value that did not change, and what is no change of a row.
	s.want(t, recorded(1), pg("c", "blocks", 270, 280, "", block(`"x"`, 2)))
	s.want(t, recorded(1), pg("u", "blocks", 270, 290, block(`"x"`, 2), block(`"__debezium_unavailable_value"`, 3)))
	s.wantHas(t, "block x 3")
	s.want(t, recorded(0), "null", `{"ts_ms":1714000000000}`, `{"status":"BEGIN","id":"571:53195829","event_count":null,"ts_ms":1}`,
		`{"schema":null,"payload":null}`, strings.Replace(add, `"op":"c"`, `"op":"m"`, 1), pg("c", "posts", 900, 910, "", `{"id":1}`),
		`{"source":{"file":"mysql-bin.000003","pos":219},"databaseName":"shop","ddl":"CREATE TABLE t (id int)","tableChanges":[]}`)
	s.want(t, recorded(0), "null")
	s.want(t, recorded(1), pg("d", "blocks", 300, 310, block(`"x"`, 3), ""))
	s.wantHas(t)
}

// TestHeartbeats: an event without a change says that the source is followed.
func TestHeartbeats(t *testing.T) {
	s := newSink(t)
	s.want(t, recorded(1), pg("c", "blocks", 100, 110, "", block(1, 2)))
	followed := func() bool { all := Statuses(s.recorder, s.Receiver); return len(all) == 1 && all[0].Followed }
	for range 2 {
		s.want(t, recorded(0), `{"ts_ms":1714000000000}`)
		soon(t, "the source to be followed", followed)
		src, err := s.recorder.Follow(t.Context(), "app", "events", s.mapper.tables.Kinds(), time.Second, false)
		must(t, err)
		must(t, src.Renew(t.Context(), 0, time.Time{})) // as if no event had come for long
		soon(t, "the source not to be followed", func() bool { return !followed() })
	}
}

// TestMySQLEvents: rows of an event share its place, and a failover begins other files.
func TestMySQLEvents(t *testing.T) {
	s := newSink(t)
	const a, b = `"3e11fa47-71ca-11e1-9e33-c80aa9429562:%d"`, `"9f2c0000-71ca-11e1-9e33-c80aa9429562:%d"`
	gtid := func(server string, n int) string { return fmt.Sprintf(server, n) }
	rows := []string{mysql("c", "null", "000003", 484, 0, "", hide("1", "p", "null", "0")), mysql("c", "null", "000003", 484, 1, "", hide("1", "q", "null", "1")),
		mysql("c", "null", "000003", 484, 2, "", hide("1", "r", "null", "0"))}
	s.want(t, recorded(2), rows[:2]...)
	s.want(t, Received{Recorded: 1, Replayed: 1}, rows[1:]...)
	s.wantHas(t, "hide 1 p", "hide 1 r")
	s.refuses(t, CodeSnapshotNeeded, "offset.flush.interval.ms", mysql("c", "null", "000003", 219, 0, "", hide("9", "p", "null", "0")))
	s.want(t, recorded(1), mysql("c", gtid(a, 5), "000004", 219, 0, "", hide("2", "p", "null", "false")))
	s.want(t, recorded(1), mysql("c", gtid(b, 1), "000001", 219, 0, "", hide("3", "p", "null", "0")))
	s.want(t, Received{Recorded: 1, Replayed: 2}, mysql("c", gtid(a, 5), "000001", 119, 0, "", hide("2", "p", "null", "false")),
		mysql("c", gtid(b, 1), "000001", 219, 0, "", hide("3", "p", "null", "0")), mysql("c", gtid(b, 2), "000001", 319, 0, "", hide("4", "p", "null", "0")))
	s.wantHas(t, "hide 1 p", "hide 1 r", "hide 2 p", "hide 3 p", "hide 4 p")
	s.refuses(t, CodeSnapshotNeeded, "of another log", mysql("c", gtid(b, 2), "000009", 4, 1, "", hide("5", "p", "null", "0")))
	s.refuses(t, activity.CodeInvalidPosition, "", mysql("c", `"3e11:x"`, "000009", 4, 1, "", hide("5", "p", "null", "0")))
	s.refuses(t, activity.CodeInvalidPosition, "", mysql("c", "null", "log", 4, 1, "", hide("5", "p", "null", "0")))
}

// TestEventTimes: with a schema and without, the size of a number tells its unit.
func TestEventTimes(t *testing.T) {
	day := time.Date(2090, 5, 6, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	noon := day.Add(12*time.Hour + 1234*time.Millisecond)
	pos := 100
	for _, c := range []struct {
		kind, ends string
		want       time.Time // zero: refused
	}{
		{"", `"` + noon.Format(time.RFC3339Nano) + `"`, noon},
		{"io.debezium.time.ZonedTimestamp", `"` + noon.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano) + `"`, noon},
		{"io.debezium.time.Timestamp", fmt.Sprint(noon.UnixMilli()), noon},
		{"org.apache.kafka.connect.data.Timestamp", fmt.Sprint(noon.UnixMilli()), noon},
		{"io.debezium.time.MicroTimestamp", fmt.Sprint(noon.UnixMicro()), noon},
		{"io.debezium.time.NanoTimestamp", fmt.Sprint(noon.UnixNano()), noon},
		{"io.debezium.time.Date", fmt.Sprint(day.Unix() / 86400), day},
		{"org.apache.kafka.connect.data.Date", fmt.Sprint(day.Unix() / 86400), day},
		{"io.debezium.time.MicroTimestamp", "9223371331200000000", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"io.debezium.time.Timestamp", fmt.Sprint(last.UnixMilli()), last},
		{"", fmt.Sprint(noon.UnixMilli()), noon}, {"", fmt.Sprint(noon.UnixMicro()), noon}, {"", fmt.Sprint(noon.UnixNano()), noon},
		{"", fmt.Sprint(day.Unix() / 86400), day}, {"", fmt.Sprint(noon.Unix()), time.Time{}},
		{"", fmt.Sprint(last.UnixMilli()), last}, {"", fmt.Sprint(last.UnixMicro()), last}, {"", fmt.Sprint(last.Unix() / 86400), last},
		{"io.debezium.time.Year", "2090", time.Time{}}, {"", `"soon"`, time.Time{}}, {"", "1.5", time.Time{}}, {"", "true", time.Time{}},
	} {
		s := newSink(t)
		pos++
		event := mysql("c", "null", "000003", pos, 0, "", hide("1", "p", c.ends, "0"))
		if c.kind != "" {
			event = withSchema(event, "ends", c.kind)
		}
		if c.want.IsZero() {
			s.refuses(t, CodeInvalidRow, "ends", event)
			continue
		}
		s.want(t, recorded(1), event)
		_ = s.recorder.Export(t.Context(), "", func(a activity.Activity) error {
			if c.want.Year() < 10000 && !a.Until.Equal(c.want) || c.want.Year() == 10000 && !a.Until.IsZero() {
				t.Errorf("%s %s: until %v, want %v", c.kind, c.ends, a.Until, c.want)
			}
			return nil
		})
		s.wantHas(t, "hide 1 p")
	}
}

// TestTimeOf: the units meet where no time is.
func TestTimeOf(t *testing.T) {
	first, last := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{first, last} {
		for _, n := range []int64{at.Unix() / 86400, at.UnixMilli(), at.UnixMicro()} {
			if got := timeOf(n); got != at.Format(time.RFC3339Nano) {
				t.Errorf("%d is %s, want %v", n, got, at)
			}
		}
	}
	if got := timeOf(first.UnixNano()); got != first.Format(time.RFC3339Nano) {
		t.Errorf("%d is %s", first.UnixNano(), got)
	}
	for _, n := range []int64{-1, 1, 2155, first.Unix(), last.Unix(), 2147483647} {
		if got := timeOf(n); got != fmt.Sprint(n) {
			t.Errorf("%d is %s", n, got)
		}
	}
}

// TestSnapshotEvents: rows that a snapshot lacks go at its end, however often it starts over.
func TestSnapshotEvents(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s.want(t, recorded(2), pg("c", "blocks", 100, 110, "", block(9, 1)), pg("c", "blocks", 100, 120, "", block(1, 2)))
	read := func(lsn, id int, user, target any) string {
		return pg("r", "blocks", 0, lsn, "", blockRow(id, user, target))
	}
	s.want(t, recorded(2), marked("first", read(500, 1, 1, 2)), read(500, 2, 1, 2))
	s.want(t, recorded(2), marked("first", read(600, 1, 1, 2)), read(600, 2, 1, 2))
	s.want(t, recorded(2), read(600, 2, 1, 2), read(600, 3, 3, 4))
	s.wantHas(t, "block 1 2", "block 3 4", "block 9 1")
	s.want(t, recorded(1), marked("last", read(600, 3, 3, 4)))
	s.wantHas(t, "block 1 2", "block 3 4")
	s.want(t, replayed(2), marked("last", read(600, 3, 3, 4)), read(600, 1, 1, 2))
	s.want(t, recorded(1), pg("d", "blocks", 600, 610, blockRow(1, 1, 2), ""))
	s.wantHas(t, "block 1 2", "block 3 4")
	s.want(t, recorded(1), pg("d", "blocks", 600, 620, blockRow(2, 1, 2), ""))
	s.wantHas(t, "block 3 4")
	s.refuses(t, CodeSnapshotNeeded, "unknown row", pg("d", "blocks", 600, 630, blockRow(2, 1, 2), ""))

	// One row, and a last event that is of a table that nobody follows.
	s.want(t, recorded(1), marked("last", pg("r", "blocks", 0, 700, "", block(5, 6))))
	s.wantHas(t, "block 5 6")
	s.want(t, recorded(1), marked("first", pg("r", "blocks", 0, 800, "", block(7, 8))), marked("last", pg("r", "posts", 0, 800, "", `{"id":1}`)))
	s.wantHas(t, "block 7 8")
	// No last event.
	s.want(t, recorded(2), read(900, 1, 1, 2), pg("c", "blocks", 900, 910, "", block(3, 4)))
	s.wantHas(t, "block 1 2", "block 3 4")
	// MySQL. Rows that have ended, or that are not valid, do not count.
	s.invalid.skip = true
	s.want(t, Received{Recorded: 2, Skipped: 1}, marked("true", mysql("r", "null", "000001", 4, 0, "", hide("1", "p", "1600000000000", "0"))),
		marked("true", mysql("r", "null", "000001", 4, 0, "", hide("1", "", "null", "0"))), marked("last", mysql("r", "null", "000001", 4, 0, "", hide("1", "q", "null", "0"))))
	s.wantHas(t, "hide 1 q")
	if n := s.Stats().Snapshots; n != 5 {
		t.Errorf("%d snapshots, want 5", n)
	}
}

// TestIncrementalEvents: an incremental snapshot adds what is not there.
func TestIncrementalEvents(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	read := func(id, user int) string {
		return marked("incremental", pg("r", "blocks", 0, 100, "", blockRow(id, user, 2)))
	}
	s.want(t, recorded(1), pg("c", "blocks", 100, 110, "", blockRow(1, 1, 2)))
	s.want(t, Received{Recorded: 2, Replayed: 1}, read(1, 1), read(2, 3), read(2, 3))
	s.wantHas(t, "block 1 2", "block 3 2")
	s.want(t, recorded(2), pg("d", "blocks", 120, 130, blockRow(1, 1, 2), ""), pg("d", "blocks", 120, 140, blockRow(2, 3, 2), ""))
	s.wantHas(t)
	s.want(t, replayed(2), read(1, 1), read(2, 3)) // late: it undoes no undo
	s.wantHas(t)
}

// TestSweepIsRepeated: a snapshot whose end was interrupted ends again.
func TestSweepIsRepeated(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s.want(t, recorded(2), pg("c", "blocks", 100, 110, "", block(9, 1)), pg("c", "blocks", 100, 120, "", block(8, 1)))
	last := marked("last", pg("r", "blocks", 0, 200, "", block(1, 2)))
	s.want(t, recorded(1), marked("true", last))
	src, err := s.recorder.Follow(t.Context(), "app", "events", s.mapper.tables.Kinds(), time.Hour, false)
	must(t, err)
	i := newDelivery(s.Receiver, src)
	for range 2 {
		must(t, i.sweep(t.Context(), s.mapper.tables.Kinds(), activity.SourceChange{Reading: true}))
		s.wantHas(t, "block 1 2")
	}
	s.want(t, recorded(1), last)
	s.wantHas(t, "block 1 2")
	s.want(t, recorded(1), pg("d", "blocks", 200, 210, block(1, 2), ""))
	s.wantHas(t)
}

// TestTruncateEvents: a table that alone gives its kind ends whole.
func TestTruncateEvents(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s.want(t, recorded(1), pg("c", "blocks", 100, 110, "", block(1, 2)))
	s.refuses(t, CodeSnapshotNeeded, "blocks was truncated", pg("t", "blocks", 200, 210, "", ""))
	s.refuses(t, CodeSnapshotNeeded, "another kind of database", mysql("c", "null", "000101", 4, 0, "", hide("1", "p", "null", "0")))

	s = newSink(t)
	s.want(t, recorded(1), mysql("c", "null", "000101", 4, 0, "", hide("1", "p", "null", "0")))
	truncate := mysql("t", "null", "000201", 4, 0, "", "")
	s.want(t, recorded(3), mysql("c", "null", "000200", 4, 0, "", hide("2", "p", "null", "0")), truncate,
		mysql("c", "null", "000201", 5, 0, "", hide("3", "p", "null", "0")))
	s.wantHas(t, "hide 3 p")
	s.want(t, replayed(1), truncate)
	s.wantHas(t, "hide 3 p")
}

// TestRefusedEvents: what cannot be recorded is refused whole, with a sentence.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s.want(t, recorded(1), pg("c", "blocks", 100, 110, "", block(1, 2)))
	good := pg("c", "blocks", 120, 130, "", block(3, 4))
	full := "REPLICA IDENTITY FULL, or binlog_row_image=FULL"
	for _, c := range []struct{ code, sentence, event string }{
		{CodeIncompleteRow, full, pg("u", "blocks", 140, 150, "", block(1, 3))},
		{CodeIncompleteRow, full, pg("d", "blocks", 140, 150, "", "")},
		{CodeIncompleteRow, full, pg("d", "blocks", 140, 150, `{"id":1}`, "")},
		{CodeIncompleteRow, `value of column "created_at" is missing`, pg("u", "blocks", 140, 150, `{"blocker_id":1,"blocked_id":2}`, block(1, 3))},
		{CodeIncompleteRow, full, pg("d", "blocks", 140, 150, block(0, 0), "")},
		{CodeIncompleteRow, full, pg("d", "blocks", 140, 150, block(1, `"__debezium_unavailable_value"`), "")},
		{CodeIncompleteRow, "after is missing", pg("c", "blocks", 140, 150, "", "")},
		{CodeIncompleteRow, "after is missing", pg("u", "blocks", 140, 150, block(1, 2), "[]")},
		{CodeIncompleteRow, `"blocked_id"`, pg("c", "blocks", 140, 150, "", block(1, `"__debezium_unavailable_value"`))},
		{CodeInvalidRow, "blocked_id", pg("c", "blocks", 140, 150, "", block(1, `{"scale":1}`))},
		{CodeInvalidRow, `blocker_id="5"`, pg("c", "blocks", 140, 150, "", block(5, 5))},
		{CodeInvalidRow, `blocks`, pg("c", "blocks", 140, 150, "", block(5, `""`))},
		{activity.CodeInvalidPosition, "neither lsn nor file", strings.Replace(good, `"lsn"`, `"scn"`, 1)},
		{activity.CodeInvalidPosition, "Debezium 2", strings.Replace(good, `"sequence"`, `"order"`, 1)},
		{activity.CodeInvalidPosition, "Debezium 2", strings.Replace(good, `\"120\",`, ``, 1)},
		{activity.CodeInvalidPosition, "source: ", strings.Replace(good, `\"120\"`, `\"x\"`, 1)},
		{"unknown_op", `"x"`, strings.Replace(good, `"op":"c"`, `"op":"x"`, 1)},
	} {
		s.refuses(t, c.code, c.sentence, good, c.event)
	}
	_, err := s.send(t, good, "null", pg("c", "blocks", 140, 150, "", ""))
	if bad, _ := errors.AsType[*activity.InvalidError](err); bad == nil || bad.Field != "2" {
		t.Errorf("the third event: %+v", err)
	}

	s.invalid.skip = true
	invalid := pg("c", "blocks", 140, 150, "", block(5, 5))
	s.want(t, Received{Recorded: 1, Skipped: 1}, good, invalid)
	s.want(t, replayed(1), invalid)
	s.want(t, recorded(1), pg("u", "blocks", 140, 160, block(5, 5), block(5, 6)))
	s.want(t, Received{Skipped: 1}, pg("u", "blocks", 140, 170, block(5, 6), block(5, `""`)))
	s.wantHas(t, "block 1 2", "block 3 4")
	if n := s.Stats().Changes["blocks"]["skipped"]; n != 2 {
		t.Errorf("%d rows skipped, want 2", n)
	}
	s.refuses(t, CodeIncompleteRow, full, pg("d", "blocks", 180, 190, block(1, `"__debezium_unavailable_value"`), ""))
}

// TestNumbersOfEvents: an id is a whole number as databases print it. Others have several texts for
// one number, and each would be an id of its own.
func TestNumbersOfEvents(t *testing.T) {
	s := newSink(t)
	whole := []string{"0", "15", "-7", "9223372036854775807", "18446744073709551615", "123456789012345678901234567890"}
	var want []string
	for n, id := range whole {
		s.want(t, recorded(1), pg("c", "blocks", 100+n, 110+n, "", blockRow(n, `"u"`, id)))
		want = append(want, "block u "+id)
	}
	slices.Sort(want)
	s.wantHas(t, want...)
	const sentence = "an id is a whole number such as 15, or a string"
	others := []string{"1.5", "1.0", "1e3", "1E3", "1e400", "1e-400", "-0", "-0.0", "15.0", "true", "false"}
	for _, id := range others {
		for _, event := range []string{
			pg("c", "blocks", 200, 210, "", block(1, id)),
			pg("c", "blocks", 200, 210, "", block(id, 1)),
			pg("c", "list_members", 200, 210, "", `{"list_id":`+id+`,"member_id":1,"ok":true}`),
			pg("u", "blocks", 200, 210, block(`"u"`, 15), block(1, id)),
		} {
			s.refuses(t, CodeInvalidRow, sentence, event)
		}
		s.refuses(t, CodeIncompleteRow, sentence, pg("d", "blocks", 200, 210, block(1, id), ""))
		s.refuses(t, CodeIncompleteRow, sentence, pg("u", "blocks", 200, 210, block(1, id), block(1, 2)))
	}
	s.invalid.skip = true
	for n, id := range others { // a row that becomes invalid ends, and one that becomes valid begins
		at := 300 + 10*n
		s.want(t, recorded(1), pg("c", "blocks", at, at+1, "", block(`"v"`, n)))
		s.want(t, Received{Skipped: 1}, pg("u", "blocks", at, at+2, block(`"v"`, n), block(`"v"`, id)))
		s.wantHas(t, want...)
		s.want(t, recorded(1), pg("u", "blocks", at, at+3, block(`"v"`, id), block(`"v"`, n)))
		s.wantHas(t, slices.Sorted(slices.Values(append(slices.Clone(want), fmt.Sprint("block v ", n))))...)
		s.want(t, recorded(1), pg("d", "blocks", at, at+4, block(`"v"`, n), ""))
	}
	s.wantHas(t, want...)
}

// TestEventsOfOtherTables: after a change of the file of tables, a snapshot is needed.
func TestEventsOfOtherTables(t *testing.T) {
	s := newSink(t)
	s.want(t, recorded(1), pg("c", "blocks", 100, 110, "", block(1, 2)))
	other := newSinkOf(t, s.recorder, s.ledger, strings.Replace(eventTables, `, "since": "created_at"`, ``, 1))
	next := pg("c", "blocks", 120, 130, "", block(3, 4))
	other.refuses(t, CodeSnapshotNeeded, "file of tables", next)
	other.want(t, recorded(0), "null")
	other.want(t, recorded(2), marked("last", pg("r", "blocks", 0, 125, "", block(1, 5))), next)
	other.wantHas(t, "block 1 5", "block 3 4")
	s.refuses(t, CodeSnapshotNeeded, "file of tables", pg("c", "blocks", 140, 150, "", block(5, 6)))

	src, err := s.recorder.Follow(t.Context(), "app", "events", s.mapper.tables.Kinds(), 0, false)
	must(t, err)
	must(t, src.Record(t.Context(), "0/16B3748 1f2e3d4c", nil)) // as the follower of PostgreSQL has it
	s.refuses(t, CodeSnapshotNeeded, "of this version", pg("c", "blocks", 140, 150, "", block(5, 6)))
	taken := newSinkOf(t, s.recorder, s.ledger, `{"tables": [{"table": "x", "kind": "block", "user": "a", "target": "b"}]}`)
	taken.name = "second"
	if _, err := taken.send(t, next); !errors.As(err, new(*activity.InvalidError)) || !strings.Contains(err.Error(), "is followed") {
		t.Errorf("a kind of another source: %v", err)
	}
}

// TestEventsInOrder: random rows, snapshots that start over and events that are repeated. In the
// end the ledger has what the rows give.
func TestEventsInOrder(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	lsn := 1000
	rapid.Check(t, func(rt *rapid.T) {
		rows := make(map[int]string)
		row := func(id int) string {
			return blockRow(id, rapid.IntRange(1, 2).Draw(rt, "user"), rapid.IntRange(3, 4).Draw(rt, "target"))
		}
		deliver := func(events []string) { // from any event on again, in any groups
			for done := 0; done < len(events); {
				from := rapid.IntRange(0, done).Draw(rt, "from")
				to := rapid.IntRange(max(from+1, done), len(events)).Draw(rt, "to")
				_, err := s.send(rt, events[from:to]...)
				sound(rt, err)
				done = max(done, to)
			}
		}
		var kept []string // of the log
		change := func() string {
			lsn += 10
			id := rapid.IntRange(1, 5).Draw(rt, "id")
			had, found := rows[id]
			switch {
			case !found:
				rows[id] = row(id)
				return pg("c", "blocks", lsn-5, lsn, "", rows[id])
			case rapid.Bool().Draw(rt, "deletes"):
				delete(rows, id)
				return pg("d", "blocks", lsn-5, lsn, had, "")
			default:
				rows[id] = row(id)
				return pg("u", "blocks", lsn-5, lsn, had, rows[id])
			}
		}
		for range rapid.IntRange(1, 3).Draw(rt, "snapshots") {
			for range rapid.IntRange(0, 3).Draw(rt, "missed") {
				change()
			}
			for whole := false; !whole; {
				lsn += rapid.SampledFrom([]int{0, 10}).Draw(rt, "moves")
				var events []string
				for _, id := range slices.Sorted(maps.Keys(rows)) {
					events = append(events, pg("r", "blocks", 0, lsn, "", rows[id]))
				}
				events = append(events, pg("r", "posts", 0, lsn, "", `{"id":1}`))
				if whole = rapid.Bool().Draw(rt, "whole"); !whole {
					events = events[:rapid.IntRange(1, len(events)).Draw(rt, "interrupted")]
				} else if rapid.Bool().Draw(rt, "last") {
					events[len(events)-1] = marked("last", events[len(events)-1])
				}
				deliver(events)
			}
			kept = nil
			for range rapid.IntRange(1, 5).Draw(rt, "changes") {
				kept = append(kept, change())
			}
			deliver(kept)
			want := make(map[string]bool)
			for _, r := range rows {
				var v struct {
					User   int `json:"blocker_id"`
					Target int `json:"blocked_id"`
				}
				sound(rt, json.Unmarshal([]byte(r), &v))
				want[fmt.Sprintf("block %d %d", v.User, v.Target)] = true
			}
			if got := s.has(rt); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
				rt.Fatalf("has %q, want %v of %v; position %s", got, want, rows, s.position(rt))
			}
		}
	})
}
