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
	c.Events = follow.NewReceiver(follow.New(recorder, follow.Options{Name: "app", Tables: tables, Log: slog.New(slog.DiscardHandler)}))
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

// TestEventsAreAudited: a line has the number of events.
func TestEventsAreAudited(t *testing.T) {
	a := audited(t, nil)
	a.Handler = receiving(t, a.activities, httpapi.Config{Access: httpapi.Access{Tokens: a.tokens, IDs: a.ids,
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
