package grpc_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/labstack/echo/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// withToken returns a context whose calls have a token.
func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// refusedAs asserts the code and the detail of an error. code may include the field, after a space.
func refusedAs(t *testing.T, what string, err error, want connect.Code, code string, status uint32) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	got, detail := httpapitest.DetailOf(t, err)
	code, field, _ := strings.Cut(code, " ")
	if got != want || detail.GetCode() != code || detail.GetField() != field || detail.GetHttpStatus() != status {
		t.Errorf("%s: %v, %v", what, err, detail)
	}
}

// TestProcedureAccess: procedures require the tokens and scopes of the JSON API.
func TestProcedureAccess(t *testing.T) {
	s, _ := httpapitest.Guarded(t, httpapi.Config{}, nil)
	ctx := t.Context()
	feed := &feedfilterv1.FilterRequest{Viewer: "1", Posts: []string{"p"}, Authors: []string{"2"}}
	seen := &feedfilterv1.FilterRequest{Viewer: "1", Posts: []string{"p"}, Authors: []string{"2"}, RecordSeen: true}
	record := &feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "2", Op: feedfilterv1.Op_OP_ADD}
	var res feedfilterv1.FilterResponse
	for protocol, call := range httpapitest.Invokers(t, httpapitest.ServeBoth(t, s)) {
		refusedAs(t, protocol+" without a token", call(ctx, httpapitest.FilterProcedure, feed, &res), connect.CodeUnauthenticated, "unauthenticated", 401)
		refusedAs(t, protocol+" with an old token", call(withToken(ctx, "old"), httpapitest.FilterProcedure, feed, &res), connect.CodeUnauthenticated, "unauthenticated", 401)
		refusedAs(t, protocol+" without the scope", call(withToken(ctx, "feed"), httpapitest.RecordProcedure, record, &res), connect.CodePermissionDenied, "forbidden", 403)
		refusedAs(t, protocol+" recording", call(withToken(ctx, "feed"), httpapitest.FilterProcedure, seen, &res), connect.CodePermissionDenied, "forbidden record_seen", 403)
		if err := call(withToken(ctx, "feed"), httpapitest.FilterProcedure, feed, &res); err != nil {
			t.Errorf("%s with the scope: %v", protocol, err)
		}
	}
	if a := s.Do(t, "GET", "/v1/users/1", "", httpapitest.As("feed")...); a.Body != `{"counts":{"block":0,"hide":0,"like":0}}` {
		t.Errorf("something was recorded: %s", a.Body)
	}
	stream, err := httpapitest.DialGRPC(t, httpapitest.ServeBoth(t, s)).NewStream(withToken(ctx, "feed"), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		feedfilterv1connect.ActivityServiceRecordStreamProcedure)
	httpapitest.Must(t, err)
	refusedAs(t, "a stream", stream.RecvMsg(&res), connect.CodePermissionDenied, "forbidden", 403)
}

// TestProcedureRates: procedures count towards the rates of their token and user.
func TestProcedureRates(t *testing.T) {
	c := httpapi.Config{}
	c.Access.Tokens, _ = httpapitest.TokensOf(t, httpapitest.TokenEntry("slow", "feed:read,activity:write", `,"rate":0.001,"burst":1`), httpapitest.TokenEntry("all", "feed:read,activity:write", ""))
	c.Access.Users = access.NewUsers(access.Rate{PerSecond: 0.001, Burst: 2})
	s := httpapitest.NewService(t, c, nil)
	conn := httpapitest.DialGRPC(t, httpapitest.ServeBoth(t, s))
	feed := func(token, viewer string) error {
		var header, trailer metadata.MD
		err := conn.Invoke(withToken(t.Context(), token), httpapitest.FilterProcedure, &feedfilterv1.FilterRequest{Viewer: viewer}, new(feedfilterv1.FilterResponse), grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil && len(header.Get("retry-after"))+len(trailer.Get("retry-after")) != 1 {
			t.Errorf("no Retry-After in %v, %v", header, trailer)
		}
		return err
	}
	if err := feed("slow", "1"); err != nil {
		t.Error(err)
	}
	refusedAs(t, "the second of a token", feed("slow", "2"), connect.CodeResourceExhausted, "rate_limited", 429)
	if err := feed("all", "1"); err != nil {
		t.Error(err)
	}
	refusedAs(t, "the third of a user", feed("all", "1"), connect.CodeResourceExhausted, "rate_limited", 429)
	count := func(procedure string, req interface{ GetUser() string }) {
		t.Helper()
		err := conn.Invoke(withToken(t.Context(), "all"), procedure, req, new(feedfilterv1.FilterResponse))
		refusedAs(t, procedure, err, connect.CodeResourceExhausted, "rate_limited", 429)
	}
	count(httpapitest.RecordProcedure, &feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "2", Op: feedfilterv1.Op_OP_ADD})
	count(feedfilterv1connect.ActivityServiceRecordPostsProcedure, &feedfilterv1.RecordPostsRequest{User: "1", Plural: "seen", Posts: []string{"p"}})
	count(feedfilterv1connect.ActivityServiceListProcedure, &feedfilterv1.ListRequest{User: "1", Plural: "blocks"})
	count(feedfilterv1connect.ActivityServiceCountProcedure, &feedfilterv1.CountRequest{User: "1"})
}

// TestProcedureAudit: a procedure has the same audit line as the equivalent JSON route.
func TestProcedureAudit(t *testing.T) {
	a := httpapitest.Audited(t, nil)
	conn := httpapitest.DialGRPC(t, httpapitest.ServeBoth(t, a.Service))
	add := feedfilterv1.Op_OP_ADD
	batch := &feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{{User: "1", Kind: "hide", Target: "p", Op: add}, {User: "1", Kind: "hide", Target: "q", Op: feedfilterv1.Op_OP_REMOVE}}}
	for _, c := range []struct {
		route, body string
		procedure   string
		req         any
	}{
		{"PUT /v1/users/1/blocks/2", "", httpapitest.RecordProcedure, &feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "2", Op: add}},
		{"POST /v1/users/1/seen", `{"posts":["a","b"]}`, feedfilterv1connect.ActivityServiceRecordPostsProcedure, &feedfilterv1.RecordPostsRequest{User: "1", Plural: "seen", Posts: []string{"a", "b"}}},
		{"POST /v1/activities", `{"activities":[{"user":"1","kind":"hide","target":"p","op":"add"},{"user":"1","kind":"hide","target":"q","op":"remove"}]}`,
			feedfilterv1connect.ActivityServiceRecordBatchProcedure, batch},
		{"POST /v1/feed/explain", `{"viewer":"1","post":{"id":"p","author":"2"}}`, feedfilterv1connect.FeedServiceExplainProcedure,
			&feedfilterv1.ExplainRequest{Viewer: "1", Post: &feedfilterv1.Post{Id: "p", Author: "2"}}},
		{"POST /v1/feed/filter", `{"viewer":"1","posts":[{"id":"x","author":"3"}],"record_seen":true}`, httpapitest.FilterProcedure,
			&feedfilterv1.FilterRequest{Viewer: "1", Posts: []string{"x"}, Authors: []string{"3"}, RecordSeen: true}},
		{"GET /v1/users/1", "", feedfilterv1connect.ActivityServiceCountProcedure, &feedfilterv1.CountRequest{User: "1"}},
	} {
		if err := conn.Invoke(withToken(t.Context(), "all"), c.procedure, c.req, new(feedfilterv1.Page)); err != nil && !strings.Contains(err.Error(), "unmarshal") {
			t.Fatalf("%s: %v", c.procedure, err)
		}
		got := a.Take(t)
		method, path, _ := strings.Cut(c.route, " ")
		fresh := httpapitest.Audited(t, nil)
		fresh.Do(t, method, path, c.body, httpapitest.As("all")...)
		want := fresh.Take(t)
		if len(got) != len(want) {
			t.Errorf("%s: %v, and %s: %v", c.procedure, got, c.route, want)
			continue
		}
		for i := range got {
			for _, line := range []map[string]any{got[i], want[i]} {
				maps.DeleteFunc(line, func(name string, _ any) bool {
					return name == "request_id" || name == "remote" || name == "route" || name == "method" || name == "user" || name == "target"
				})
			}
			if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
				t.Errorf("%s: %v\n%s: %v", c.procedure, got[i], c.route, want[i])
			}
		}
	}
	_ = conn.Invoke(t.Context(), httpapitest.RecordProcedure, &feedfilterv1.RecordRequest{}, new(feedfilterv1.RecordResponse))
	if got := a.Take(t); len(got) != 1 || got[0]["code"] != "unauthenticated" || got[0]["status"] != 401.0 {
		t.Errorf("a refused call: %v", got)
	}
}

// TestProcedureMetrics: requests count by the status that their error has in JSON, although gRPC
// always answers 200.
func TestProcedureMetrics(t *testing.T) {
	log, out := httpapitest.Logs()
	var traced []any
	s := httpapitest.NewService(t, httpapi.Config{Logger: log, Trace: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			traced = append(traced, c.Get("feedfilter.status"))
			return err
		}
	}}, nil)
	conn := httpapitest.DialGRPC(t, httpapitest.ServeBoth(t, s))
	for _, m := range []*feedfilterv1.FilterRequest{
		{Viewer: "1", Posts: []string{"a", "b"}, Authors: []string{"2", "2"}}, {}, {Viewer: "1", Kinds: &feedfilterv1.KindNames{Names: []string{"x"}}},
	} {
		_ = conn.Invoke(t.Context(), httpapitest.FilterProcedure, m, new(feedfilterv1.FilterResponse))
	}
	if want := []any{nil, 400, 422}; !slices.Equal(traced, want) {
		t.Errorf("traces have the statuses %v, want %v", traced, want)
	}
	route := func(code string) string {
		return `http_requests_total{code="` + code + `",method="POST",route="` + httpapitest.FilterProcedure + `"}`
	}
	s.Scrape(t).Want(t, map[string]float64{
		route("200"): 1, route("400"): 1, route("422"): 1, "feed_kept_total{}": 2, "feed_candidates_count{}": 1,
		`http_request_seconds_count{method="POST",route="` + httpapitest.FilterProcedure + `"}`: 3,
	})
	for _, want := range []string{`"route":"` + httpapitest.FilterProcedure + `","status":422`, `"code":"unknown_kind"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in the log: %s", want, out)
		}
	}
}

// TestProcedureLimits: procedures are refused under overload like other requests, and the other
// requests of their connection continue.
func TestProcedureLimits(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxRequests: 3, MaxBodyBytes: 100_000, MaxBodiesBytes: 150_000, MaxStreams: 1, Timeout: time.Hour}, nil)
	conn := httpapitest.DialGRPC(t, httpapitest.ServeBoth(t, s))
	batch := new(feedfilterv1.RecordBatchRequest)
	for i := range 1000 {
		batch.Activities = append(batch.Activities, &feedfilterv1.Activity{
			User: "1", Kind: "like", Target: fmt.Sprintf("%080d", i), Op: feedfilterv1.Op_OP_ADD,
		})
	}
	const procedure = feedfilterv1connect.ActivityServiceRecordBatchProcedure
	open := s.Ledger.Records.Shut()
	defer open()
	done := make(chan error, 2)
	go func() { done <- conn.Invoke(t.Context(), procedure, batch, new(feedfilterv1.RecordBatchResponse)) }()
	for in, _ := s.Requests(t); in != 1; in, _ = s.Requests(t) { //nolint:revive // until it has arrived
	}
	// The budget of bodies: a gRPC message counts with its own length.
	s.Await(t, "the message of the first request is held", func() error {
		if held := s.Scrape(t)["feedfilter_http_bodies_held_bytes{}"]; held < 80_000 || held > 100_000 {
			return fmt.Errorf("%v bytes are held", held)
		}
		return nil
	})
	refusedAs(t, "a message beyond the budget", conn.Invoke(t.Context(), procedure, batch, new(feedfilterv1.RecordBatchResponse)), connect.CodeUnavailable, "overloaded", 503)
	feed := func() error {
		return conn.Invoke(t.Context(), httpapitest.FilterProcedure, &feedfilterv1.FilterRequest{Viewer: "9"}, new(feedfilterv1.FilterResponse))
	}
	if err := feed(); err != nil {
		t.Errorf("a small message: %v", err)
	}
	stream := func() grpc.ClientStream {
		t.Helper()
		c, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, feedfilterv1connect.ActivityServiceRecordStreamProcedure)
		httpapitest.Must(t, err)
		return c
	}
	first := stream()
	httpapitest.Must(t, first.SendMsg(&feedfilterv1.RecordStreamRequest{Activities: []*feedfilterv1.Activity{{}}}))
	httpapitest.Must(t, first.RecvMsg(new(feedfilterv1.RecordStreamResponse)))
	refusedAs(t, "a second stream", stream().RecvMsg(new(feedfilterv1.RecordStreamResponse)), connect.CodeUnavailable, "overloaded", 503)
	go func() {
		done <- conn.Invoke(t.Context(), httpapitest.RecordProcedure, &feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "2", Op: feedfilterv1.Op_OP_ADD}, new(feedfilterv1.RecordResponse))
	}()
	for in, _ := s.Requests(t); in != 3; in, _ = s.Requests(t) { //nolint:revive // until it has arrived
	}
	refusedAs(t, "the fourth of three", feed(), connect.CodeUnavailable, "overloaded", 503)
	open()
	for range 2 {
		if err := httpapitest.Await(t, done); err != nil {
			t.Errorf("an accepted request: %v", err)
		}
	}
	if err := first.CloseSend(); err != nil {
		t.Error(err)
	}
}
