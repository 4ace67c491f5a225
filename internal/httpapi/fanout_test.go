package httpapi

import (
	"bytes"
	"fmt"
	"io"
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

// BenchmarkServedFanout compares the processor time of a separate service process for 10,000
// viewers of a new post with that for a feed of 1,000 posts. The author has 1,000 blocks. They take
// turns, in rounds that are long enough to include garbage collection. x-feed is the ratio of the
// medians.
func BenchmarkServedFanout(b *testing.B) {
	const round = servedBodies
	s := startServed(b, "service")
	ask := func(path, mediaType string, body []byte) {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+s.addr+path, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", mediaType)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatalf("%s: %s %.200s, %v", path, res.Status, answer, err)
		}
	}
	for _, form := range [][]string{
		{"JSON", typeJSON, "/v1/feed/filter", "/v1/fanout/filter"},
		{"Protobuf", "application/proto", feedfilterv1connect.FeedServiceFilterProcedure, feedfilterv1connect.FeedServiceFanoutProcedure},
	} {
		for _, record := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/record=%t", form[0], record), func(b *testing.B) {
				feedBodies, fanoutBodies := make([][]byte, round), make([][]byte, round)
				for n := range round {
					feedBodies[n], fanoutBodies[n] = bodiesOfFanout(n, form[1], record)
				}
				var feeds, fanouts []time.Duration
				for b.Loop() {
					start := s.cpu(b)
					for _, body := range feedBodies {
						ask(form[2], form[1], body)
					}
					between := s.cpu(b)
					for _, body := range fanoutBodies {
						ask(form[3], form[1], body)
					}
					feeds, fanouts = append(feeds, between-start), append(fanouts, s.cpu(b)-between)
				}
				slices.Sort(feeds)
				slices.Sort(fanouts)
				of, fanout := feeds[len(feeds)/2]/round, fanouts[len(fanouts)/2]/round
				b.ReportMetric(float64(fanout)/float64(of), "x-feed")
				b.ReportMetric(float64(of.Microseconds()), "feed-us")
				b.ReportMetric(float64(fanout.Microseconds()), "fanout-us")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// bodiesOfFanout returns the n-th feed and the n-th fan-out.
func bodiesOfFanout(n int, mediaType string, record bool) (of, fanout []byte) {
	viewers := make([]string, feed.MaxViewers)
	for i := range viewers {
		if viewers[i] = "u" + strconv.Itoa(80_000_000+n%100*feed.MaxViewers+i); i%100 == 0 {
			viewers[i] = "b" + strconv.Itoa(i/100)
		}
	}
	m := &feedfilterv1.FilterRequest{Viewer: fmt.Sprint(mediaType, record, n), RecordSeen: record, Answer: feedfilterv1.Answer_ANSWER_DROPPED}
	var posts strings.Builder
	for i := range 1000 {
		post, author := "p"+strconv.Itoa(70_000_000_000+n*1000+i), "u"+strconv.Itoa(50_000_000+n%100*1000+i)
		m.Posts, m.Authors = append(m.Posts, post), append(m.Authors, author)
		fmt.Fprintf(&posts, `{"id":%q,"author":%q},`, post, author)
	}
	if mediaType != typeJSON {
		return marshaled(m), marshaled(&feedfilterv1.FanoutRequest{Post: "p1", Author: "u1", Viewers: viewers})
	}
	of = fmt.Appendf(nil, `{"viewer":%q,"record_seen":%t,"answer":"dropped","posts":[%s]}`, m.GetViewer(), record, strings.TrimSuffix(posts.String(), ","))
	fanout, _ = json.Marshal(map[string]any{"post": "p1", "author": "u1", "viewers": viewers})
	return of, fanout
}
