package rest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// feedBodies returns valid and invalid bodies of feeds, at least one for each rule of readFeed.
// True: readFeed must accept the body. It may leave the others to the strict decoder.
func feedBodies() map[string]bool {
	return map[string]bool{
		`{"viewer":"1","posts":[{"id":"p9","author":"3","actors":["7"]},{"id":"p8","author":"2"}],"kinds":["block","hide","seen"],` +
			`"annotate":["like"],"limit":50,"record_seen":true,"exact":false}`: true,
		" {\t\"viewer\" :\r\n\"1\" , \"posts\" : [ { \"id\" : \"p\" , \"actors\" : [ \"a\" , \"b\" ] } , { } ] , \"exact\" : true } \n": true,
		`{"posts":[]}`: true,
		`{"posts":[{}],"kinds":[],"annotate":[]}`:                                                                      true,
		`{"posts":[{"actors":[]},{"actors":["a"]},{"actors":["b","c"]}]}`:                                              true,
		`{"posts":[{"id":"p","facets":{"domain":["x.example"],"tag":["go","redis"]}}]}`:                                true,
		`{"posts":[{"facets":{}},{"facets":{"":[]}},{"facets":{"t\u0061g":["\u0061"]}}]}`:                              true,
		`{"posts":[{"actors":["a",{"id":"b","role":"repost"},{"role":"x","id":"c"},{"id":"d"},{}]},{"actors":["e"]}]}`: true,
		`{"posts":[],"lists":["a","\u0062"]}`:                                                                          true, `{"posts":[],"lists":[]}`: true,
		`{"posts":[],"lists":null}`: false, `{"posts":[],"lists":[1]}`: false, `{"posts":[],"lists":[],"lists":[]}`: false, `{"posts":[],"lists":"a"}`: false,
		`{"posts":[{"id":"p","related":["a","\u0062"]},{"related":[]}]}`: true,
		`{"posts":[{"actors":[{"id":"b","id":"b"}]}]}`:                   false, `{"posts":[{"actors":[{"ID":"b"}]}]}`: false, `{"posts":[{"actors":[["b"]]}]}`: false,
		`{"posts":[{"actors":[null]}]}`: false, `{"posts":[{"actors":[{"role":null}]}]}`: false, `{"posts":[{"actors":[{"id":1}]}]}`: false,
		`{"posts":[{"actors":["\q"{"id":"7"}]}]}`: false, "{\"posts\":[{\"actors\":[\"\n{\"id\":\"7\"}]}]}": false, `{"posts":[{"actors":[1{"id":"7"}]}]}`: false,
		`{"posts":[{"related":null}]}`: false, `{"posts":[{"related":[null]}]}`: false, `{"posts":[{"related":"a"}]}`: false,
		`{"viewer":"é\u00e9\ud83d\ude00😀\/\"\\\b\f\n\r\t","posts":[]}`:                      true,
		`{"\u0070osts":[],"viewe\u0072":"1"}`:                                               true,
		"{\"viewer\":\"\u2028\u007f\ufffd\",\"posts\":[]}":                                  true,
		`{"viewer":"]}{[","posts":[{"id":"},{"}]}`:                                          true,
		`{"posts":[],"limit":1}`:                                                            true,
		`{"posts":[],"limit":99999}`:                                                        true,
		`{"posts":[` + strings.TrimSuffix(strings.Repeat("{},", feed.MaxPosts), ",") + `]}`: true,

		`{"posts":[` + strings.TrimSuffix(strings.Repeat("{},", feed.MaxPosts+1), ",") + `]}`: false,
		``: false, ` `: false, `{`: false, `[]`: false, `null`: false, `{}`: false, `{"viewer":"1"}`: false, `{}{}`: false, `{,}`: false,
		`{"posts":[],"answer":"dropped"}`: true, `{"posts":[],"answer":"kept"}`: true, `{"posts":[],"answer":"\u006bept"}`: true,
		`{"posts":[],"answer":""}`: false, `{"posts":[],"answer":"Dropped"}`: false, `{"posts":[],"answer":null}`: false, `{"posts":[],"answer":1}`: false,
		`{"posts":[],"answer":"kept","answer":"kept"}`: false,
		`{"posts":[]`: false, `{"posts":[]}}`: false, `{"posts":[]} x`: false, `{"posts":[],}`: false, `{"posts":[{},]}`: false,
		`{"posts":[{}{}]}`: false, `{"posts":[,{}]}`: false, `{"posts":[{"id":"a",}]}`: false, `{"posts":[{"id"}]}`: false,
		`{"posts" []}`: false, `{posts:[]}`: false, `{'posts':[]}`: false, `{"Posts":[]}`: false, `{"posts":[{"ID":"a"}]}`: false,
		`{"posts":[],"posts":[]}`: false, `{"posts":[],"\u0070osts":[]}`: false, `{"posts":[],"x":1}`: false, `{"posts":[],"":1}`: false,
		`{"posts":[{"id":"a","id":"a"}]}`: false, `{"posts":[{"lang":"a"}]}`: false, `{"posts":[],"viewer":"1","viewer":"1"}`: false,
		`{"posts":[],"kinds":[],"kinds":[]}`: false, `{"posts":[{"actors":[],"actors":[]}]}`: false, `{"posts":[],"exact":true,"exact":true}`: false,
		`{"posts":null}`: false, `{"posts":[null]}`: false, `{"posts":[],"viewer":null}`: false, `{"posts":[],"kinds":null}`: false,
		`{"posts":[],"kinds":[null]}`: false, `{"posts":[],"limit":null}`: false, `{"posts":[],"exact":null}`: false,
		`{"posts":[{"actors":null}]}`: false, `{"posts":{}}`: false, `{"posts":""}`: false, `{"posts":[[]]}`: false, `{"posts":[""]}`: false,
		`{"posts":[{"facets":null}]}`: false, `{"posts":[{"facets":[]}]}`: false, `{"posts":[{"facets":{"tag":"a"}}]}`: false,
		`{"posts":[{"facets":{"tag":null}}]}`: false, `{"posts":[{"facets":{"tag":[1]}}]}`: false, `{"posts":[{"facets":{"tag":[],"t\u0061g":[]}}]}`: false,
		`{"posts":[{"facets":{"tag":["a"],}}]}`: false, `{"posts":[{"facets":{"tag"}}]}`: false, `{"posts":[{"facets":{},"facets":{}}]}`: false,
		`{"posts":[{"facets":{"tag":["a"]}]}`: false,
		`{"posts":[{"id":1}]}`:                false, `{"posts":[{"id":{}}]}`: false, `{"posts":[],"viewer":1}`: false, `{"posts":[],"kinds":"a"}`: false,
		`{"posts":[],"limit":0}`: false, `{"posts":[],"limit":-1}`: false, `{"posts":[],"limit":01}`: false, `{"posts":[],"limit":1.0}`: false,
		`{"posts":[],"limit":1e2}`: false, `{"posts":[],"limit":100000}`: false, `{"posts":[],"limit":}`: false, `{"posts":[],"limit":"1"}`: false,
		`{"posts":[],"limit":18446744073709551617}`: false, `{"posts":[],"limit":1`: false, `{"posts":[],"limit":+1}`: false,
		`{"posts":[],"exact":1}`: false, `{"posts":[],"exact":tru}`: false, `{"posts":[],"exact":trues}`: false, `{"posts":[],"exact":True}`: false,
		"{\"posts\":[],\"viewer\":\"\xff\"}": false, "{\"posts\":[],\"viewer\":\"\xed\xa0\x80\"}": false, "{\"posts\":[]}\xff": false,
		"\ufeff{\"posts\":[]}": false, "{\"posts\":[]}\x00": false, "{\"posts\":[],\u00a0\"viewer\":\"1\"}": false,
		"{\"posts\":[],\"viewer\":\"a\nb\"}": false, "{\"posts\":[],\"viewer\":\"\\n\n\"}": false, "{\"posts\":[],\"viewer\":\"\x1f\"}": false,
		`{"posts":[],"viewer":"\ud800"}`: false, `{"posts":[],"viewer":"\ud800\u0041"}`: false, `{"posts":[],"viewer":"\udc00"}`: false,
		`{"posts":[],"viewer":"\x41"}`: false, `{"posts":[],"viewer":"\u00"}`: false, `{"posts":[],"viewer":"\`: false, `{"posts":[],"viewer":"\"}`: false,
		`{"posts":[],"viewer":"a}`: false, `{"posts":[],"viewer":"\u00zz"}`: false,
	}
}

// agree fails t unless readFeed and the strict decoder agree on a body that readFeed accepts. It
// reports whether readFeed accepted the body.
func agree(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, body string) bool {
	t.Helper()
	in := wire.NewBuffer()
	got, ok := readFeed(body, in)
	if !ok {
		return false
	}
	var decoded filterRequest
	if err := json.Unmarshal([]byte(body), &decoded, strict()); err != nil {
		t.Fatalf("%q is read as %+v, want it refused: %v", body, got, err)
	}
	want, err := decoded.request()
	if err != nil {
		t.Fatalf("%q is read as %+v, want it refused: %v", body, got, err)
	}
	if form, err := decoded.dropped(); err != nil || form != in.DroppedOnly {
		t.Fatalf("%q asks for the form %v, %v, and is read as %v", body, form, err, in.DroppedOnly)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is read as\n%#v\nwant\n%#v", body, got, want)
	}
	return true
}

func TestReadFeed(t *testing.T) {
	for body, want := range feedBodies() {
		if took := agree(t, body); took != want {
			t.Errorf("%.200q: accepted %v, want %v", body, took, want)
		}
	}
}

// TestReadFeedMutants changes single bytes of valid bodies. Most results are invalid.
func TestReadFeedMutants(t *testing.T) {
	mutants, taken := 0, 0
	for body, sound := range feedBodies() {
		if !sound || len(body) > 1000 {
			continue
		}
		for at := range body {
			for _, c := range []byte("\x00\t \"\\{}[],:0a1-ntf\x7f\x80\xc3\xff") {
				for _, mutant := range []string{body[:at] + string([]byte{c}) + body[at+1:], body[:at] + string([]byte{c}) + body[at:]} {
					mutants++
					if agree(t, mutant) {
						taken++
					}
				}
			}
			agree(t, body[:at]+body[at+1:])
			agree(t, body[:at])
		}
	}
	if taken == 0 || taken > mutants/2 {
		t.Errorf("%d of %d accepted", taken, mutants)
	}
}

// fragments are parts of bodies, valid and invalid ones. Sequences of them reach states that single
// changed bytes do not.
func fragments() []string {
	return []string{
		`"a"`, `"\u0061"`, `"\q"`, `"`, `\`, "\n", "\"\n\"", `{`, `}`, `[`, `]`, `,`, `:`, `"id":`, `"role":"x"`, `{"id":"a"}`, `["a"]`, `{"tag":["a"]}`,
		`"id":"b"`, `"actors":`, `"facets":`, `"related":`, `null`, `true`, `1`, `{}`, `[]`,
	}
}

// contexts are bodies with a place for fragments.
func contexts() []string {
	return []string{
		`%s`, `{"posts":[],%s}`, `{"posts":%s}`, `{"posts":[%s]}`, `{"posts":[{%s}]}`, `{"posts":[{"actors":%s}]}`, `{"posts":[{"actors":[%s]}]}`,
		`{"posts":[{"actors":[{%s}]}]}`, `{"posts":[{"facets":%s}]}`, `{"posts":[{"facets":{"tag":[%s]}}]}`, `{"posts":[],"viewer":%s}`, `{"posts":[],"exact":%s}`,
		`{"viewers":[%s]}`, `{"viewers":[],"actors":[%s]}`, `{"viewers":[],%s}`,
	}
}

// agreeAll is agree for a body of either call.
func agreeAll(t *testing.T, body string) {
	t.Helper()
	agree(t, body)
	fanoutAgrees(t, body)
}

// TestReadFeedFragments reads every sequence of up to three fragments in every context.
func TestReadFeedFragments(t *testing.T) {
	all := fragments()
	for _, context := range contexts() {
		for _, a := range all {
			for _, b := range append(all, "") {
				for _, c := range append(all, "") {
					agreeAll(t, strings.Replace(context, "%s", a+b+c, 1))
				}
			}
		}
	}
}

// FuzzReadFeed reads any body, and one of fragments that the first bytes of the body choose.
func FuzzReadFeed(f *testing.F) {
	all, places := fragments(), contexts()
	for body := range feedBodies() {
		f.Add(body)
	}
	for context := range places {
		for n := range all {
			f.Add(string([]byte{byte(context), byte(n), byte(n + 1), byte(n + 2)}))
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		agreeAll(t, body)
		if body == "" {
			return
		}
		var text strings.Builder
		for _, c := range []byte(body[1:min(len(body), 64)]) {
			text.WriteString(all[int(c)%len(all)])
		}
		agreeAll(t, strings.Replace(places[int(body[0])%len(places)], "%s", text.String(), 1))
	})
}

// TestReadFeedRoom: a body of braces does not reserve memory for as many posts as it has bytes.
func TestReadFeedRoom(t *testing.T) {
	body := `{"viewer":"` + strings.Repeat("{", 1<<20) + `","posts":[{}]}`
	req, ok := readFeed(body, wire.NewBuffer())
	if !ok || len(req.Posts) != 1 || cap(req.Posts) > feed.MaxPosts {
		t.Errorf("accepted %v, %d posts with capacity %d", ok, len(req.Posts), cap(req.Posts))
	}
	if unsafe.StringData(req.Viewer) != unsafe.StringData(body[len(`{"viewer":"`):]) {
		t.Error("the viewer was copied")
	}
}

// filterAnswer is the answer of appendFeed in the API.
type filterAnswer struct {
	Posts    []jsontext.Value    `json:"posts"`
	Dropped  []droppedPost       `json:"dropped"`
	Next     int                 `json:"next,omitzero"`
	Degraded []activity.Degraded `json:"degraded"`
}

// droppedPost has the fields of a [feed.Dropped].
type droppedPost struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	Actor       string `json:"actor,omitzero"`
	Unconfirmed bool   `json:"unconfirmed,omitzero"`
}

// TestAppendFeed compares appendFeed with the JSON library.
func TestAppendFeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.StringMatching(`[ -~]{1,12}`), rapid.StringN(1, 20, 60))
		annotate := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{3}`), 0, 2, rapid.ID).Draw(t, "annotate")
		req := feed.Request{Annotate: annotate}
		a := feed.Answer{Annotated: make([][]int, len(annotate)), Next: rapid.SampledFrom([]int{0, 1, feed.MaxPosts - 1}).Draw(t, "next")}
		want := filterAnswer{Posts: []jsontext.Value{}, Dropped: []droppedPost{}, Next: a.Next, Degraded: []activity.Degraded{}}
		for at := range rapid.IntRange(0, 6).Draw(t, "candidates") {
			p := feed.Post{ID: id.Draw(t, "id")}
			req.Posts = append(req.Posts, p)
			if rapid.Bool().Draw(t, "kept") {
				a.Kept = append(a.Kept, at)
				quoted, err := json.Marshal(p.ID)
				if err != nil {
					t.Fatal(err)
				}
				post := `{"id":` + string(quoted)
				for i, kind := range annotate {
					annotated := rapid.Bool().Draw(t, "annotated")
					if post += fmt.Sprintf(",%q:%v", kind, annotated); annotated {
						a.Annotated[i] = append(a.Annotated[i], at)
					}
				}
				want.Posts = append(want.Posts, jsontext.Value(post+"}"))
				continue
			}
			d := feed.Dropped{At: at, Kind: "block", Actor: rapid.OneOf(rapid.Just(""), id).Draw(t, "actor"), Unconfirmed: rapid.Bool().Draw(t, "unconfirmed")}
			a.Dropped = append(a.Dropped, d)
			want.Dropped = append(want.Dropped, droppedPost{ID: p.ID, Kind: d.Kind, Actor: d.Actor, Unconfirmed: d.Unconfirmed})
		}
		for range rapid.IntRange(0, 2).Draw(t, "degraded") {
			d := activity.Degraded{Kind: "seen", Reason: rapid.String().Draw(t, "reason")}
			a.Degraded = append(a.Degraded, d)
			want.Degraded = append(want.Degraded, d)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendFeed([]byte("x"), a, req); string(got) != "x"+string(text) {
			t.Fatalf("got\n%s\nwant\n%s", got[1:], text)
		}
	})
}

// BenchmarkReadFeed reads feeds of 500 posts with readFeed and with the strict decoder.
func BenchmarkReadFeed(b *testing.B) {
	bodies := make([][]byte, servedBodies)
	for n := range bodies {
		bodies[n] = []byte(servedBody(n))
	}
	b.Run("hand", func(b *testing.B) {
		var all wire.Buffers
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			in := all.Get()
			if req, ok := readFeed(string(bodies[n%servedBodies]), in); !ok || len(req.Posts) != servedPosts {
				b.Fatal("not accepted")
			}
			all.Put(in)
		}
	})
	b.Run("strict", func(b *testing.B) {
		options := strict()
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			var decoded filterRequest
			if err := json.Unmarshal(bodies[n%servedBodies], &decoded, options); err != nil {
				b.Fatal(err)
			}
			if req, err := decoded.request(); err != nil || len(req.Posts) != servedPosts {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAppendFeed encodes answers of 500 posts.
func BenchmarkAppendFeed(b *testing.B) {
	req, ok := readFeed(servedBody(0), wire.NewBuffer())
	if !ok {
		b.Fatal("not accepted")
	}
	a := answerOf(req)
	b.ReportAllocs()
	var text []byte
	for b.Loop() {
		text = appendFeed(text[:0], a, req)
	}
}

// TestBufferForgets: a buffer keeps no strings of a finished feed, which would keep the whole body.
func TestBufferForgets(t *testing.T) {
	in := wire.NewBuffer()
	if req, ok := readFeed(servedBody(0), in); !ok || len(req.Posts) != servedPosts || len(in.Actors) == 0 {
		t.Fatal("the feed was not accepted")
	}
	new(wire.Buffers).Put(in)
	for _, p := range in.Posts[:cap(in.Posts)] {
		if p.ID != "" || p.Author != "" || p.Actors != nil {
			t.Fatalf("post %+v is still in the buffer", p)
		}
	}
	for _, a := range in.Actors[:cap(in.Actors)] {
		if a != "" {
			t.Fatalf("actor %q is still in the buffer", a)
		}
	}
	in.Actors = make([]string, feed.MaxPosts+1)
	new(wire.Buffers).Put(in)
	if cap(in.Actors) > feed.MaxPosts {
		t.Errorf("capacity for %d actors is kept", cap(in.Actors))
	}
}
