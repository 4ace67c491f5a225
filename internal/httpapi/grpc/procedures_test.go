package grpc_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// TestProceduresOfEveryProtocol makes every unary call over every protocol. The JSON API then shows
// what they recorded.
func TestProceduresOfEveryProtocol(t *testing.T) {
	s := httpapitest.Open(t)
	addr := httpapitest.ServeBoth(t, s)
	user := 0
	for name, call := range httpapitest.Invokers(t, addr) {
		user++
		t.Run(name, func(t *testing.T) { callAll(t, s, call, fmt.Sprint("u", user)) })
	}
}

func callAll(t *testing.T, s *httpapitest.Service, call httpapitest.Invoker, user string) {
	t.Helper()
	do := func(procedure string, req, res proto.Message) {
		t.Helper()
		if err := call(t.Context(), procedure, req, res); err != nil {
			t.Fatalf("%s: %v", procedure, err)
		}
	}
	var recorded feedfilterv1.RecordResponse
	record := &feedfilterv1.RecordRequest{User: user, Plural: "blocks", Target: "b", Op: feedfilterv1.Op_OP_ADD}
	do(feedfilterv1connect.ActivityServiceRecordProcedure, record, &recorded)
	if !recorded.GetChanged() {
		t.Error("a block changed nothing")
	}
	until := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	var batch feedfilterv1.RecordBatchResponse
	do(feedfilterv1connect.ActivityServiceRecordBatchProcedure, &feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{
		{User: user, Kind: "hide", Target: "p3", Op: feedfilterv1.Op_OP_ADD, Until: timestamppb.New(until)},
		{User: user, Kind: "hide", Target: "p4", Op: feedfilterv1.Op_OP_REMOVE},
		{User: user, Kind: "like", Target: "p0", Op: feedfilterv1.Op_OP_ADD},
	}}, &batch)
	if r := batch.GetResults(); len(r) != 3 || !r[0].GetChanged() || r[1].GetChanged() || !r[2].GetChanged() || r[1].GetError() != nil {
		t.Errorf("batch: %v", &batch)
	}
	var posts feedfilterv1.RecordPostsResponse
	do(feedfilterv1connect.ActivityServiceRecordPostsProcedure, &feedfilterv1.RecordPostsRequest{User: user, Plural: "seen", Posts: []string{"p5", "p5"}}, &posts)
	if posts.GetRecorded() != 1 {
		t.Errorf("%d posts recorded", posts.GetRecorded())
	}
	request := &feedfilterv1.FilterRequest{
		Viewer: user, Posts: []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6"}, Authors: []string{"a", "b", "a", "a", "a", "a", "a"},
		Actors: []string{"x", "b", "y"}, ActorPosts: []uint32{0, 2, 2}, Annotate: []string{"like"}, Limit: 2,
	}
	var feed feedfilterv1.FilterResponse
	do(feedfilterv1connect.FeedServiceFilterProcedure, request, &feed)
	want := &feedfilterv1.FilterResponse{
		Kept: []uint32{0, 4}, Next: 5, Annotated: []*feedfilterv1.Annotated{{Kind: "like", Posts: []uint32{0}}},
		Dropped: []*feedfilterv1.Dropped{{Index: 1, Kind: "block", Actor: "b"}, {Index: 2, Kind: "block", Actor: "b"}, {Index: 3, Kind: "hide"}},
	}
	if !proto.Equal(&feed, want) {
		t.Errorf("feed %v\nwant %v", &feed, want)
	}
	request.Answer, want.Kept = feedfilterv1.Answer_ANSWER_DROPPED, nil
	feed.Reset()
	do(feedfilterv1connect.FeedServiceFilterProcedure, request, &feed)
	if !proto.Equal(&feed, want) {
		t.Errorf("only what is dropped: %v\nwant %v", &feed, want)
	}
	var why feedfilterv1.ExplainResponse
	do(feedfilterv1connect.FeedServiceExplainProcedure, &feedfilterv1.ExplainRequest{Viewer: user, Post: &feedfilterv1.Post{Id: "p3", Author: "a"}}, &why)
	if r := why.GetReasons(); !why.GetDropped() || len(r) != 1 || r[0].GetKind() != "hide" || r[0].GetCertainty() != "certain" || !r[0].GetUntil().AsTime().Equal(until) {
		t.Errorf("explanation %v", &why)
	}
	var list feedfilterv1.ListResponse
	do(feedfilterv1connect.ActivityServiceListProcedure, &feedfilterv1.ListRequest{User: user, Plural: "hides"}, &list)
	if i := list.GetItems(); len(i) != 1 || i[0].GetTarget() != "p3" || !i[0].GetUntil().AsTime().Equal(until) || i[0].GetSince() == nil {
		t.Errorf("list %v", &list)
	}
	var counts feedfilterv1.CountResponse
	do(feedfilterv1connect.ActivityServiceCountProcedure, &feedfilterv1.CountRequest{User: user}, &counts)
	if n := counts.GetCounts(); n["block"] != 1 || n["hide"] != 1 || n["like"] != 1 {
		t.Errorf("counts %v", n)
	}
	if a := s.Do(t, "GET", "/v1/users/"+user, ""); !strings.Contains(a.Body, `"block":1,"hide":1,"like":1`) {
		t.Errorf("the JSON API counts %s", a.Body)
	}
	record.Op = feedfilterv1.Op_OP_REMOVE
	do(feedfilterv1connect.ActivityServiceRecordProcedure, record, &recorded)
	if a := s.Do(t, "GET", "/v1/users/"+user+"/blocks", ""); a.Body != `{"items":[]}` {
		t.Errorf("blocks after an undo: %s", a.Body)
	}
}

// TestProcedureErrors: procedures refuse the same requests as the JSON API, with the same code,
// field, message and status.
func TestProcedureErrors(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxBodyBytes: 200_000}, httpapitest.OwnKinds(t))
	addr := httpapitest.ServeBoth(t, s)
	many := func(n int) []string {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint("p", i)
		}
		return ids
	}
	jsonPosts := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"id":"p%d"}`, i)
		}
		return "[" + b.String()[1:] + "]"
	}
	add := feedfilterv1.Op_OP_ADD
	const feed, batch = feedfilterv1connect.FeedServiceFilterProcedure, feedfilterv1connect.ActivityServiceRecordBatchProcedure
	const one = feedfilterv1connect.ActivityServiceRecordProcedure
	const filter = "POST /v1/feed/filter"
	for name, c := range map[string]struct {
		procedure string
		req       proto.Message
		route     string
		body      string
		code      connect.Code
	}{
		"viewer": {feed, &feedfilterv1.FilterRequest{}, filter, `{"viewer":"","posts":[]}`, connect.CodeInvalidArgument},
		"unknown kind": {feed, &feedfilterv1.FilterRequest{Viewer: "1", Kinds: &feedfilterv1.KindNames{Names: []string{"poke"}}},
			filter, `{"viewer":"1","posts":[],"kinds":["poke"]}`, connect.CodeInvalidArgument},
		"too many actors": {feed, &feedfilterv1.FilterRequest{Viewer: "1", Posts: []string{"a"}, Authors: []string{"x"}, Actors: many(101), ActorPosts: make([]uint32, 101)},
			filter, `{"viewer":"1","posts":[{"id":"a","author":"x","actors":["` + strings.Join(many(101), `","`) + `"]}]}`, connect.CodeInvalidArgument},
		"too many posts": {feed, &feedfilterv1.FilterRequest{Viewer: "1", Posts: many(10_001)}, filter, `{"viewer":"1","posts":` + jsonPosts(10_001) + `}`, connect.CodeInvalidArgument},
		"too large":      {feed, &feedfilterv1.FilterRequest{Viewer: strings.Repeat("x", 200_001)}, filter, `{"viewer":"` + strings.Repeat("x", 200_001) + `"}`, connect.CodeInvalidArgument},
		"a line": {batch, &feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{
			{User: "1", Kind: "block", Target: "2", Op: add}, {User: "1", Kind: "block", Target: "1", Op: add}}},
			"POST /v1/activities", `{"activities":[{"user":"1","kind":"block","target":"2","op":"add"},{"user":"1","kind":"block","target":"1","op":"add"}]}`, connect.CodeInvalidArgument},
		"no op": {batch, &feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{{User: "1", Kind: "block", Target: "2"}}},
			"POST /v1/activities", `{"activities":[{"user":"1","kind":"block","target":"2"}]}`, connect.CodeInvalidArgument},
		"no lines": {batch, &feedfilterv1.RecordBatchRequest{}, "POST /v1/activities", `{"activities":[]}`, connect.CodeInvalidArgument},
		"an odd time": {batch, &feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{{User: "1", Kind: "block", Target: "2", Op: add, Until: &timestamppb.Timestamp{Nanos: -1}}}},
			"POST /v1/activities", `{"activities":[{"user":"1","kind":"block","target":"2","op":"add","until":""}]}`, connect.CodeInvalidArgument},
		"self-block": {one, &feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "1", Op: add}, "PUT /v1/users/1/blocks/1", "", connect.CodeInvalidArgument},
		"past": {one, &feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "2", Op: add, Until: timestamppb.New(time.Unix(1, 0))},
			"PUT /v1/users/1/blocks/2?until=1970-01-01T00:00:01Z", "", connect.CodeInvalidArgument},
		"no posts": {feedfilterv1connect.ActivityServiceRecordPostsProcedure, &feedfilterv1.RecordPostsRequest{User: "1", Plural: "seen"},
			"POST /v1/users/1/seen", `{"posts":[]}`, connect.CodeInvalidArgument},
		"no post": {feedfilterv1connect.FeedServiceExplainProcedure, &feedfilterv1.ExplainRequest{Viewer: "1"}, "POST /v1/feed/explain", `{"viewer":"1"}`, connect.CodeInvalidArgument},
		"cursor": {feedfilterv1connect.ActivityServiceListProcedure, &feedfilterv1.ListRequest{User: "1", Plural: "blocks", Cursor: "x"},
			"GET /v1/users/1/blocks?cursor=x", "", connect.CodeInvalidArgument},
		"count": {feedfilterv1connect.ActivityServiceCountProcedure, &feedfilterv1.CountRequest{User: "\n"}, "GET /v1/users/%0A", "", connect.CodeInvalidArgument},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		a := s.Do(t, method, path, c.body)
		problem, _ := a.JSON["error"].(map[string]any)
		for protocol, call := range httpapitest.Invokers(t, addr) {
			err := call(t.Context(), c.procedure, c.req, &feedfilterv1.CountResponse{})
			if err == nil {
				t.Errorf("%s by %s: no error; JSON answers %s", name, protocol, a.Body)
				continue
			}
			code, detail := httpapitest.DetailOf(t, err)
			if name == "an odd time" { // JSON quotes the text, which a message does not have
				problem = map[string]any{"message": "not a time of the years 1 to 9999"}
			}
			if code != c.code || detail.GetCode() != a.Code || detail.GetField() != a.Field || int(detail.GetHttpStatus()) != a.Status || detail.GetMessage() != problem["message"] {
				t.Errorf("%s by %s: %v %v\nJSON answers %d %s", name, protocol, code, detail, a.Status, a.Body)
			}
		}
	}
}

// TestInvalidProcedureRequests: invalid requests of procedures are refused in the form that their
// client reads.
func TestInvalidProcedureRequests(t *testing.T) {
	s := httpapitest.Open(t)
	addr := httpapitest.ServeBoth(t, s)
	const path = feedfilterv1connect.FeedServiceFilterProcedure
	for _, c := range []struct {
		method, path, mediaType, encoding string
		status                            int
	}{
		{"POST", path, "application/json", "", 415},
		{"POST", path, "", "", 415},
		{"POST", path, "application/grpc+json", "", 415},
		{"POST", path, "application/grpc-web-text", "", 415},
		{"POST", path, "application/connect+proto", "", 200}, // the error is in the end of the stream
		{"POST", path, "application/proto", "gzip", 415},
		{"GET", path, "", "", 405},
		{"POST", "/feedfilter.v1.FeedService/Nothing", "application/grpc", "", 404},
		{"POST", path + "/x", "application/proto", "", 404},
		{"POST", path + "?a=b", "application/proto", "", 400},
		{"POST", feedfilterv1connect.ActivityServiceRecordStreamProcedure, "application/connect+proto", "", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, strings.NewReader("\n\x011"))
		httpapitest.Must(t, err)
		r.Header.Set("Content-Type", c.mediaType)
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		res, err := http.DefaultClient.Do(r)
		httpapitest.Must(t, err)
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(string(text), `"message"`) {
			t.Errorf("%s %s of %q: %s %s", c.method, c.path, c.mediaType, res.Status, text)
		}
	}
}

// TestRecordStream: each message of a stream is answered with the results of its activities before
// the next is sent.
func TestRecordStream(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.OwnKinds(t))
	addr := httpapitest.ServeBoth(t, s)
	stream := func(send func(*feedfilterv1.RecordStreamRequest) error, receive func() (*feedfilterv1.RecordStreamResponse, error), end func() error) {
		t.Helper()
		for round := range 3 {
			if err := send(&feedfilterv1.RecordStreamRequest{Activities: []*feedfilterv1.Activity{
				{User: "1", Kind: "block", Target: fmt.Sprint("b", round), Op: feedfilterv1.Op_OP_ADD},
				{User: "1", Kind: "poke", Target: "2", Op: feedfilterv1.Op_OP_ADD},
				{User: "1", Kind: "block", Target: "9", Op: feedfilterv1.Op_OP_ADD, Until: timestamppb.New(time.Unix(1, 0))},
				{User: "1", Kind: "block", Target: fmt.Sprint("b", round), Op: feedfilterv1.Op_OP_REMOVE},
				{User: "1", Kind: "seen", Target: "old", Op: feedfilterv1.Op_OP_ADD, Since: timestamppb.New(time.Now().Add(-httpapitest.SightedLongAgo))},
			}}); err != nil {
				t.Fatal(err)
			}
			got, err := receive()
			httpapitest.Must(t, err)
			r := got.GetResults()
			if len(r) != 5 || !r[0].GetChanged() || r[1].GetError().GetCode() != "unknown_kind" || r[2].GetError().GetField() != "until" ||
				!r[3].GetChanged() || r[1].GetError().GetHttpStatus() != 0 || r[4].GetChanged() || r[4].GetError() != nil {
				t.Errorf("round %d: %v", round, got)
			}
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if _, err := receive(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
	conn := httpapitest.DialGRPC(t, addr)
	plain, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, feedfilterv1connect.ActivityServiceRecordStreamProcedure)
	httpapitest.Must(t, err)
	stream(func(m *feedfilterv1.RecordStreamRequest) error { return plain.SendMsg(m) }, func() (*feedfilterv1.RecordStreamResponse, error) {
		m := new(feedfilterv1.RecordStreamResponse)
		return m, plain.RecvMsg(m)
	}, plain.CloseSend)
	for _, options := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
		bidi := feedfilterv1connect.NewActivityServiceClient(httpapitest.OverHTTP2(t), "http://"+addr, options...).RecordStream(t.Context())
		stream(bidi.Send, bidi.Receive, bidi.CloseRequest)
	}
	for _, bad := range []*feedfilterv1.RecordStreamRequest{{}, {Activities: make([]*feedfilterv1.Activity, 1001)}} {
		bidi := feedfilterv1connect.NewActivityServiceClient(httpapitest.OverHTTP2(t), "http://"+addr).RecordStream(t.Context())
		for i := range bad.GetActivities() {
			bad.Activities[i] = new(feedfilterv1.Activity)
		}
		// EOF: the service has refused the stream before all was sent. Receive says why.
		if err := bidi.Send(bad); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		_, err := bidi.Receive()
		if code, detail := httpapitest.DetailOf(t, err); code != connect.CodeInvalidArgument || detail.GetCode() != "out_of_range" || detail.GetField() != "activities" {
			t.Errorf("%d activities: %v, %v", len(bad.GetActivities()), err, detail)
		}
	}
}

// TestHealthAndReflection: gRPC clients can check the health of the service, and read its schema.
func TestHealthAndReflection(t *testing.T) {
	s := httpapitest.Open(t)
	addr := httpapitest.ServeBoth(t, s)
	conn := httpapitest.DialGRPC(t, addr)
	health := healthv1.NewHealthClient(conn)
	check := func(service string) healthv1.HealthCheckResponse_ServingStatus {
		t.Helper()
		res, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		httpapitest.Must(t, err)
		return res.GetStatus()
	}
	for _, service := range []string{"", feedfilterv1connect.FeedServiceName, feedfilterv1connect.ActivityServiceName} {
		if got := check(service); got != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v", service, got)
		}
	}
	if _, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "nothing"}); connect.Code(status.Code(err)) != connect.CodeNotFound {
		t.Errorf("an unknown service: %v", err)
	}
	s.Ledger.Set(httpapitest.Failing)
	s.Store.Set(httpapitest.Failing)
	if got := check(""); got != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("with everything down: %v", got)
	}
	reflection, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	httpapitest.Must(t, err)
	if err := reflection.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	res, err := reflection.Recv()
	httpapitest.Must(t, err)
	var names []string
	for _, service := range res.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	for _, want := range []string{feedfilterv1connect.FeedServiceName, feedfilterv1connect.ActivityServiceName, "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %q", want, names)
		}
	}
	if err := reflection.CloseSend(); err != nil {
		t.Error(err)
	}
}

// TestMalformedEnvelopes: an invalid gRPC message is refused as an error of the client.
func TestMalformedEnvelopes(t *testing.T) {
	log, out := httpapitest.Logs()
	s := httpapitest.NewService(t, httpapi.Config{Logger: log}, nil)
	for _, body := range []string{"", "\x00", "\x00\x00\x00\x00\x09\x0a\x01", "\x00\x00\x00\x00\x01\xff", "\x01\x00\x00\x00\x01\xff", "\x00\xff\xff\xff\xff", "\x80\x00\x00\x00\x00"} {
		w := proceed(t, s, feedfilterv1connect.FeedServiceFilterProcedure, body, "application/grpc")
		if got := w.Header().Get("Grpc-Status") + w.Header().Get(http.TrailerPrefix+"Grpc-Status"); w.Code != http.StatusOK || got == "" || got == "0" || got == "2" {
			t.Errorf("%q: %d, %v", body, w.Code, w.Header())
		}
	}
	if text := out.String(); strings.Contains(text, `"level":"ERROR"`) || strings.Contains(text, `"status":200`) {
		t.Errorf("the log says %s", text)
	}
}

// TestStalledMessages: a stalled message or stream ends after its timeout.
func TestStalledMessages(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{StreamIdle: 50 * time.Millisecond}, nil)
	server := httptest.NewUnstartedServer(s)
	server.Config.Protocols, server.Config.ReadTimeout = httpapitest.BothProtocols(), 50*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().String()
	stream, err := httpapitest.DialGRPC(t, addr).NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, feedfilterv1connect.ActivityServiceRecordStreamProcedure)
	httpapitest.Must(t, err)
	refusedAs(t, "a stream", stream.RecvMsg(new(feedfilterv1.RecordStreamResponse)), connect.CodeDeadlineExceeded, "timeout", 408)
	for _, sent := range []string{"", "\x00\x00", "\x00\x00\x00\x00\x09\x0a"} {
		body, request := io.Pipe()
		go func() { _, _ = io.WriteString(request, sent) }()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+feedfilterv1connect.FeedServiceFilterProcedure, body)
		httpapitest.Must(t, err)
		r.Header.Set("Content-Type", "application/grpc")
		res, err := httpapitest.OverHTTP2(t).Do(r)
		httpapitest.Must(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		_ = request.Close()
		if status := res.Trailer.Get("Grpc-Status") + res.Header.Get("Grpc-Status"); err != nil || status != "4" {
			t.Errorf("%q: %v %v, %v", sent, res.Header, res.Trailer, err)
		}
	}
}
