package rest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// ends returns the ends in a list of hides, by post: "" if a post has none.
func ends(t testing.TB, s *httpapitest.Service) map[string]string {
	t.Helper()
	a := s.Do(t, "GET", "/v1/users/1/hides", "")
	all := make(map[string]string)
	for _, item := range a.JSON["items"].([]any) {
		fields := item.(map[string]any)
		until, given := fields["until"].(string)
		if given {
			instant(t, until)
		}
		if len(fields) != 2 && !given || len(fields) != 3 && given {
			t.Errorf("item %v", fields)
		}
		all[fields["target"].(string)] = until
	}
	return all
}

// malformedUntil returns ends that are refused.
func malformedUntil() []malformed {
	var all []malformed
	for _, text := range []string{
		"", "x", "4102444800", "2100-01-01", "2100-01-01T00:00:00", "2100-01-01%2000:00:00Z", "2100-01-01T00:00:00+02:00", "2100-01-01t00:00:00z",
		"2100-02-29T00:00:00Z", "2100-01-01T00:00:00%2B24:00", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-00:01", "2100-01-01T00:00:00Z%00",
		"2020-01-01T00:00:00Z", "0000-01-01T00:00:00Z",
	} {
		all = append(all, malformed{request: "PUT /v1/users/1/blocks/9?until=" + text, status: 400, code: "out_of_range", field: "until"})
	}
	const sound = "?until=2100-01-01T00:00:00Z"
	return append(all,
		malformed{request: "PUT /v1/users/1/blocks/9?until", status: 400, code: "out_of_range", field: "until"},
		malformed{request: "PUT /v1/users/1/blocks/9" + sound + "&" + sound[1:], status: 400, code: "repeated_parameter", field: "until"},
		malformed{request: "PUT /v1/users/1/blocks/9" + strings.ToUpper(sound), status: 400, code: "unknown_parameter", field: "UNTIL"},
		malformed{request: "PUT /v1/users/1/blocks/1" + sound, status: 422, code: "self_block", field: "target"},
		malformed{request: "DELETE /v1/users/1/blocks/2" + sound, status: 400, code: "unknown_parameter", field: "until"},
		malformed{request: "GET /v1/users/1/blocks" + sound, status: 400, code: "unknown_parameter", field: "until"},
		malformed{request: seenPath + sound, body: `{"posts":["x"]}`, status: 400, code: "unknown_parameter", field: "until"},
		malformed{request: seenPath, body: `{"posts":["x"],"until":"2100-01-01T00:00:00Z"}`, status: 400, code: "unknown_field", field: "until"},
	)
}

func TestUntil(t *testing.T) {
	s := httpapitest.Open(t)
	const path = "/v1/users/1/hides/p?until="
	for _, c := range []struct{ until, changed, want string }{
		{"2100-01-01T00:00:00Z", httpapitest.Yes, "2100-01-01T00:00:00Z"},
		{"2100-01-01T00:00:00Z", httpapitest.No, "2100-01-01T00:00:00Z"},
		{"2100-01-01T02:00:00+02:00", httpapitest.No, "2100-01-01T00:00:00Z"}, // the same instant
		{"2100-01-01T00:00:00.000000999Z", httpapitest.No, "2100-01-01T00:00:00Z"},
		{"2100-01-01T00:00:00.123456789-08:00", httpapitest.Yes, "2100-01-01T08:00:00.123456Z"},
		{"9999-12-31T23:59:59.999999Z", httpapitest.Yes, "9999-12-31T23:59:59.999999Z"},
	} {
		s.Want(t, "PUT", path+url.QueryEscape(c.until), "", 200, c.changed)
		if got := ends(t, s)["p"]; got != c.want {
			t.Errorf("until %s: the list has %s, want %s", c.until, got, c.want)
		}
	}
	s.Want(t, "PUT", "/v1/users/1/hides/p", "", 200, httpapitest.Yes) // without an end
	if got := ends(t, s); len(got) != 1 || got["p"] != "" {
		t.Errorf("ends %v", got)
	}
	s.Want(t, "DELETE", "/v1/users/1/hides/p", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/hides/p", "", 200, httpapitest.Yes)
}

// TestUntilPasses moves the clock past the end of an activity. Then each kind of call refuses that
// end, a batch and a stream only for its own activity.
func TestUntilPasses(t *testing.T) {
	s := httpapitest.Open(t)
	end := s.Now().Add(time.Hour).UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	const feed = `{"viewer":"1","posts":[{"id":"p1","author":"2"},{"id":"x","author":"5"}]}`
	s.Want(t, "PUT", "/v1/users/1/hides/p1?until="+end, "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/blocks/5?until="+end, "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/feed/filter", feed, 200,
		`{"posts":[],"dropped":[{"id":"p1","kind":"hide"},{"id":"x","kind":"block","actor":"5"}],"degraded":[]}`)

	s.Ahead.Store(int64(2 * time.Hour))
	s.Want(t, "GET", "/v1/users/1/hides", "", 200, `{"items":[]}`)
	s.Want(t, "DELETE", "/v1/users/1/hides/p1", "", 200, httpapitest.No)
	if a := s.Do(t, "PUT", "/v1/users/1/hides/p1?until="+end, ""); a.Status != 400 || a.Code != "out_of_range" || a.Field != "until" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	const past = `{"error":{"code":"out_of_range","message":"not in the future","field":"until"}}`
	lines := []string{httpapitest.UntilLine("hide", "a", end), httpapitest.ActivityLine("1", "hide", "b", "add"), httpapitest.UntilLine("hide", "c", "0001-01-01T00:00:00Z")}
	s.Want(t, "POST", "/v1/activities", `{"activities":[`+strings.Join(lines, ",")+`]}`, 200, `{"results":[`+past+`,`+httpapitest.Yes+`,`+past+`]}`)
	if got := s.NDJSON(t, strings.Join(lines, "\n")); !slices.Equal(got, []string{past, httpapitest.No, past}) {
		t.Errorf("%q", got)
	}
	for protocol, call := range httpapitest.Invokers(t, httpapitest.ServeBoth(t, s)) {
		of := func(target string, until *timestamppb.Timestamp) *feedfilterv1.Activity {
			return &feedfilterv1.Activity{User: protocol, Kind: "hide", Target: target, Op: feedfilterv1.Op_OP_ADD, Until: until}
		}
		var batch feedfilterv1.RecordBatchResponse
		err := call(t.Context(), feedfilterv1connect.ActivityServiceRecordBatchProcedure, &feedfilterv1.RecordBatchRequest{
			Activities: []*feedfilterv1.Activity{of("a", timestamppb.New(time.Unix(1, 0))), of("b", nil)},
		}, &batch)
		if r := batch.GetResults(); err != nil || len(r) != 2 || r[0].GetError().GetCode() != "out_of_range" || !r[1].GetChanged() {
			t.Errorf("%s: %v, %v", protocol, &batch, err)
		}
	}
	for _, l := range s.NDJSON(t, strings.Repeat(lines[0]+"\n", 1500)) { // without a valid line
		httpapitest.WantError(t, l, "out_of_range", "until")
	}
}
