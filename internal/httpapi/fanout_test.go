package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/feed"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// fanoutsRead returns valid and invalid bodies of fan-outs. True: readFanout must accept the body.
func fanoutsRead() map[string]bool {
	return map[string]bool{
		`{"post":"p","author":"2","actors":["5",{"id":"6","role":"repost"}],"related":["q"],"facets":{"tag":["x","y"]},` +
			`"viewers":["1","\u0033",""],"kinds":["block"],"exact":true}`: true,
		"{ \t\"viewers\" :\r\n[ \"1\" , \"2\" ] \n}": true,
		`{"viewers":[]}`: true, `{"viewers":[],"kinds":[],"actors":[],"related":[],"facets":{},"exact":false,"post":""}`: true,
		``: false, `{}`: false, `[]`: false, `{"author":"2"}`: false, `{"viewers":null}`: false, `{"viewers":[null]}`: false,
		`{"viewers":[1]}`: false, `{"viewers":"1"}`: false, `{"viewers":["1",]}`: false, `{"viewers":["1"}`: false, `{"viewers":[]}}`: false,
		`{"viewers":[],"viewers":[]}`: false, `{"viewers":[],"post":"1","post":"1"}`: false, `{"viewers":[],"x":1}`: false,
		`{"Viewers":[]}`: false, `{"viewers":[],"exact":1}`: false, `{"viewers":[],"facets":null}`: false, "{\"viewers\":[\"\xff\"]}": false,
		`{"viewers":[` + strings.TrimSuffix(strings.Repeat(`"",`, feed.MaxViewers), ",") + `]}`:   true,
		`{"viewers":[` + strings.TrimSuffix(strings.Repeat(`"",`, feed.MaxViewers+1), ",") + `]}`: false,
	}
}

// fanoutAgrees fails t unless readFanout and the strict decoder agree on a body that readFanout
// accepts. It reports whether readFanout accepted the body.
func fanoutAgrees(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, body string) bool {
	t.Helper()
	got, ok := readFanout(body, newRoom())
	if !ok {
		return false
	}
	var decoded fanoutRequest
	err := json.Unmarshal([]byte(body), &decoded, strict())
	want, missing := decoded.request()
	if err != nil || missing != nil {
		t.Fatalf("%q is read as %+v, want it refused: %v, %v", body, got, err, missing)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is read as\n%#v\nwant\n%#v", body, got, want)
	}
	return true
}

// TestReadFanout reads bodies, and with each byte of the short ones changed, added or left out.
func TestReadFanout(t *testing.T) {
	taken := 0
	for body, want := range fanoutsRead() {
		if took := fanoutAgrees(t, body); took != want {
			t.Errorf("%.200q: accepted %v, want %v", body, took, want)
		}
		if !want || len(body) > 1000 {
			continue
		}
		for at := range body {
			fanoutAgrees(t, body[:at]+body[at+1:])
			for _, c := range []byte("\x00\t \"\\{}[],:0a1-ntf\x7f\x80\xc3\xff") {
				if fanoutAgrees(t, body[:at]+string([]byte{c})+body[at+1:]) {
					taken++
				}
				fanoutAgrees(t, body[:at]+string([]byte{c})+body[at:])
			}
		}
	}
	if taken == 0 {
		t.Error("no changed body was accepted")
	}
}

func FuzzReadFanout(f *testing.F) {
	for body := range fanoutsRead() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { fanoutAgrees(t, body) })
}

// fanoutMessageAgrees fails t unless a message means the same as to the generated code, which also
// refuses ids that are not UTF-8. It reports whether the message is valid.
func fanoutMessageAgrees(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string) bool {
	t.Helper()
	var want feedfilterv1.FanoutRequest
	wantErr := readMessage([]byte(text), &want)
	in := fanoutMessage{text}
	got, err := in.decode(newRoom())
	if wantErr != nil {
		if err == nil && utf8.ValidString(strings.Join(got.GetViewers(), "")) {
			t.Fatalf("%q is read as %v, want it refused: %v", text, got, wantErr)
		}
		return false
	}
	if err != nil || !proto.Equal(got, &want) {
		t.Fatalf("%q is read as\n%v, %v\nwant\n%v", text, got, err, &want)
	}
	return true
}

func fanoutMessages() []string {
	text := func(m *feedfilterv1.FanoutRequest) string { return string(marshaled(m)) }
	all := &feedfilterv1.FanoutRequest{
		Author: "2", Actors: []string{"5", "6"}, ActorRoles: []string{"", "repost"}, Viewers: []string{"1", "", "\u00e9", strings.Repeat("x", 200), "3"},
		Kinds: &feedfilterv1.KindNames{Names: []string{"block"}}, Exact: true, Post: "p", Related: []string{"q"},
		Facets: []*feedfilterv1.Facet{{Name: "tag", Ids: []string{"x"}}},
	}
	return []string{
		"", text(all), text(all) + text(all), text(&feedfilterv1.FanoutRequest{Viewers: make([]string, feed.MaxViewers)}),
		text(&feedfilterv1.FanoutRequest{Viewers: make([]string, feed.MaxViewers+1)}), "\x22", "\x22\x02\xff\xff", "\x22\x01", "\x20\x01", "\x0d\x00\x00\x00\x00",
	}
}

// TestReadFanoutMessage reads messages, and with each byte of the short ones changed or left out.
func TestReadFanoutMessage(t *testing.T) {
	valid := 0
	for _, text := range fanoutMessages() {
		fanoutMessageAgrees(t, text)
		if len(text) > 1000 {
			continue
		}
		for at := range text {
			fanoutMessageAgrees(t, text[:at]+text[at+1:])
			for _, c := range []byte("\x00\x01\x02\x08\x22\x20\x7f\x80\xff") {
				if fanoutMessageAgrees(t, text[:at]+string([]byte{c})+text[at+1:]) {
					valid++
				}
			}
		}
	}
	if valid == 0 {
		t.Error("no changed message was valid")
	}
}

func FuzzReadFanoutMessage(f *testing.F) {
	for _, text := range fanoutMessages() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fanoutMessageAgrees(t, text) })
}

// BenchmarkFanoutForms answers 10,000 viewers of a new post by a user with 1,000 blocks, in turns
// with feeds of 1,000 posts that record what they show, in process. x-feed is the ratio of the
// medians.
func BenchmarkFanoutForms(b *testing.B) {
	h, end, err := feedServiceAt(b.Context(), b.TempDir(), 1e-4)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = end() })
	ask := func(path, mediaType string, body []byte) time.Duration {
		start := time.Now()
		w, answer := askProcedure(h, path, mediaType, body)
		took := time.Since(start)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, string(answer))
		}
		return took
	}
	for name, mediaType := range map[string]string{"JSON": typeJSON, "gRPC": "application/grpc"} {
		b.Run(name, func(b *testing.B) {
			feedPath, fanoutPath := "/v1/feed/filter", "/v1/fanout/filter"
			if mediaType != typeJSON {
				feedPath = feedfilterv1connect.FeedServiceFilterProcedure
				fanoutPath = feedfilterv1connect.FeedServiceFanoutProcedure
			}
			var feedBodies, fanoutBodies [servedBodies][]byte
			for n := range servedBodies {
				feedBodies[n], fanoutBodies[n] = bodiesOfFanout(n, mediaType)
			}
			var feeds, fanouts []time.Duration
			for n := 0; b.Loop(); n++ {
				feeds = append(feeds, ask(feedPath, mediaType, feedBodies[n%servedBodies]))
				fanouts = append(fanouts, ask(fanoutPath, mediaType, fanoutBodies[n%servedBodies]))
			}
			slices.Sort(feeds)
			slices.Sort(fanouts)
			of, fanout := feeds[len(feeds)/2], fanouts[len(fanouts)/2]
			b.ReportMetric(float64(fanout)/float64(of), "x-feed")
			b.ReportMetric(float64(of.Microseconds()), "feed-us")
			b.ReportMetric(float64(fanout.Microseconds()), "fanout-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bodiesOfFanout returns the n-th feed and the n-th fan-out.
func bodiesOfFanout(n int, mediaType string) (of, fanout []byte) {
	viewers := make([]string, feed.MaxViewers)
	for i := range viewers {
		if viewers[i] = "u" + strconv.Itoa(80_000_000+n%100*feed.MaxViewers+i); i%100 == 0 {
			viewers[i] = "b" + strconv.Itoa(i/100)
		}
	}
	m := &feedfilterv1.FilterRequest{Viewer: "u" + strconv.Itoa(n), RecordSeen: true, Answer: feedfilterv1.Answer_ANSWER_DROPPED}
	var posts strings.Builder
	for i := range 1000 {
		post, author := "p"+strconv.Itoa(70_000_000_000+n*1000+i), "u"+strconv.Itoa(50_000_000+n%100*1000+i)
		m.Posts, m.Authors = append(m.Posts, post), append(m.Authors, author)
		fmt.Fprintf(&posts, `{"id":%q,"author":%q},`, post, author)
	}
	if mediaType != typeJSON {
		return marshaled(m), marshaled(&feedfilterv1.FanoutRequest{Post: "p1", Author: "u1", Viewers: viewers})
	}
	of = fmt.Appendf(nil, `{"viewer":%q,"record_seen":true,"answer":"dropped","posts":[%s]}`, m.GetViewer(), strings.TrimSuffix(posts.String(), ","))
	fanout, _ = json.Marshal(map[string]any{"post": "p1", "author": "u1", "viewers": viewers})
	return of, fanout
}
