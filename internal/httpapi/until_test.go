package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// untilLine is a line of user 1 that adds an activity with an end.
func untilLine(kind, target, until string) string {
	return strings.TrimSuffix(activityLine("1", kind, target, "add"), "}") + `,"until":"` + until + `"}`
}

// ends returns the ends in a list of hides, by post: "" if a post has none.
func (s *service) ends(t testing.TB) map[string]string {
	t.Helper()
	a := s.do(t, "GET", "/v1/users/1/hides", "")
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
		"", "x", "0", "4102444800", "2100-01-01", "2100-01-01T00:00Z", "2100-01-01T00:00:00", "2100-01-01%2000:00:00Z", "2100-01-01T00:00:00+02:00",
		"2100-01-01t00:00:00z", "2100-13-01T00:00:00Z", "2100-02-29T00:00:00Z", "2100-01-01T24:00:00Z", "2100-01-01T0:00:00Z", "2100-01-01T00:00:00,5Z",
		"2100-01-01T00:00:00.Z", "2100-01-01T00:00:00%2B24:00", "%2B2100-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-00:01",
		"2100-01-01T00:00:00Z%00", "2020-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00.000000001Z",
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
	s := open(t)
	const path = "/v1/users/1/hides/p?until="
	for _, c := range []struct{ until, changed, want string }{
		{"2100-01-01T00:00:00Z", yes, "2100-01-01T00:00:00Z"},
		{"2100-01-01T00:00:00Z", no, "2100-01-01T00:00:00Z"},
		{"2100-01-01T02:00:00+02:00", no, "2100-01-01T00:00:00Z"}, // the same instant
		{"2100-01-01T00:00:00.000000999Z", no, "2100-01-01T00:00:00Z"},
		{"2100-01-01T00:00:00.123456789-08:00", yes, "2100-01-01T08:00:00.123456Z"},
		{"9999-12-31T23:59:59.999999Z", yes, "9999-12-31T23:59:59.999999Z"},
	} {
		s.want(t, "PUT", path+url.QueryEscape(c.until), "", 200, c.changed)
		if got := s.ends(t)["p"]; got != c.want {
			t.Errorf("until %s: the list has %s, want %s", c.until, got, c.want)
		}
	}
	s.want(t, "PUT", "/v1/users/1/hides/p", "", 200, yes) // without an end
	if got := s.ends(t); len(got) != 1 || got["p"] != "" {
		t.Errorf("ends %v", got)
	}
	s.want(t, "DELETE", "/v1/users/1/hides/p", "", 200, yes)
	s.want(t, "PUT", "/v1/users/1/hides/p", "", 200, yes)
}

// TestUntilPasses moves the clock past the end of activities from each kind of call.
func TestUntilPasses(t *testing.T) {
	s := open(t)
	end := s.now().Add(time.Hour).UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	s.want(t, "PUT", "/v1/users/1/hides/p1?until="+end, "", 200, yes)
	s.want(t, "PUT", "/v1/users/1/blocks/5?until="+end, "", 200, yes)
	s.want(t, "POST", "/v1/activities", `{"activities":[`+untilLine("hide", "p2", end)+`,`+activityLine("1", "hide", "p4", "add")+`]}`, 200,
		`{"results":[`+repeated(2, yes)+`]}`)
	if got := s.ndjson(t, untilLine("hide", "p3", end)); !slices.Equal(got, []string{yes}) {
		t.Errorf("%q", got)
	}
	if got, want := s.ends(t), map[string]string{"p1": end, "p2": end, "p3": end, "p4": ""}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ends %v, want %v", got, want)
	}
	const feed = `{"viewer":"1","posts":[{"id":"p1","author":"2"},{"id":"p2","author":"2"},{"id":"p3","author":"2"},{"id":"p4","author":"2"},{"id":"x","author":"5"}]}`
	s.want(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[],"dropped":[`+
		`{"id":"p1","kind":"hide"},{"id":"p2","kind":"hide"},{"id":"p3","kind":"hide"},{"id":"p4","kind":"hide"},{"id":"x","kind":"block","actor":"5"}],"degraded":[]}`)

	s.ahead.Store(int64(2 * time.Hour))
	if got := s.ends(t); len(got) != 1 || got["p4"] != "" {
		t.Errorf("after the end: %v", got)
	}
	s.want(t, "GET", "/v1/users/1/blocks", "", 200, `{"items":[]}`)
	s.want(t, "DELETE", "/v1/users/1/hides/p1", "", 200, no)
	s.want(t, "PUT", "/v1/users/1/hides/p2", "", 200, yes)
	// An end in the past is refused by each call, and in a batch only for its own activity.
	if a := s.do(t, "PUT", "/v1/users/1/hides/p1?until="+end, ""); a.Status != 400 || a.Code != "out_of_range" || a.Field != "until" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	const past = `{"error":{"code":"out_of_range","message":"not in the future","field":"until"}}`
	s.want(t, "POST", "/v1/activities", `{"activities":[`+untilLine("hide", "p1", end)+`,`+activityLine("1", "hide", "p5", "add")+`,`+
		untilLine("hide", "p1", "0001-01-01T00:00:00Z")+`]}`, 200, `{"results":[`+past+`,`+yes+`,`+past+`]}`)
	for protocol, call := range invokers(t, serveBoth(t, s)) {
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
}

// TestStreamOfPastEnds sends lines whose end has passed, first, last and in between. Only those are
// refused.
func TestStreamOfPastEnds(t *testing.T) {
	s := open(t)
	const past, ahead = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
	got := s.ndjson(t, strings.Join([]string{
		untilLine("hide", "a", past),
		untilLine("hide", "b", ahead),
		`{"user":"1","kind":"hide","target":"c","op":"remove","until":"` + ahead + `"}`,
		untilLine("hide", "c", past),
		untilLine("hide", "c", past),
		activityLine("1", "hide", "d", "add"),
		untilLine("seen", "e", ahead),
		untilLine("hide", "f", "soon"),
		untilLine("hide", "b", ahead),
		untilLine("hide", "g", past),
	}, "\n"))
	want := []string{
		"out_of_range until", yes, "unknown_field until", "out_of_range until", "out_of_range until", yes, "unsupported_op until", "out_of_range until", no, "out_of_range until",
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(got), len(want), got)
	}
	for i, w := range want {
		if w == yes || w == no {
			if got[i] != w {
				t.Errorf("line %d: %s, want %s", i, got[i], w)
			}
			continue
		}
		code, field, _ := strings.Cut(w, " ")
		wantError(t, got[i], code, field)
	}
	if got, want := s.ends(t), map[string]string{"b": ahead, "d": ""}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ends %v, want %v", got, want)
	}
	for _, l := range s.ndjson(t, strings.Repeat(untilLine("hide", "z", past)+"\n", 1500)) { // without a valid line
		wantError(t, l, "out_of_range", "until")
	}
}
