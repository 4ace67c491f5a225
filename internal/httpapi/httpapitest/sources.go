package httpapitest

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// The route of events, and its path for the source of [Receiving].
const (
	SendEvents = "POST /v1/sources/{name}/events"
	EventsPath = "/v1/sources/app/events"
)

// Receiving returns a handler of s that takes events of a table of blocks.
func Receiving(t testing.TB, activities activity.Activities, c httpapi.Config) *httpapi.Handler {
	t.Helper()
	tables, err := follow.ParseTables([]byte(`{"tables": [{"table": "blocks", "kind": "block", "user": "blocker_id", "target": "blocked_id"}]}`), activities.Kinds())
	Must(t, err)
	recorder, _ := activities.(*activity.Recorder)
	c.Activities = activities
	c.Events = follow.NewReceiver(recorder, follow.Options{Name: "app", Tables: tables, Log: slog.New(slog.DiscardHandler)})
	return httpapi.New(c)
}

// EventAt returns an event of PostgreSQL: user 1 blocks a target, or (op d) no longer does.
func EventAt(op string, lsn, target int) string {
	row, none := fmt.Sprintf(`{"id":%d,"blocker_id":1,"blocked_id":%d}`, target, target), "null"
	if op == "d" {
		row, none = none, row
	}
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"connector":"postgresql","ts_ms":1714000000000,"snapshot":"false","schema":"public",`+
		`"table":"blocks","lsn":%d,"sequence":"[\"%d\",\"%d\"]"},"op":"%s","ts_ms":1714000000142,"transaction":null}`, none, row, lsn, lsn-1, lsn, op)
}
