package httpapi_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// namedCalls are calls with kinds. A kind in angle brackets is given by its name or its plural.
//
//nolint:gochecknoglobals // data of one test
var namedCalls = []string{
	"PUT /v1/users/1/<block>/2", "PUT /v1/users/1/<block>/2?until=2100-01-01T00:00:00Z", "PUT /v1/users/1/<block>/1", "PUT /v1/users/a%2Fb/<block>/c%2Fd%252F",
	"PUT /v1/users/1/<mute>/3", "PUT /v1/users/1/<mute>/4", "PUT /v1/users/1/<mute>/5", "PUT /v1/users/1/<follow>/3", "PUT /v1/users/1/<ally>/6",
	"PUT /v1/users/1/<like>/p9", "DELETE /v1/users/1/<like>/p9", "DELETE /v1/users/1/<hide>/none", "PUT /v1/users/1/<hide>", "PUT /v1/users/1/<hide>/a/b",
	"GET /v1/users/1/<mute>", "GET /v1/users/1/<mute>?limit=1", "GET /v1/users/1/<mute>?cursor=x", "GET /v1/users/1/<seen>", "OPTIONS /v1/users/1/<block>/2",
	"GET /v1/users/1/<block>/2", "GET /v1/users/a%2Fb/<block>/c%2Fd%252F", "GET /v1/users/1/<block>/3", "GET /v1/targets/2/<block>", "GET /v1/targets/3/<mute>",
	"GET /v1/targets/c%2Fd%252F/<block>?limit=1", "GET /v1/targets/2/<hide>", "GET /v1/users/1/<seen>/p5",
	`POST /v1/users/1/<seen> {"posts":["p5"]}`, `POST /v1/users/1/<glimpse> {"posts":["p6"]}`, `POST /v1/users/1/<block> {"posts":["p6"]}`,
	`POST /v1/activities {"activities":[{"user":"1","kind":"<hide>","target":"p7","op":"add"},{"user":"1","kind":"<seen>","target":"p8","op":"add"},` +
		`{"user":"1","kind":"<mute>","target":"9","op":"add"}]}`,
	`POST /v1/activities {"activities":[{"user":"1","kind":"<seen>","target":"p7","op":"remove"}]}`,
	`POST /v1/users/1/preview {"kind":"<mute>","targets":["3","9"]}`, `POST /v1/users/1/preview {"kind":"<seen>","targets":["p"]}`,
	`POST /v1/feed/filter {"viewer":"1","annotate":["<ally>","<glimpse>"],"posts":[` + namedPosts + `]}`,
	`POST /v1/feed/filter {"viewer":"1","kinds":["<mute>","<follow>","<block>"],"annotate":["<glimpse>"],"answer":"dropped","posts":[` + namedPosts + `]}`,
	`POST /v1/feed/filter {"viewer":"1","kinds":["<mute>"],"annotate":["<ally>"],"exact":true,"posts":[` + namedPosts + `]}`,
	`POST /v1/feed/filter {"viewer":"1","kinds":["<seen>"],"record_seen":true,"posts":[` + namedPosts + `]}`,
	`POST /v1/feed/filter {"viewer":"1","kinds":["block","<block>"],"posts":[]}`, `POST /v1/feed/filter {"viewer":"1","annotate":["<ally>","allies"],"posts":[]}`,
	`POST /v1/feed/filter {"viewer":"1","annotate":["<block>"],"posts":[]}`,
	`POST /v1/fanout/filter {"author":"3","viewers":["1","2","3"],"kinds":["<block>","<mute>"]}`,
	`POST /v1/fanout/filter {"author":"3","viewers":["1","2","3"],"kinds":["<mute>","<follow>"]}`,
	`POST /v1/fanout/filter {"author":"2","viewers":["1"],"kinds":["<hide>"]}`, `POST /v1/fanout/filter {"author":"2","viewers":["1"],"kinds":["mutes","<mute>"]}`,
	"GET /v1/ops/users/1/keys/<block>/2", "GET /v1/ops/users/1/keys/<seen>/p5", "GET /v1/users/1", "GET /v1/users/1/export",
}

const namedPosts = `{"id":"p1","author":"2"},{"id":"p2","author":"3"},{"id":"p3","author":"4"},{"id":"p4","author":"6"},` +
	`{"id":"p5","author":"6"},{"id":"p6","author":"8"},{"id":"p7","author":"8"}`

// namedMessages are the calls of gRPC that name kinds, by kind as in namedCalls.
func namedMessages(kind func(name string) string) []procedureCall {
	const add = feedfilterv1.Op_OP_ADD
	kinds := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, kind(name))
		}
		return all
	}
	return []procedureCall{
		{feedfilterv1connect.ActivityServiceRecordProcedure, &feedfilterv1.RecordRequest{User: "2", Plural: kind("mute"), Target: "3", Op: add}, new(feedfilterv1.RecordResponse)},
		{feedfilterv1connect.ActivityServiceRecordProcedure, &feedfilterv1.RecordRequest{User: "2", Plural: kind("glimpse"), Target: "3", Op: add}, new(feedfilterv1.RecordResponse)},
		{feedfilterv1connect.ActivityServiceRecordPostsProcedure, &feedfilterv1.RecordPostsRequest{User: "2", Plural: kind("glimpse"), Posts: []string{"p2"}}, new(feedfilterv1.RecordPostsResponse)},
		{feedfilterv1connect.ActivityServiceRecordPostsProcedure, &feedfilterv1.RecordPostsRequest{User: "2", Plural: kind("hide"), Posts: []string{"p2"}}, new(feedfilterv1.RecordPostsResponse)},
		{feedfilterv1connect.ActivityServiceRecordBatchProcedure, &feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{
			{User: "2", Kind: kind("hide"), Target: "p4", Op: add}}}, new(feedfilterv1.RecordBatchResponse)},
		{feedfilterv1connect.ActivityServiceListProcedure, &feedfilterv1.ListRequest{User: "2", Plural: kind("mute")}, new(feedfilterv1.ListResponse)},
		{feedfilterv1connect.ActivityServiceListProcedure, &feedfilterv1.ListRequest{User: "2", Plural: kind("mute"), Target: new("3")}, new(feedfilterv1.ListResponse)},
		{feedfilterv1connect.ActivityServiceListProcedure, &feedfilterv1.ListRequest{User: "3", Plural: kind("mute"), Incoming: true}, new(feedfilterv1.ListResponse)},
		{feedfilterv1connect.ActivityServiceCountProcedure, &feedfilterv1.CountRequest{User: "2"}, new(feedfilterv1.CountResponse)},
		{feedfilterv1connect.FeedServiceFilterProcedure, &feedfilterv1.FilterRequest{
			Viewer: "2", Posts: []string{"p1", "p2", "p4"}, Authors: []string{"3", "5", "5"}, Annotate: kinds("glimpse", "ally"),
			Kinds: &feedfilterv1.KindNames{Names: kinds("hide", "mute")}}, new(feedfilterv1.FilterResponse)},
		{feedfilterv1connect.FeedServiceFanoutProcedure, &feedfilterv1.FanoutRequest{
			Author: "3", Viewers: []string{"1", "2"}, Kinds: &feedfilterv1.KindNames{Names: kinds("mute")}}, new(feedfilterv1.FanoutResponse)},
	}
}

type procedureCall struct {
	name     string
	req, res proto.Message
}

// varying matches what differs between two services, or from call to call.
var varying = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][\d:.]+|(page":|page )\d+|"(stored|next)":"[^"]*"|window \d+:seen\.\w+|(seconds|nanos):\d+|"time":"[^"]*"`)

// TestBothNames: the name and the plural of a kind get the same answers from every call. They leave
// the same rows, counts, metrics and lines of the audit log, all with the name.
func TestBothNames(t *testing.T) {
	kinds := kindsWith(t,
		activity.Kind{Name: "ally", Plural: "allies", Target: activity.User, Effect: activity.Annotate},
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true, Limit: 2},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"mutes"}, Fanout: true},
		activity.Kind{Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Annotate, Window: time.Hour})
	ids := access.NewIDs()
	results := func(of func(k activity.Kind) string) (all []string) {
		var log bytes.Buffer
		s := newService(t, httpapi.Config{Access: limits.Access{IDs: ids, Audit: access.NewAudit(&log, access.AuditRefuse, slog.New(slog.DiscardHandler))}}, kinds)
		kind := func(name string) string {
			k, ok := kinds.Named(name)
			if !ok {
				t.Fatalf("no kind %q", name)
			}
			return of(k)
		}
		note := func(call, result string) { all = append(all, call+"\n\t"+varying.ReplaceAllString(result, "_")) }
		for _, call := range namedCalls {
			words := regexp.MustCompile(`<[a-z]+>`).ReplaceAllStringFunc(call, func(found string) string { return kind(strings.Trim(found, "<>")) })
			method, rest, _ := strings.Cut(words, " ")
			target, body, _ := strings.Cut(rest, " ")
			a := s.do(t, method, target, body, "X-Request-Id", "id-1")
			note(call, fmt.Sprint(a.Status, a.Header["Allow"], a.Body))
			if list, found := strings.CutPrefix(body, `{"activities":[`); found { // also as a stream
				lines := strings.ReplaceAll(strings.TrimSuffix(list, "]}"), "},{", "}\n{")
				a := s.do(t, method, target, strings.ReplaceAll(lines, `"1"`, `"3"`), "X-Request-Id", "id-1", "Content-Type", "application/x-ndjson")
				note("stream of "+call, fmt.Sprint(a.Status, a.Body))
			}
		}
		audit := log.String()
		invoke := invokers(t, serveBoth(t, s))["Connect"]
		for i, call := range namedMessages(kind) {
			if err := invoke(t.Context(), call.name, call.req, call.res); err != nil {
				_, detail := detailOf(t, err)
				note(fmt.Sprint(call.name, i), detail.String())
				continue
			}
			note(fmt.Sprint(call.name, i), fmt.Sprint(call.res))
		}
		note("export of gRPC", s.do(t, "GET", "/v1/users/2/export", "").Body)
		for line := range strings.Lines(s.do(t, "GET", "/metrics", "").Body) {
			if strings.Contains(line, `kind="`) || strings.HasPrefix(line, "feedfilter_http_requests_total") {
				note("metrics", line)
			}
		}
		note("audit log", audit)
		return all
	}
	names, plurals := results(func(k activity.Kind) string { return k.Name }), results(func(k activity.Kind) string { return k.Plural })
	if len(names) < len(namedCalls)+20 || len(names) != len(plurals) {
		t.Fatalf("%d results of names, %d of plurals", len(names), len(plurals))
	}
	for i, of := range names {
		if of != plurals[i] {
			t.Errorf("by name: %s\nby plural: %s", of, plurals[i])
		}
	}
	all := strings.Join(names, "\n")
	for _, want := range []string{
		`{"dropped":[{"index":0,"kind":"block","actor":"2"},{"index":2,"kind":"mute","actor":"4"}],"annotated":{"glimpse":[5]}`, `"ally":true`,
		"block is named twice", "ally is named twice", "mute is named twice", "limit of 2 mutes reached", `{kind="mute"}`,
		`{"dropped":[{"viewer":"1","kind":"mute","actor":"3"}],"degraded":[]}`, `"route":"/v1/users/:user/mutes/:target"`, `"kind":"mute"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no result has %s", want)
		}
	}
	for _, kind := range kinds.All() {
		if kind.Name != kind.Plural && regexp.MustCompile(`[":= ]kind(":"|="|: ?")`+kind.Plural+`"`).MatchString(all) {
			t.Errorf("a result has the kind %s", kind.Plural)
		}
	}
}

// TestUnknownPaths: the answer names what may be meant.
func TestUnknownPaths(t *testing.T) {
	s := newService(t, httpapi.Config{}, activity.BuiltinKinds())
	const kind, people = `the service has no kind \"mutes\"; GET /v1/kinds lists its kinds`, "/ops is for operators, /docs describes all paths"
	for call, want := range map[string]string{
		"PUT /v1/users/1/mutes/2":    kind,
		"DELETE /v1/users/1/mutes/2": kind,
		"GET /v1/users/1/mutes":      kind,
		"GET /v1/targets/1/mutes":    kind,
		"GET /":                      people,
		"GET /v1/nothing":            `"no such path"`,
		"GET /v1/users/1/blocks/2/3": `"no such path"`,
		"GET /v1/users/":             `"no such path"`,
	} {
		method, path, _ := strings.Cut(call, " ")
		if a := s.do(t, method, path, ""); a.Status != 404 || !strings.Contains(a.Body, want) || !strings.Contains(a.Body, `"not_found"`) {
			t.Errorf("%s: %d %s, want %s", call, a.Status, a.Body, want)
		}
	}
	const number = "must be a whole number in plain digits"
	for _, limit := range []string{"1.5", "99999999999999999999"} {
		a := s.do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"limit":`+limit+`}`)
		if a.Status != 400 || !strings.Contains(a.Body, number) {
			t.Errorf("limit %s: %d %s, want %s", limit, a.Status, a.Body, number)
		}
	}
}
