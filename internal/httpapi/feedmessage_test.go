package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/feedwire"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// servedMessage returns servedBody as a message.
func servedMessage(n int, answer feedfilterv1.Answer) *feedfilterv1.FilterRequest {
	req, ok := readFeed(servedBody(n), newRoom())
	if !ok {
		panic("not a feed")
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

// feedMessages returns valid and invalid messages, at least one for each rule of readFeedMessage.
// True: readFeedMessage must accept the message.
func feedMessages() map[string]bool {
	text := func(m *feedfilterv1.FilterRequest) string { return string(marshaled(m)) }
	posts := make([]string, feed.MaxPosts)
	all := &feedfilterv1.FilterRequest{
		Viewer: "1", Posts: []string{"a", "b", ""}, Authors: []string{"x", "", "é"}, Actors: []string{"u", "v", "w"}, ActorPosts: []uint32{0, 2, 2},
		Kinds: &feedfilterv1.KindNames{Names: []string{"block", ""}}, Annotate: []string{"like", "x"}, Limit: 5000, RecordSeen: true, Exact: true,
		Answer:     feedfilterv1.Answer_ANSWER_DROPPED,
		ActorRoles: []string{"", "repost", "é"}, Related: []string{"r", ""}, RelatedPosts: []uint32{1, 2}, Lists: []string{"l", "é", ""},
		Facets: []*feedfilterv1.Facet{
			{Name: "tag", Ids: []string{"go", "redis", ""}, Posts: []uint32{0, 0, 2}}, {Name: "domain", Ids: []string{"é"}, Posts: []uint32{2}}, {Name: "x"},
		},
	}
	facets := func(all ...*feedfilterv1.Facet) string {
		return text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Facets: all})
	}
	return map[string]bool{
		text(all): true,
		facets():  true, facets(&feedfilterv1.Facet{}): true,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Actors: []string{"u", "v"}, ActorPosts: []uint32{0, 1}, ActorRoles: []string{"", "repost"}}): true,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Actors: []string{"u", "v"}, ActorPosts: []uint32{0, 1}, ActorRoles: []string{"repost"}}):     false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, ActorRoles: []string{"repost"}}):                                                                  false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Related: []string{"u", "v"}, RelatedPosts: []uint32{1, 1}}):                                  true,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Related: []string{"u", "v"}, RelatedPosts: []uint32{1, 0}}):                                  false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Related: []string{"u"}, RelatedPosts: []uint32{1}}):                                               false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Related: []string{"u"}}):                                                                          false,
		text(&feedfilterv1.FilterRequest{Related: make([]string, feed.MaxIDs+1), RelatedPosts: make([]uint32, feed.MaxIDs+1)}):                                   false,
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"go"}, Posts: []uint32{1}}):                                                                        true,
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"go"}}):                                                                                            false,
		facets(&feedfilterv1.Facet{Name: "tag", Posts: []uint32{1}}):                                                                                             false,
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"go"}, Posts: []uint32{2}}):                                                                        false,
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"a", "b"}, Posts: []uint32{1, 0}}):                                                                 false,
		facets(slices.Repeat([]*feedfilterv1.Facet{{Name: "tag", Ids: []string{"go"}, Posts: []uint32{0}}}, 2)...):                                               false,
		facets(&feedfilterv1.Facet{Ids: make([]string, feed.MaxIDs+1), Posts: make([]uint32, feed.MaxIDs+1)}):                                                    false,
		facets(slices.Repeat([]*feedfilterv1.Facet{{}}, maxTexts)...):                                                                                            true,
		facets(slices.Repeat([]*feedfilterv1.Facet{{}}, maxTexts+1)...):                                                                                          false,
		"\x62\x03\x0a\x01\xff": false, "\x62\x02\x10\x01": false, "\x62\x02\x22\x00": false, "\x62\x02\x0a\x01": false, "\x62\x04\x0a\x00\x0a\x00": false,
		"\x62\x04\x12\x00\x0a\x00": false, "\x60\x01": false, "\x62\x03\x1a\x01\xff": false,
		"": true,
		text(&feedfilterv1.FilterRequest{Posts: posts}):                                                                      true,
		text(&feedfilterv1.FilterRequest{Kinds: &feedfilterv1.KindNames{}, Answer: feedfilterv1.Answer_ANSWER_KEPT}):         true,
		text(&feedfilterv1.FilterRequest{Viewer: strings.Repeat("x", 300)}):                                                  true,
		text(&feedfilterv1.FilterRequest{Posts: slices.Concat(posts, []string{""})}):                                         false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Authors: []string{"x", "y"}}):                                 false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Authors: []string{"x"}}):                                 false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Actors: []string{"x"}}):                                       false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, ActorPosts: []uint32{0}}):                                     false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Actors: []string{"x"}, ActorPosts: []uint32{1}}):              false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Actors: []string{"x"}, ActorPosts: []uint32{1<<32 - 1}}):      false,
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Actors: []string{"x", "y"}, ActorPosts: []uint32{1, 0}}): false,
		text(&feedfilterv1.FilterRequest{Limit: 5001}):                                                                       false,
		text(&feedfilterv1.FilterRequest{Limit: 1<<32 - 1}):                                                                  false,
		text(&feedfilterv1.FilterRequest{Answer: 3}):                                                                         false,
		text(&feedfilterv1.FilterRequest{Answer: -1}):                                                                        false,
		"\x4a\x00": false, "\x48\x02": false, "\x0a": false, "\x0a\x05x": false, "\x0b": false, "\x0a\x011\x0a\x012": false,
		"\x12\x01a\x0a\x011": false, "\x12\xff\xff\xff\xff\x7f": false, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": false, "\x00": false, "\x7a\x00": true, "\x82\x01\x00": true, "\x8a\x01\x00": false, "\x78\x00": false,
		"\x32\x02\x0a\x05": false, "\x32\x02\x12\x00": false, "\x3a\x01\xff": false, "\x28\x00": false, "\x32\x03\x0a\x01\xff": false,
	}
}

// messagesAgree fails t unless readFeedMessage and the generated code agree on a message that
// readFeedMessage accepts. It reports whether readFeedMessage accepted the message.
func messagesAgree(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string) bool {
	t.Helper()
	got, form, ok := readFeedMessage(text, newRoom())
	if !ok {
		return false
	}
	var m feedfilterv1.FilterRequest
	if err := readMessage([]byte(text), &m); err != nil {
		for _, p := range got.Posts { // the feed refuses these
			if !utf8.ValidString(p.ID + "|" + p.Author + "|" + fmt.Sprint(p.Actors, p.Roles, p.Related, p.Facets)) {
				return true
			}
		}
		if !utf8.ValidString(got.Viewer + strings.Join(got.Lists, "")) {
			return true
		}
		t.Fatalf("%q is read as %+v, want it refused: %v", text, got, err)
	}
	want, wantForm, err := feedRequest(&m)
	if err != nil {
		t.Fatalf("%q is read as %+v, want it refused: %v", text, got, err)
	}
	if !reflect.DeepEqual(plainRequest(got), plainRequest(want)) || form != wantForm {
		t.Fatalf("%q is read as\n%#v, %v\nwant\n%#v, %v", text, got, form, want, wantForm)
	}
	return true
}

// plainRequest returns r with nil for empty lists that mean the same.
func plainRequest(r feed.Request) feed.Request {
	r.Posts = append([]feed.Post(nil), r.Posts...)
	for i, p := range r.Posts {
		r.Posts[i].Actors = append([]string(nil), p.Actors...)
		r.Posts[i].Related = append([]string(nil), p.Related...)
	}
	r.Annotate = append([]string(nil), r.Annotate...)
	r.Lists = append([]string(nil), r.Lists...)
	return r
}

func TestReadFeedMessage(t *testing.T) {
	for text, want := range feedMessages() {
		if took := messagesAgree(t, text); took != want {
			t.Errorf("%.100q: accepted %v, want %v", text, took, want)
		}
	}
	for n := range 3 {
		if !messagesAgree(t, string(marshaled(servedMessage(n, 0)))) {
			t.Errorf("feed %d is left to the generated code", n)
		}
	}
}

func FuzzReadFeedMessage(f *testing.F) {
	for text := range feedMessages() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { messagesAgree(t, text) })
}

// TestFeedAnswerMessage decodes answers with the generated code.
func TestFeedAnswerMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-zé]{0,3}`)
		kinds := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"like", "save"}), 0, 2, rapid.ID[string]).Draw(t, "annotate")
		form := rapid.SampledFrom([]answerForm{formKept, formDropped}).Draw(t, "form")
		want := &feedfilterv1.FilterResponse{Next: uint32(rapid.IntRange(0, 500).Draw(t, "next"))}
		a := feed.Answer{Annotated: make([][]int, len(kinds))}
		for _, kind := range kinds {
			want.Annotated = append(want.Annotated, &feedfilterv1.Annotated{Kind: kind})
		}
		for at := range rapid.IntRange(0, 300).Draw(t, "candidates") {
			if rapid.IntRange(0, 3).Draw(t, "dropped") == 0 {
				d := feed.Dropped{At: at, Kind: id.Draw(t, "kind"), Actor: id.Draw(t, "actor"), Unconfirmed: rapid.Bool().Draw(t, "unconfirmed")}
				a.Dropped = append(a.Dropped, d)
				want.Dropped = append(want.Dropped, &feedfilterv1.Dropped{Index: uint32(at), Kind: d.Kind, Actor: d.Actor, Unconfirmed: d.Unconfirmed})
				continue
			}
			for i := range kinds {
				if rapid.Bool().Draw(t, "annotated") {
					a.Annotated[i] = append(a.Annotated[i], at)
					want.Annotated[i].Posts = append(want.Annotated[i].Posts, uint32(at))
				}
			}
			a.Kept = append(a.Kept, at)
			if form == formKept {
				want.Kept = append(want.Kept, uint32(at))
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "degraded") {
			d := activity.Degraded{Kind: id.Draw(t, "kind"), Reason: id.Draw(t, "reason")}
			a.Degraded = append(a.Degraded, d)
			want.Degraded = append(want.Degraded, &feedfilterv1.Degraded{Kind: d.Kind, Reason: d.Reason})
		}
		a.Next = int(want.GetNext())
		text := newFeedAnswer(a, feed.Request{Annotate: kinds}, form).appendTo([]byte("x"))
		var got feedfilterv1.FilterResponse
		if err := proto.Unmarshal(text[1:], &got); err != nil || text[0] != 'x' {
			t.Fatalf("%q: %v", text, err)
		}
		if !proto.Equal(&got, want) {
			t.Fatalf("%v\nwant %v", &got, want)
		}
	})
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
	if envelope && len(answer) >= envelopeBytes {
		answer = answer[envelopeBytes:]
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
	for text := range feedMessages() {
		if len(text) < 1000 {
			f.Add(0, []byte(text))
		}
	}
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

// BenchmarkReadFeedMessage reads feeds of 500 posts with readFeedMessage and with the generated
// code.
func BenchmarkReadFeedMessage(b *testing.B) {
	bodies := make([][]byte, servedBodies)
	for n := range bodies {
		bodies[n] = marshaled(servedMessage(n, 0))
	}
	b.Run("hand", func(b *testing.B) {
		var all rooms
		reportCPU(b)
		for n := 0; b.Loop(); n++ {
			in := all.get()
			var m feedMessage
			m.read(bodies[n%servedBodies])
			if req, _, ok := readFeedMessage(m.text, in); !ok || len(req.Posts) != servedPosts {
				b.Fatal("not accepted")
			}
			all.put(in)
		}
	})
	b.Run("generated", func(b *testing.B) {
		reportCPU(b)
		for n := 0; b.Loop(); n++ {
			var m feedfilterv1.FilterRequest
			if err := readMessage(bodies[n%servedBodies], &m); err != nil {
				b.Fatal(err)
			}
			if req, _, err := feedRequest(&m); err != nil || len(req.Posts) != servedPosts {
				b.Fatal(err)
			}
		}
	})
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
		{"JSON", typeJSON, 0},
		{"Connect", "application/proto", 0}, {"Connect, dropped", "application/proto", feedfilterv1.Answer_ANSWER_DROPPED},
		{"gRPC", "application/grpc", 0}, {"gRPC, dropped", "application/grpc", feedfilterv1.Answer_ANSWER_DROPPED},
	} {
		path, bodies := procedure, make([][]byte, servedBodies)
		for n := range bodies {
			bodies[n] = marshaled(servedMessage(n, form.answer))
			if form.mediaType == typeJSON {
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
		{name: "json", path: "/v1/feed/filter", mediaType: typeJSON, client: http1},
		{name: "json-dropped", path: "/v1/feed/filter", mediaType: typeJSON, client: http1},
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
			if f.mediaType != typeJSON {
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
