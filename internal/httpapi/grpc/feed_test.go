package grpc

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/core"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

const (
	servedPosts  = 500
	servedBodies = 64
)

// servedMessage returns the n-th feed: ids of the length that large networks have, and actors on
// every fourth post.
func servedMessage(n int) *feedfilterv1.FilterRequest {
	m := &feedfilterv1.FilterRequest{Viewer: "u1"}
	for i := range servedPosts {
		at := n*servedPosts + i
		m.Posts, m.Authors = append(m.Posts, "p"+strconv.Itoa(70_000_000_000+at)), append(m.Authors, "u"+strconv.Itoa(50_000_000+at))
		if i%4 == 1 {
			m.Actors = append(m.Actors, "u"+strconv.Itoa(60_000_000+at), "u"+strconv.Itoa(61_000_000+at))
			m.ActorPosts = append(m.ActorPosts, uint32(i), uint32(i))
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
		facets(slices.Repeat([]*feedfilterv1.Facet{{}}, core.MaxTexts)...):                                                                                       true,
		facets(slices.Repeat([]*feedfilterv1.Facet{{}}, core.MaxTexts+1)...):                                                                                     false,
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
	got, form, ok := readFeedMessage(text, core.NewBuffer())
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
		if !messagesAgree(t, string(marshaled(servedMessage(n)))) {
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
		form := rapid.SampledFrom([]bool{false, true}).Draw(t, "form")
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
			if !form {
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

// BenchmarkReadFeedMessage reads feeds of 500 posts with readFeedMessage and with the generated
// code.
func BenchmarkReadFeedMessage(b *testing.B) {
	bodies := make([][]byte, servedBodies)
	for n := range bodies {
		bodies[n] = marshaled(servedMessage(n))
	}
	b.Run("hand", func(b *testing.B) {
		var all core.Buffers
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			in := all.Get()
			var m feedMessage
			m.read(bodies[n%servedBodies])
			if req, _, ok := readFeedMessage(m.text, in); !ok || len(req.Posts) != servedPosts {
				b.Fatal("not accepted")
			}
			all.Put(in)
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
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
