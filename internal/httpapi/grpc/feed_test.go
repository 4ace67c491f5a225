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
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
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

// feedMessages returns valid and invalid messages.
func feedMessages() []string {
	text := func(m *feedfilterv1.FilterRequest) string { return string(marshaled(m)) }
	posts := make([]string, feed.MaxPosts)
	all := &feedfilterv1.FilterRequest{
		Viewer: "1", Posts: []string{"a", "b", ""}, Authors: []string{"x", "", "é"}, Actors: []string{"u", "v", "w"}, ActorPosts: []uint32{0, 2, 2},
		Kinds: &feedfilterv1.KindNames{Names: []string{"block", ""}}, Annotate: []string{"like", "x"}, Limit: feed.MaxPosts, RecordSeen: true, Exact: true,
		Answer:     feedfilterv1.Answer_ANSWER_DROPPED,
		ActorRoles: []string{"", "repost", "é"}, Related: []string{"r", ""}, RelatedPosts: []uint32{1, 2}, Lists: []string{"l", "é", ""},
		Texts: []string{"é a", "", "b"},
		Facets: []*feedfilterv1.Facet{
			{Name: "tag", Ids: []string{"go", "redis", ""}, Posts: []uint32{0, 0, 2}}, {Name: "domain", Ids: []string{"é"}, Posts: []uint32{2}}, {Name: "x"},
		},
	}
	facets := func(all ...*feedfilterv1.Facet) string {
		return text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Facets: all})
	}
	return []string{
		text(all),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Texts: []string{"t"}}),
		facets(), facets(&feedfilterv1.Facet{}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Actors: []string{"u", "v"}, ActorPosts: []uint32{0, 1}, ActorRoles: []string{"", "repost"}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Actors: []string{"u", "v"}, ActorPosts: []uint32{0, 1}, ActorRoles: []string{"repost"}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, ActorRoles: []string{"repost"}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Related: []string{"u", "v"}, RelatedPosts: []uint32{1, 1}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Related: []string{"u", "v"}, RelatedPosts: []uint32{1, 0}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Related: []string{"u"}, RelatedPosts: []uint32{1}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Related: []string{"u"}}),
		text(&feedfilterv1.FilterRequest{Related: make([]string, feed.MaxIDs+1), RelatedPosts: make([]uint32, feed.MaxIDs+1)}),
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"go"}, Posts: []uint32{1}}),
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"go"}}),
		facets(&feedfilterv1.Facet{Name: "tag", Posts: []uint32{1}}),
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"go"}, Posts: []uint32{2}}),
		facets(&feedfilterv1.Facet{Name: "tag", Ids: []string{"a", "b"}, Posts: []uint32{1, 0}}),
		facets(slices.Repeat([]*feedfilterv1.Facet{{Name: "tag", Ids: []string{"go"}, Posts: []uint32{0}}}, 2)...),
		facets(&feedfilterv1.Facet{Ids: make([]string, feed.MaxIDs+1), Posts: make([]uint32, feed.MaxIDs+1)}),
		facets(slices.Repeat([]*feedfilterv1.Facet{{}}, wire.MaxTexts)...),
		facets(slices.Repeat([]*feedfilterv1.Facet{{}}, wire.MaxTexts+1)...),
		"\x62\x03\x0a\x01\xff", "\x62\x02\x10\x01", "\x62\x02\x22\x00", "\x62\x02\x0a\x01", "\x62\x04\x0a\x00\x0a\x00",
		"\x62\x04\x12\x00\x0a\x00", "\x60\x01", "\x62\x03\x1a\x01\xff",
		"",
		text(&feedfilterv1.FilterRequest{Posts: posts}),
		text(&feedfilterv1.FilterRequest{Kinds: &feedfilterv1.KindNames{}, Answer: feedfilterv1.Answer_ANSWER_KEPT}),
		text(&feedfilterv1.FilterRequest{Viewer: strings.Repeat("x", 300)}),
		text(&feedfilterv1.FilterRequest{Posts: slices.Concat(posts, []string{""})}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Authors: []string{"x", "y"}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Authors: []string{"x"}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Actors: []string{"x"}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, ActorPosts: []uint32{0}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Actors: []string{"x"}, ActorPosts: []uint32{1}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a"}, Actors: []string{"x"}, ActorPosts: []uint32{1<<32 - 1}}),
		text(&feedfilterv1.FilterRequest{Posts: []string{"a", "b"}, Actors: []string{"x", "y"}, ActorPosts: []uint32{1, 0}}),
		text(&feedfilterv1.FilterRequest{Limit: feed.MaxPosts + 1}),
		text(&feedfilterv1.FilterRequest{Limit: 1<<32 - 1}),
		text(&feedfilterv1.FilterRequest{Answer: 3}),
		text(&feedfilterv1.FilterRequest{Answer: -1}),
		"\x4a\x00", "\x48\x02", "\x0a", "\x0a\x05x", "\x0b", "\x0a\x011\x0a\x012",
		"\x12\x01a\x0a\x011", "\x12\xff\xff\xff\xff\x7f", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x00", "\x7a\x00", "\x82\x01\x00", "\x8a\x01\x00", "\x78\x00",
		"\xfa\xff\xff\xff\x0f\x12\x01a\x12\x0e" + strings.Repeat("x", 14), // the field with the highest number
		"\"\x0300\xd0\xa00B\x010", // an id ends within a letter
		"\x32\x02\x0a\x05", "\x32\x02\x12\x00", "\x3a\x01\xff", "\x28\x00", "\x32\x03\x0a\x01\xff",
	}
}

// messagesAgree fails t unless a message means the same as to the generated code, which also
// refuses ids that are not UTF-8. It reports whether the message is valid.
func messagesAgree(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string) bool {
	t.Helper()
	got, dropped, err := (&feedMessage{text}).decode(wire.NewBuffer())
	if err == nil {
		for _, p := range got.Posts { // the feed refuses these
			if !utf8.ValidString(p.ID + "|" + p.Author + "|" + fmt.Sprint(p.Actors, p.Roles)) {
				return false
			}
		}
	}
	want, wantDropped, wantErr := generatedRequest(text)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) && !notUTF8(text) {
		t.Fatalf("%q: %v, want %v", text, err, wantErr)
	}
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(plainRequest(got), plainRequest(want)) || dropped != wantDropped {
		t.Fatalf("%q is read as\n%#v, %v, %v\nwant\n%#v, %v, %v", text, got, dropped, err, want, wantDropped, wantErr)
	}
	return err == nil
}

// notUTF8 reports whether the generated code finds text that is not UTF-8, before anything else.
func notUTF8(text string) bool {
	err := proto.Unmarshal([]byte(text), new(feedfilterv1.FilterRequest))
	return err != nil && strings.Contains(err.Error(), "invalid UTF-8")
}

// generatedRequest reads a FilterRequest with the generated code.
func generatedRequest(text string) (feed.Request, bool, error) {
	var m feedfilterv1.FilterRequest
	if err := readMessage([]byte(text), &m); err != nil {
		return feed.Request{}, false, err
	}
	posts := make([]feed.Post, len(m.GetPosts()))
	for i, id := range m.GetPosts() {
		posts[i].ID = id
	}
	if n := len(m.GetAuthors()); n > 0 && n != len(posts) {
		return feed.Request{}, false, wire.Refuse(activity.CodeOutOfRange, "authors", fmt.Sprintf("%d authors for %d posts", n, len(posts)))
	}
	for i, author := range m.GetAuthors() {
		posts[i].Author = author
	}
	return feedRequest(&m, posts)
}

// plainRequest returns r with nil for empty lists that mean the same.
func plainRequest(r feed.Request) feed.Request {
	r.Posts = append([]feed.Post(nil), r.Posts...)
	for i, p := range r.Posts {
		r.Posts[i].Actors = append([]string(nil), p.Actors...)
		r.Posts[i].Related = append([]string(nil), p.Related...)
	}
	return r
}

// TestReadFeedMessage reads messages, and with each byte of the short ones changed or left out.
func TestReadFeedMessage(t *testing.T) {
	valid := 0
	for _, text := range feedMessages() {
		messagesAgree(t, text)
		if len(text) > 1000 {
			continue
		}
		for at := range text {
			messagesAgree(t, text[:at]+text[at+1:])
			for _, c := range []byte("\x00\x01\x02\x08\x12\x22\x20\x7f\x80\xff") {
				if messagesAgree(t, text[:at]+string([]byte{c})+text[at+1:]) {
					valid++
				}
			}
		}
	}
	if valid == 0 {
		t.Error("no changed message was valid")
	}
}

// TestReadFeedMessageAlone checks that the generated code reads no list of a usual feed: it would
// allocate each id.
func TestReadFeedMessageAlone(t *testing.T) {
	m, buffers := feedMessage{string(marshaled(servedMessage(0)))}, new(wire.Buffers)
	n := testing.AllocsPerRun(20, func() {
		in := buffers.Get()
		if req, _, err := m.decode(in); err != nil || len(req.Posts) != servedPosts {
			t.Fatal(err)
		}
		buffers.Put(in)
	})
	if n > servedPosts/10 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzReadFeedMessage(f *testing.F) {
	for _, text := range feedMessages() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { messagesAgree(t, text) })
}

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
		if got := feedAnswer(a, feed.Request{Annotate: kinds}, form); !proto.Equal(got, want) {
			t.Fatalf("%v\nwant %v", got, want)
		}
	})
}

// BenchmarkReadFeedMessage reads feeds of 500 posts by hand and with the generated code.
func BenchmarkReadFeedMessage(b *testing.B) {
	bodies := make([][]byte, servedBodies)
	for n := range bodies {
		bodies[n] = marshaled(servedMessage(n))
	}
	for name, read := range map[string]func(data []byte, in *wire.Buffer) (feed.Request, bool, error){
		"hand": func(data []byte, in *wire.Buffer) (feed.Request, bool, error) {
			return (&feedMessage{string(data)}).decode(in)
		},
		"generated": func(data []byte, _ *wire.Buffer) (feed.Request, bool, error) { return generatedRequest(string(data)) },
	} {
		b.Run(name, func(b *testing.B) {
			var all wire.Buffers
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				in := all.Get()
				if req, _, err := read(bodies[n%servedBodies], in); err != nil || len(req.Posts) != servedPosts {
					b.Fatal(err)
				}
				all.Put(in)
			}
		})
	}
}
