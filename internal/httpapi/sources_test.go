package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

const (
	sendEvents = "POST /v1/sources/{name}/events"
	eventsPath = "/v1/sources/app/events"
)

// receiving returns a handler of s that takes events of a table of blocks.
func receiving(t testing.TB, activities activity.Activities, c httpapi.Config) *httpapi.Handler {
	t.Helper()
	tables, err := follow.ParseTables([]byte(`{"tables": [{"table": "blocks", "kind": "block", "user": "blocker_id", "target": "blocked_id"}]}`), activities.Kinds())
	must(t, err)
	recorder, _ := activities.(*activity.Recorder)
	c.Activities = activities
	c.Events = follow.NewReceiver(recorder, follow.Options{Name: "app", Tables: tables, Log: slog.New(slog.DiscardHandler)})
	return httpapi.New(c)
}

// eventAt returns an event of PostgreSQL: user 1 blocks a target, or (op d) no longer does.
func eventAt(op string, lsn, target int) string {
	row, none := fmt.Sprintf(`{"id":%d,"blocker_id":1,"blocked_id":%d}`, target, target), "null"
	if op == "d" {
		row, none = none, row
	}
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"connector":"postgresql","ts_ms":1714000000000,"snapshot":"false","schema":"public",`+
		`"table":"blocks","lsn":%d,"sequence":"[\"%d\",\"%d\"]"},"op":"%s","ts_ms":1714000000142,"transaction":null}`, none, row, lsn, lsn-1, lsn, op)
}

// TestEventsAreSent: feeds of all processes have what events say, whichever process took them, and
// however often two took the same ones at once.
func TestEventsAreSent(t *testing.T) {
	for name, open := range map[string]func() string{
		"sqlite": func() string { return "sqlite:" + t.TempDir() + "/ledger.db" }, "postgres": func() string { return pgtest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			store, url := &favfilter.Memory{}, open()
			var all []*service
			var shared *ledger.Ledger
			for range 2 {
				l := shared
				if l == nil || name == "postgres" {
					var err error
					l, err = ledger.Open(t.Context(), url, ledger.Options{Pages: 4})
					must(t, err)
					t.Cleanup(func() { _ = l.Close() })
				}
				shared = l
				r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: store})
				must(t, err)
				t.Cleanup(r.Close)
				all = append(all, &service{Handler: receiving(t, r, httpapi.Config{}), activities: r})
			}
			var sending sync.WaitGroup
			for _, s := range all {
				sending.Go(func() {
					for n := range 40 {
						op, target := "c", n
						if n%4 == 3 {
							op, target = "d", n-1
						}
						for {
							a := s.do(t, "POST", eventsPath, eventAt(op, 100+n, target+10))
							if a.Status == 200 {
								break
							}
							if a.Status != 503 || a.Header.Get("Retry-After") == "" {
								t.Errorf("event %d: %d %s", n, a.Status, a.Body)
								return
							}
						}
					}
				})
			}
			sending.Wait()
			var posts, left []string
			for n := range 40 {
				posts = append(posts, fmt.Sprintf(`{"id":"p%d","author":"%d"}`, n, n+10))
				if n%4 > 1 {
					left = append(left, fmt.Sprintf(`{"id":"p%d"}`, n))
				}
			}
			for _, s := range all {
				a := s.do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[`+strings.Join(posts, ",")+`],"answer":"kept"}`)
				if !strings.HasPrefix(a.Body, `{"posts":[`+strings.Join(left, ",")+`]`) {
					t.Errorf("feed: %d %s", a.Status, a.Body)
				}
			}
			all[0].want(t, "POST", eventsPath, "["+eventAt("c", 139, 10)+","+eventAt("d", 139, 48)+"]", 200, `{"recorded":1,"replayed":1,"skipped":0}`)
			read := strings.Replace(eventAt("r", 200, 11), `"false"`, `"last"`, 1)
			all[1].want(t, "POST", eventsPath, read, 200, `{"recorded":1,"replayed":0,"skipped":0}`)
			all[0].want(t, "POST", eventsPath, read, 200, `{"recorded":0,"replayed":1,"skipped":0}`)
			for _, s := range all {
				s.want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[`+posts[0]+","+posts[1]+`]}`, 200,
					`{"posts":[{"id":"p0"}],"dropped":[{"id":"p1","kind":"block","actor":"11"}],"degraded":[]}`)
			}
			if a := all[1].do(t, "PUT", "/v1/users/1/blocks/2", ""); a.Status != 409 || a.Code != "followed" {
				t.Errorf("another writes the kind: %d %s", a.Status, a.Body)
			}
		})
	}
}

// TestEventBodies: an envelope may have unknown members, but none twice.
func TestEventBodies(t *testing.T) {
	s := open(t)
	s.Handler = receiving(t, s.activities, httpapi.Config{})
	good := eventAt("c", 100, 2)
	s.want(t, "POST", eventsPath, good[:len(good)-1]+`,"more":{"a":[null]}}`, 200, `{"recorded":1,"replayed":0,"skipped":0}`)
	s.want(t, "POST", eventsPath, `{"schema":{"type":"struct"},"payload":`+good+`}`, 200, `{"recorded":0,"replayed":1,"skipped":0}`)
	s.want(t, "POST", eventsPath, `[]`, 200, `{"recorded":0,"replayed":0,"skipped":0}`)
	s.want(t, "POST", eventsPath, `null`, 200, `{"recorded":0,"replayed":0,"skipped":0}`)
	s.want(t, "POST", eventsPath, "["+repeated(1000, "null")+"]", 200, `{"recorded":0,"replayed":0,"skipped":0}`)
	for _, c := range []struct {
		body, code, field string
	}{
		{good[:len(good)-1] + `,"op":"d"}`, "duplicate_key", "op"},
		{strings.Replace(good, `"id":2`, `"id":2,"id":2`, 1), "duplicate_key", "after.id"},
		{strings.Replace(good, `"connector"`, `"table":"x","connector"`, 1), "duplicate_key", "source.table"},
		{strings.Replace(good, "postgresql", "\xff", 1), "malformed_json", "source.connector"},
		{strings.Replace(good, `"lsn":100`, `"lsn":"0/64"`, 1), "invalid_type", "source.lsn"},
		{strings.Replace(good, `"op":"c"`, `"op":1`, 1), "invalid_type", "op"},
		{`"c"`, "invalid_type", ""}, {`[1]`, "invalid_type", "0"}, {`[` + good, "malformed_json", ""}, {good + good, "malformed_json", ""},
		{"[" + repeated(1001, "{}") + "]", "out_of_range", ""},
	} {
		if a := s.do(t, "POST", eventsPath, c.body); a.Status != 400 || a.Code != c.code || a.Field != c.field {
			t.Errorf("%.300s: %d %s, want %s of %q", c.body, a.Status, a.Body, c.code, c.field)
		}
	}
	if a := s.do(t, "POST", eventsPath, "["+good+","+eventAt("d", 101, 3)+"]"); a.Status != 422 || a.Code != "snapshot_needed" {
		t.Errorf("an unknown row: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "POST", "/v1/sources/other/events", good); a.Status != 404 || a.Code != "not_found" {
		t.Errorf("another source: %d %s", a.Status, a.Body)
	}
	if a := open(t).do(t, "POST", eventsPath, good); a.Status != 404 || a.Code != "not_found" {
		t.Errorf("without a source: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "POST", eventsPath, good, "Content-Type", "application/cloudevents+json"); a.Status != 415 {
		t.Errorf("another type: %d %s", a.Status, a.Body)
	}
	s.ledger.set(failing)
	if a := s.do(t, "POST", eventsPath, eventAt("c", 200, 5)); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestForeignEvents: what is no message of Debezium is refused by name, wherever it is in a
// request, and none of the request is recorded. The sender would drop what is answered 200.
func TestForeignEvents(t *testing.T) {
	s := open(t)
	s.Handler = receiving(t, s.activities, httpapi.Config{})
	good := eventAt("c", 100, 2)
	cloud := `{"specversion":"1.0","id":"name:app;lsn:100","source":{"x":1},"type":"io.debezium.postgresql.datachangeevent","data":` + good + `}`
	for body, sentence := range map[string]string{
		`{}`: "an object without the members of an event", `{"payload":{}}`: "an object without the members of an event",
		`{"schema":{"type":"struct"}}`:                               `with the members \"schema\"`,
		`{"payload":{"payload":` + good + `}}`:                       "an object without the members of an event",
		`{"id":2,"blocker_id":1,"blocked_id":2}`:                     `with the members \"blocked_id, blocker_id, id\"`,
		`{"blocker_id":1,"blocked_id":2,"__deleted":"false"}`:        "ExtractNewRecordState",
		`{"blocker_id":1,"__op":"c","__source_lsn":100}`:             "ExtractNewRecordState",
		`{"schema":{},"payload":{"blocker_id":1,"__deleted":"f"}}`:   "ExtractNewRecordState",
		`{"event":"block.created","data":{"blocker":1}}`:             `with the members \"data, event\"`,
		`{"database":"app","table":"blocks","type":"insert","ts":1}`: "Maxwell",
		`{"data":[{"blocker_id":"1"}],"database":"app","es":1,"id":1,"isDdl":false,"table":"blocks","ts":1,"type":"INSERT"}`: "Canal",
		`{"type":"RECORD","stream":"blocks","record":{"blocker_id":1},"time_extracted":"2026-01-01T00:00:00Z"}`:              "Singer or Airbyte",
		`{"type":"RECORD","record":{"stream":"blocks","data":{"blocker_id":1},"emitted_at":1}}`:                              "Singer or Airbyte",
		`{"type":"STATE","value":{"bookmarks":{}}}`:                                                                          "Singer or Airbyte",
		`{"data":{"blocker_id":1},"metadata":{"operation":"insert","schema-name":"public","table-name":"blocks"}}`:           "AWS DMS",
		strings.Replace(cloud, `"source":{"x":1},`, ``, 1):                                                                   "CloudEvent",
		cloud: "CloudEvent", `{"status":"BEGIN"}`: `with the members \"status\"`, `{"status":"active","id":"7"}`: "members",
		`{"ts_ms":"2026-01-01"}`: "members", `{"ts_ms":1,"user":2}`: "members", `{"before":null,"after":{"blocker_id":1}}`: "without the members",
		`{"ddl":"DROP TABLE blocks","ts_ms":1}`: "members",
	} {
		for _, all := range []string{body, "[" + good + "," + body + "]", "[" + body + "," + good + "]"} {
			if a := s.do(t, "POST", eventsPath, all); a.Status != 422 || a.Code != "unknown_event" || !strings.Contains(a.Body, sentence) {
				t.Errorf("%s: %d %s, want unknown_event with %q", all, a.Status, a.Body, sentence)
			}
		}
	}
	if a := s.do(t, "POST", eventsPath, "["+good+`,{"op":"i","after":{}}]`); a.Status != 422 || a.Code != "unknown_op" {
		t.Errorf("another op: %d %s", a.Status, a.Body)
	}
	for _, other := range []string{
		`{"ts_ms":1714000000000}`, `{"ts_ms":1714000000000,"ts_us":1714000000000000,"ts_ns":1714000000000000000}`,
		`null`, `{"schema":null,"payload":null}`, `{"schema":{"type":"struct"},"payload":{"ts_ms":1}}`,
		`{"status":"BEGIN","id":"571:53195829","event_count":null,"data_collections":null,"ts_ms":1}`,
		`{"status":"END","id":"571:53195829","event_count":2,"data_collections":[{"data_collection":"public.blocks","event_count":2}],"ts_ms":1}`,
		`{"source":{"file":"mysql-bin.000003","pos":219},"ts_ms":1,"databaseName":"shop","schemaName":null,"ddl":"CREATE TABLE t (id int)","tableChanges":[]}`,
		`{"op":"m","ts_ms":1,"source":{"lsn":7},"message":{"prefix":"x","content":"eA=="}}`,
	} {
		s.want(t, "POST", eventsPath, other, 200, `{"recorded":0,"replayed":0,"skipped":0}`)
	}
	s.want(t, "POST", eventsPath, good, 200, `{"recorded":1,"replayed":0,"skipped":0}`) // nothing was recorded before
}

// binlogAt returns an event of MySQL: user 1 blocks a target, or (op d) no longer does.
func binlogAt(op, gtid string, file, pos, target int) string {
	row, none := fmt.Sprintf(`{"id":%d,"blocker_id":1,"blocked_id":%d}`, target, target), "null"
	if op == "d" {
		row, none = none, row
	}
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"connector":"mysql","ts_ms":1714000000000,"snapshot":"false","db":"public",`+
		`"table":"blocks","file":"bin.%06d","pos":%d,"row":0,"gtid":%s},"op":"%s"}`, none, row, file, pos, gtid, op)
}

// TestPlacesOfEvents: an event at a place that is not later is new, a repeat, or refused with a
// sentence. None is answered 200 and lost.
func TestPlacesOfEvents(t *testing.T) {
	const group = `"aaaaaaaa-0000-11ee-8000-000000000000:%d"`
	member := func(number, target int) string { return binlogAt("c", fmt.Sprintf(group, number), 1, number, target) }
	const later = "offset.flush.interval.ms"
	for name, steps := range map[string][]struct{ body, want string }{
		"compressed": {
			{"[" + binlogAt("c", fmt.Sprintf(group, 5), 1, 4, 2) + "," + binlogAt("c", fmt.Sprintf(group, 5), 1, 4, 3) + "," + binlogAt("c", fmt.Sprintf(group, 5), 1, 4, 4) + "]", `"recorded":3`},
			{"[" + binlogAt("c", fmt.Sprintf(group, 5), 1, 4, 2) + "," + binlogAt("c", fmt.Sprintf(group, 5), 1, 4, 3) + "]", `"replayed":2`},
			{binlogAt("d", fmt.Sprintf(group, 5), 1, 4, 3), `"recorded":1`}, {binlogAt("c", fmt.Sprintf(group, 5), 1, 4, 3), "provide.transaction.metadata=true"},
		},
		"group":             {{member(1_000_007, 2), `"recorded":1`}, {member(4, 3), `"recorded":1`}, {member(1_000_008, 4), `"recorded":1`}, {member(4, 3), `"replayed":1`}},
		"reset":             {{binlogAt("c", "null", 7, 500, 2), `"recorded":1`}, {binlogAt("c", "null", 1, 157, 3), later}, {binlogAt("c", "null", 7, 500, 2), `"replayed":1`}},
		"reset with GTIDs":  {{member(1, 2), `"recorded":1`}, {member(2, 3), `"recorded":1`}, {member(1, 4), later}},
		"PostgreSQL":        {{eventAt("c", 5000, 2), `"recorded":1`}, {eventAt("c", 100, 3), later}, {eventAt("c", 5000, 2), `"replayed":1`}},
		"far in the future": {{eventAt("c", 5000, 2), `"recorded":1`}, {eventAt("c", 9_000_000_000_000_000, 3), "no log grows as fast"}, {eventAt("c", 5100, 4), `"recorded":1`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.Handler = receiving(t, s.activities, httpapi.Config{})
			for n, step := range steps {
				a := s.do(t, "POST", eventsPath, step.body)
				if refused := !strings.Contains(step.want, `"re`); !strings.Contains(a.Body, step.want) || a.Status != map[bool]int{false: 200, true: 422}[refused] {
					t.Errorf("request %d: %d %s, want %s", n, a.Status, a.Body, step.want)
				}
			}
		})
	}
}

// TestLongEvents: rows with columns that nobody needs are taken, and a body that is too long says
// which settings make it shorter.
func TestLongEvents(t *testing.T) {
	s := open(t)
	s.Handler = receiving(t, s.activities, httpapi.Config{})
	wide := func(lsn, target, length int) string {
		return strings.Replace(eventAt("c", lsn, target), `{"id":`, `{"text":"`+strings.Repeat("x", length)+`","id":`, 1)
	}
	s.want(t, "POST", eventsPath, wide(100, 2, 3<<20), 200, `{"recorded":1,"replayed":0,"skipped":0}`)
	var many []string
	for n := range 1000 {
		many = append(many, wide(200+n, 10+n, 10_000))
	}
	s.want(t, "POST", eventsPath, "["+strings.Join(many, ",")+"]", 200, `{"recorded":1000,"replayed":0,"skipped":0}`)
	a := s.do(t, "POST", eventsPath, wide(9000, 2, 16<<20))
	if a.Status != 413 || a.Code != "too_large" || !strings.Contains(a.Body, "16777216 bytes") || !strings.Contains(a.Body, "column.include.list") {
		t.Errorf("a body of more than 16 MiB: %d %s", a.Status, a.Body)
	}
	a = s.do(t, "POST", eventsPath, "["+repeated(1001, "{}")+"]")
	if a.Status != 400 || a.Code != "out_of_range" || !strings.Contains(a.Body, "send fewer events") {
		t.Errorf("1,001 events: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "POST", "/v1/activities", strings.Repeat(" ", 2<<20)); a.Status != 413 || strings.Contains(a.Body, "debezium") {
		t.Errorf("another body of 2 MiB: %d %s", a.Status, a.Body)
	}
}

// TestEventsAreAudited: a line has the number of events.
func TestEventsAreAudited(t *testing.T) {
	a := audited(t, nil)
	a.Handler = receiving(t, a.activities, httpapi.Config{Access: limits.Access{Tokens: a.tokens, IDs: a.ids,
		Audit: access.NewAudit(a.out, access.AuditRefuse, slog.New(slog.DiscardHandler))}})
	a.do(t, "POST", eventsPath, "["+eventAt("c", 100, 2)+","+eventAt("c", 101, 3)+"]", as("source")...)
	lines := a.take(t)
	if len(lines) != 1 || lines[0]["op"] != "follow" || lines[0]["changed"] != 2.0 || lines[0]["token"] != "source" {
		t.Errorf("audit: %v", lines)
	}
}

// FuzzEvents: no body makes the service fail, or is taken although it has a name twice.
func FuzzEvents(f *testing.F) {
	s := open(f)
	s.Handler = receiving(f, s.activities, httpapi.Config{})
	for _, op := range []string{"c", "u", "d", "t"} {
		f.Add([]byte(eventAt(op, 100, 2)))
	}
	read := strings.Replace(eventAt("r", 100, 2), `"false"`, `"last"`, 1)
	mysql := `{"after":{"blocker_id":1,"blocked_id":"x"},"op":"c","source":{"db":"public","table":"blocks","file":"b.1","pos":4,"gtid":"a:1"}}`
	f.Add([]byte("[" + read + "," + mysql + "]"))
	f.Add([]byte(`[null,{"schema":{"fields":[{"field":"after","fields":[{"field":"x","name":"y"}]}]},"payload":{"op":"m"}},{"payload":{"payload":{}}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			t.Skip("a request without a body")
		}
		_, a := ask(t, s.Handler, "POST", eventsPath, string(body))
		if a.Status != http.StatusOK {
			if !slices.Contains([]int{400, 413, 422}, a.Status) {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			return
		}
		var events any
		if !utf8.Valid(body) || json.Unmarshal(body, &events) != nil {
			t.Fatalf("taken: %q", body)
		}
		all, isList := events.([]any)
		if !isList {
			all = []any{events}
		}
		if n := a.JSON["recorded"].(float64) + a.JSON["replayed"].(float64) + a.JSON["skipped"].(float64); int(n) > len(all) {
			t.Fatalf("%v of %d events", n, len(all))
		}
	})
}
