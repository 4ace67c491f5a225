package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/internal/feedwire"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// servedMessage returns servedBody as a message.
func servedMessage(n int, answer feedfilterv1.Answer) *feedfilterv1.FilterRequest {
	var req plainRequest
	if err := json.Unmarshal([]byte(servedBody(n)), &req); err != nil {
		panic(err)
	}
	m := &feedfilterv1.FilterRequest{Viewer: req.Viewer, Answer: answer}
	for i, p := range req.Posts {
		m.Posts, m.Authors = append(m.Posts, p.ID), append(m.Authors, p.Author)
		for _, a := range p.Actors {
			m.Actors, m.ActorPosts = append(m.Actors, a), append(m.ActorPosts, uint32(i))
		}
	}
	return m
}

func marshaled(m proto.Message) []byte {
	text, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return text
}

// askProcedure sends one message in process, and returns the answer and its message.
func askProcedure(h http.Handler, procedure, mediaType string, body []byte) (*httptest.ResponseRecorder, []byte) {
	envelope := strings.HasPrefix(mediaType, "application/grpc")
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, procedure, bytes.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	if envelope {
		head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(head), bytes.NewReader(body)))
		r.ProtoMajor, r.ProtoMinor, r.ContentLength = 2, 0, -1
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := w.Body.Bytes()
	if envelope && len(answer) >= len("\x00....") {
		answer = answer[len("\x00...."):]
	}
	return w, answer
}

// FuzzProcedures sends any message to every procedure. No call fails inside the service, and each
// refusal has a detail.
func FuzzProcedures(f *testing.F) {
	h, end, err := feedServiceAt(f.Context(), f.TempDir(), 1e-6)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = end() })
	procedures := []string{
		feedfilterv1connect.FeedServiceFilterProcedure, feedfilterv1connect.FeedServiceExplainProcedure,
		feedfilterv1connect.ActivityServiceRecordProcedure, feedfilterv1connect.ActivityServiceRecordPostsProcedure,
		feedfilterv1connect.ActivityServiceRecordBatchProcedure, feedfilterv1connect.ActivityServiceListProcedure,
		feedfilterv1connect.ActivityServiceCountProcedure, feedfilterv1connect.ActivityServiceRecordStreamProcedure,
	}
	add := feedfilterv1.Op_OP_ADD
	for i, m := range []proto.Message{
		servedMessage(0, 0), &feedfilterv1.ExplainRequest{Viewer: "1", Post: &feedfilterv1.Post{Id: "a", Author: "b", Actors: []string{"c"}}},
		&feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "2", Op: add}, &feedfilterv1.RecordPostsRequest{User: "1", Plural: "seen", Posts: []string{"a"}},
		&feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{{User: "1", Kind: "hide", Target: "2", Op: add}}},
		&feedfilterv1.ListRequest{User: "1", Plural: "blocks", Limit: 3}, &feedfilterv1.CountRequest{User: "1"},
		&feedfilterv1.RecordStreamRequest{Activities: []*feedfilterv1.Activity{{User: "1", Kind: "hide", Target: "2", Op: add}, {}}},
	} {
		f.Add(i, marshaled(m))
		f.Add(i, []byte("\x0a\x02\xff\xff"))
	}
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		procedure := procedures[uint(which)%uint(len(procedures))]
		types := []string{"application/grpc", "application/proto", "application/grpc-web+proto"}
		if procedure == feedfilterv1connect.ActivityServiceRecordStreamProcedure {
			types = types[:1]
		}
		var answers [][]byte
		for _, mediaType := range types {
			w, answer := askProcedure(h, procedure, mediaType, body)
			res := w.Result()
			_, _ = io.Copy(io.Discard, res.Body)
			status := res.Trailer.Get("Grpc-Status") + res.Header.Get("Grpc-Status")
			detail := res.Trailer.Get("Grpc-Status-Details-Bin") + res.Header.Get("Grpc-Status-Details-Bin")
			switch {
			case w.Code >= 500, status != "" && !slices.Contains([]string{"0", "3", "9"}, status):
				t.Errorf("%s of %s: %d, gRPC status %q: %q", procedure, mediaType, w.Code, status, answer)
			case w.Code == http.StatusOK && status != "" && status != "0" && detail == "":
				t.Errorf("%s of %s: no detail of status %s", procedure, mediaType, status)
			case w.Code >= 400 && !bytes.Contains(answer, []byte(`"feedfilter.v1.ErrorDetail"`)):
				t.Errorf("%s of %s: no detail in %s", procedure, mediaType, answer)
			}
			answers = append(answers, answer)
		}
		_ = answers
	})
}

// TestTooManyInMessages: lists that are too long for any request are refused before memory is
// allocated.
func TestTooManyInMessages(t *testing.T) {
	h, end, err := feedServiceAt(t.Context(), t.TempDir(), 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end() })
	for field, procedure := range map[protowire.Number]string{
		2: feedfilterv1connect.FeedServiceFilterProcedure, 1: feedfilterv1connect.ActivityServiceRecordBatchProcedure,
		3: feedfilterv1connect.ActivityServiceRecordPostsProcedure,
	} {
		body := bytes.Repeat(feedwire.AppendPart(nil, field, nil), 500_000)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, procedure, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/proto")
		w := httptest.NewRecorder()
		grown := testing.AllocsPerRun(1, func() { h.ServeHTTP(w, r) })
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"out_of_range"`) || grown > 10_000 {
			t.Errorf("%s: %d %.200s, %v allocations", procedure, w.Code, w.Body, grown)
		}
	}
}

// BenchmarkFeedForms answers a feed of 500 posts in process, in each form of request and answer.
func BenchmarkFeedForms(b *testing.B) {
	h, end, err := feedServiceAt(b.Context(), b.TempDir(), 1e-6)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = end() })
	const procedure = feedfilterv1connect.FeedServiceFilterProcedure
	for _, form := range []struct {
		name, mediaType string
		answer          feedfilterv1.Answer
	}{
		{"JSON", echo.MIMEApplicationJSON, 0},
		{"Connect", "application/proto", 0}, {"Connect, dropped", "application/proto", feedfilterv1.Answer_ANSWER_DROPPED},
		{"gRPC", "application/grpc", 0}, {"gRPC, dropped", "application/grpc", feedfilterv1.Answer_ANSWER_DROPPED},
	} {
		path, bodies := procedure, make([][]byte, servedBodies)
		for n := range bodies {
			bodies[n] = marshaled(servedMessage(n, form.answer))
			if form.mediaType == echo.MIMEApplicationJSON {
				path, bodies[n] = "/v1/feed/filter", []byte(servedBody(n))
			}
		}
		b.Run(form.name, func(b *testing.B) {
			reportCPU(b)
			var size int
			for n := 0; b.Loop(); n++ {
				body := bodies[n%servedBodies]
				w, answer := askProcedure(h, path, form.mediaType, body)
				if w.Code != http.StatusOK || len(answer) == 0 {
					b.Fatal(fmt.Sprint(w.Code, string(answer)))
				}
				size = len(answer)
			}
			b.ReportMetric(float64(len(bodies[0])), "request-B")
			b.ReportMetric(float64(size), "answer-B")
		})
	}
}

// BenchmarkServedForms compares the processor time of a separate service process for a feed of 500
// posts over loopback, in each form, with eight callers. The forms take turns, in rounds that are
// long enough to include garbage collection.
func BenchmarkServedForms(b *testing.B) {
	const round, atOnce = 200, 8
	s := startServed(b, "service")
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	http1, http2 := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}, &http.Client{Transport: &http.Transport{Protocols: h2}}
	type form struct {
		name, path, mediaType string
		client                *http.Client
		bodies                [][]byte
		perFeed               []time.Duration
	}
	const procedure = feedfilterv1connect.FeedServiceFilterProcedure
	forms := []*form{
		{name: "json", path: "/v1/feed/filter", mediaType: echo.MIMEApplicationJSON, client: http1},
		{name: "json-dropped", path: "/v1/feed/filter", mediaType: echo.MIMEApplicationJSON, client: http1},
		{name: "connect-dropped", path: procedure, mediaType: "application/proto", client: http1},
		{name: "grpc", path: procedure, mediaType: "application/grpc", client: http2},
		{name: "grpc-dropped", path: procedure, mediaType: "application/grpc", client: http2},
	}
	for _, f := range forms {
		for n := range servedBodies {
			answer := feedfilterv1.Answer_ANSWER_KEPT
			body := servedBody(n)
			if strings.HasSuffix(f.name, "-dropped") {
				answer, body = feedfilterv1.Answer_ANSWER_DROPPED, strings.TrimSuffix(body, "}")+`,"answer":"dropped"}`
			}
			if f.mediaType != echo.MIMEApplicationJSON {
				body = string(marshaled(servedMessage(n, answer)))
			}
			if f.mediaType == "application/grpc" {
				body = string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))) + body
			}
			f.bodies = append(f.bodies, []byte(body))
		}
	}
	ask := func(f *form, n int) {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+s.addr+f.path, bytes.NewReader(f.bodies[n%servedBodies]))
		if err != nil {
			b.Error(err)
			return
		}
		r.Header.Set("Content-Type", f.mediaType)
		res, err := f.client.Do(r)
		if err != nil {
			b.Error(err)
			return
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if status := res.Trailer.Get("Grpc-Status"); err != nil || res.StatusCode != http.StatusOK || status != "" && status != "0" {
			b.Errorf("%s: %s, %v: %.200s", f.name, res.Status, err, answer)
		}
	}
	for b.Loop() {
		for _, f := range forms {
			before := s.cpu(b)
			var callers sync.WaitGroup
			for caller := range atOnce {
				callers.Go(func() {
					for n := range round / atOnce {
						ask(f, n*atOnce+caller)
					}
				})
			}
			callers.Wait()
			f.perFeed = append(f.perFeed, (s.cpu(b)-before)/round)
		}
	}
	for _, f := range forms {
		slices.Sort(f.perFeed)
		b.ReportMetric(float64(f.perFeed[len(f.perFeed)/2].Nanoseconds())/1000, f.name+"-us")
	}
	b.ReportMetric(0, "ns/op") // covers all forms and the client: meaningless
}

// reportCPU reports the processor time that the process uses until the benchmark ends, including
// garbage collection. On a busy machine, wall time is meaningless.
func reportCPU(b *testing.B) {
	b.Helper()
	b.ReportAllocs()
	start := cpuUsed()
	b.Cleanup(func() { b.ReportMetric(float64((cpuUsed()-start).Nanoseconds())/1000/float64(b.N), "cpu-us/op") })
}
