package rest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// TestSinceInBatch: lines of a batch may have a beginning, so one service can import what another
// has exported.
func TestSinceInBatch(t *testing.T) {
	s := httpapitest.Open(t)
	const exported = `{"user":"1","kind":"hide","target":"p","op":"add","since":"2026-01-02T03:04:05.000001Z"}`
	s.Do(t, "POST", "/v1/activities", `{"activities":[`+exported+`]}`)
	if got := s.Do(t, "GET", "/v1/users/1/export", "").Body; strings.TrimSpace(got) != exported {
		t.Errorf("after import, the export is %s, want %s", got, exported)
	}
	// One in the future is an error of its activity alone.
	s.Want(t, "POST", "/v1/activities", `{"activities":[`+strings.Replace(exported, "2026", "2100", 1)+`,`+httpapitest.ActivityLine("2", "hide", "p", "add")+`]}`,
		200, `{"results":[{"error":{"code":"out_of_range","message":"in the future","field":"since"}},`+httpapitest.Yes+`]}`)
	// An existing activity keeps its beginning.
	s.Do(t, "POST", "/v1/activities", `{"activities":[`+strings.Replace(exported, "2026", "2025", 1)+`]}`)
	if got := s.Do(t, "GET", "/v1/users/1/export", "").Body; strings.TrimSpace(got) != exported {
		t.Errorf("after a second import, the export is %s, want %s", got, exported)
	}
}

// wantHistory asserts that a feed of the user drops the post recent and keeps the post old, and
// that it keeps both after the window of recent.
func wantHistory(t *testing.T, s *httpapitest.Service, user string) {
	t.Helper()
	feed := `{"viewer":"` + user + `","posts":[{"id":"old","author":"a"},{"id":"recent","author":"a"}]}`
	s.Want(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[{"id":"old"}],"dropped":[{"id":"recent","kind":"seen"}],"degraded":[]}`)
	s.Ahead.Store(int64(httpapitest.SightedLongAgo - httpapitest.SightedRecently))
	defer s.Ahead.Store(0)
	s.Want(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[{"id":"old"},{"id":"recent"}],"dropped":[],"degraded":[]}`)
}

// TestHistoryOfWindow: history of a kind with a window is recorded with its own time. Activities
// that would already be forgotten change nothing.
func TestHistoryOfWindow(t *testing.T) {
	s := httpapitest.Open(t)
	line := func(user, target string, age time.Duration) string {
		return fmt.Sprintf(`{"user":%q,"kind":"seen","target":%q,"op":"add","since":%q}`, user, target, time.Now().Add(-age).Format(time.RFC3339))
	}
	history := func(user string) []string {
		return []string{line(user, "recent", httpapitest.SightedRecently), line(user, "old", httpapitest.SightedLongAgo), line(user, "recent", httpapitest.SightedRecently)}
	}
	s.Want(t, "POST", "/v1/activities", `{"activities":[`+strings.Join(history("json"), ",")+`]}`, 200, `{"results":[`+httpapitest.Yes+`,`+httpapitest.No+`,`+httpapitest.No+`]}`)
	wantHistory(t, s, "json")
	if got := s.NDJSON(t, strings.Join(history("lines"), "\n")+"\n"); !slices.Equal(got, []string{httpapitest.Yes, httpapitest.No, httpapitest.No}) {
		t.Errorf("NDJSON: %q", got)
	}
	wantHistory(t, s, "lines")
	for protocol, call := range httpapitest.Invokers(t, httpapitest.ServeBoth(t, s)) {
		of := func(target string, age time.Duration) *feedfilterv1.Activity {
			return &feedfilterv1.Activity{
				User: protocol, Kind: "seen", Target: target, Op: feedfilterv1.Op_OP_ADD, Since: timestamppb.New(time.Now().Add(-age)),
			}
		}
		var batch feedfilterv1.RecordBatchResponse
		err := call(t.Context(), feedfilterv1connect.ActivityServiceRecordBatchProcedure, &feedfilterv1.RecordBatchRequest{
			Activities: []*feedfilterv1.Activity{of("recent", httpapitest.SightedRecently), of("old", httpapitest.SightedLongAgo)},
		}, &batch)
		if r := batch.GetResults(); err != nil || len(r) != 2 || !r[0].GetChanged() || r[1].GetChanged() || r[1].GetError() != nil {
			t.Errorf("%s: %v, %v", protocol, &batch, err)
		}
		wantHistory(t, s, protocol)
	}
}

// malformedSince returns beginnings that are refused.
func malformedSince() []malformed {
	var all []malformed
	line := func(kind, op, since string) string {
		return fmt.Sprintf(`{"activities":[{"user":"1","kind":%q,"target":"9","op":%q,"since":%q}]}`, kind, op, since)
	}
	for _, text := range []string{"", "x", "1767322445", "2026-01-02", "0000-12-31T00:00:00Z"} {
		all = append(all, malformed{
			request: "POST /v1/activities", body: line("hide", "add", text), status: 400, code: "out_of_range", field: "activities[0].since",
		})
	}
	return append(all,
		malformed{
			request: "POST /v1/activities", body: line("hide", "remove", "2026-01-02T03:04:05Z"), status: 400, code: "unknown_field",
			field: "activities[0].since",
		},
		malformed{
			request: "POST /v1/activities", body: line("seen", "remove", "2026-01-02T03:04:05Z"), status: 400, code: "unknown_field",
			field: "activities[0].since",
		},
		malformed{
			request: "POST /v1/users/1/seen", body: `{"posts":["x"],"since":"2026-01-02T03:04:05Z"}`, status: 400, code: "unknown_field",
			field: "since",
		},
	)
}
