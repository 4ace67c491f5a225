package client

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/openapi"
	"github.com/feedfilter/feedfilter/internal/schematest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// TestFieldNumbers: the fields that are read and written by hand have the numbers of the schema.
func TestFieldNumbers(t *testing.T) {
	for _, c := range []struct {
		of      proto.Message
		numbers map[protoreflect.Name]protoreflect.FieldNumber
	}{
		{new(feedfilterv1.FilterRequest), map[protoreflect.Name]protoreflect.FieldNumber{
			"posts": fieldPosts, "authors": fieldAuthors, "actors": fieldActors, "texts": fieldTexts,
		}},
		{new(feedfilterv1.FilterResponse), map[protoreflect.Name]protoreflect.FieldNumber{
			"dropped": fieldDropped, "annotated": fieldAnnotated, "next": fieldNext,
			"degraded": fieldDegraded,
		}},
		{new(feedfilterv1.Dropped), map[protoreflect.Name]protoreflect.FieldNumber{
			"index": fieldIndex, "kind": fieldKind, "actor": fieldActor, "unconfirmed": fieldUnconfirmed,
			"target": fieldTarget, "list": fieldList,
		}},
	} {
		fields := c.of.ProtoReflect().Descriptor().Fields()
		for name, number := range c.numbers {
			f := fields.ByName(name)
			byAppendID := number != fieldTexts
			if f == nil || f.Number() != number || byAppendID && number >= 16 {
				t.Errorf("%T: the field %s has another number than %d: %v", c.of, name, number, f)
			}
		}
	}
}

// fullPost returns a post with everything that a request can have.
func fullPost() Post {
	return Post{
		ID: "p", Author: "2", Actors: []string{"3"}, Roles: []string{"repost"}, Related: []string{"q"},
		Facets: map[string][]string{"tag": {"t"}}, Text: "words",
	}
}

// described returns the schemas of the OpenAPI document.
func described(t *testing.T) schematest.OpenAPI {
	t.Helper()
	document, err := openapi.Document(activity.BuiltinKinds())
	if err != nil {
		t.Fatal(err)
	}
	return schematest.ReadOpenAPI(t, document)
}

// wantNames fails t unless got are the names of the fields at the paths of the schemas.
func wantNames(t *testing.T, schemas schematest.OpenAPI, got []string, paths ...string) {
	t.Helper()
	var want []string
	for _, path := range paths {
		want = append(want, schemas.Names(path)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("the fields %q are described as %q: %q", got, paths, want)
	}
}

// TestEveryFieldIsSent: a feed in each form has all fields of its schema, and each field of the
// request changes it.
func TestEveryFieldIsSent(t *testing.T) {
	req := FilterRequest{
		Viewer: "1", Posts: []Post{fullPost()}, Kinds: []string{"block"}, Annotate: []string{"like"},
		Lists: []string{"L"}, Limit: 3, RecordSeen: true, Exact: true, After: "position",
		Within: time.Second, Answer: AnswerDropped,
	}
	encoded := func() (message *feedfilterv1.FilterRequest, object any) {
		text, err := encodeFilter(&req)
		message = new(feedfilterv1.FilterRequest)
		if err == nil {
			err = proto.Unmarshal(text, message)
		}
		if err == nil {
			text, err = req.json()
		}
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		if err != nil {
			t.Fatal(err)
		}
		return message, object
	}
	whole, object := encoded()
	schematest.Complete(t, whole)
	schemas := described(t)
	wantNames(t, schemas, schematest.NamesAt(object), "FilterRequest")
	wantNames(t, schemas, schematest.NamesAt(object, "posts"), "FilterRequest.posts")
	wantNames(t, schemas, schematest.NamesAt(object, "posts", "actors"), "FilterRequest.posts.actors")
	check := func(field string) {
		message, changed := encoded()
		if proto.Equal(message, whole) && field != "Answer" { // a message always asks for dropped posts
			t.Errorf("%s is not in the message", field)
		}
		if reflect.DeepEqual(changed, object) {
			t.Errorf("%s is not in the JSON", field)
		}
	}
	schematest.ZeroEach(t, &req, check)
	schematest.ZeroEach(t, &req.Posts[0], check)
}

// TestTexts: a request has a text for each post if one of them has a text, and else none.
func TestTexts(t *testing.T) {
	for _, texts := range [][]string{nil, {"", "", ""}, {"a", "", ""}, {"", "", "b c"}, {"é", "", "x"}} {
		req := FilterRequest{Viewer: "1", Posts: make([]Post, len(texts))}
		var want []string
		for i, text := range texts {
			if req.Posts[i].Text = text; text != "" {
				want = texts
			}
		}
		encoded, err := encodeFilter(&req)
		var m feedfilterv1.FilterRequest
		if err == nil {
			err = proto.Unmarshal(encoded, &m)
		}
		if err != nil || !slices.Equal(m.GetTexts(), want) {
			t.Errorf("%q: texts %q, %v", texts, m.GetTexts(), err)
		}
	}
}

// TestEveryFanoutFieldIsSent: so does a fan-out.
func TestEveryFanoutFieldIsSent(t *testing.T) {
	req := FanoutRequest{
		Post: fullPost(), Viewers: []string{"1"}, Kinds: []string{"block"}, Exact: true,
		After: "position", Within: time.Second,
	}
	encoded := func() (message *feedfilterv1.FanoutRequest, object any) {
		text, err := json.Marshal(req.inJSON())
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		if err != nil {
			t.Fatal(err)
		}
		return req.message(), object
	}
	whole, object := encoded()
	schematest.Complete(t, whole, "Facet.posts") // a fan-out is about one post
	wantNames(t, described(t), schematest.NamesAt(object), "FanoutRequest")
	check := func(field string) {
		message, changed := encoded()
		if proto.Equal(message, whole) || reflect.DeepEqual(changed, object) {
			t.Errorf("%s is not sent", field)
		}
	}
	schematest.ZeroEach(t, &req, check)
	schematest.ZeroEach(t, &req.Post, check)
}

// TestEveryFieldIsReceived: each field of an answer changes the result.
func TestEveryFieldIsReceived(t *testing.T) {
	req := FilterRequest{
		Posts: []Post{{ID: "p"}, {ID: "q"}, {ID: "r"}}, Annotate: []string{"like"},
		Answer: AnswerDropped,
	}
	spread := FanoutRequest{Viewers: []string{"1", "2"}}
	degraded := []*feedfilterv1.Degraded{{Kind: "seen", Reason: "unavailable"}}
	for _, c := range []struct {
		answer proto.Message
		unset  []string
		read   func(text []byte) (any, error)
	}{
		{
			&feedfilterv1.FilterResponse{
				Dropped: []*feedfilterv1.Dropped{
					{Index: 1, Kind: "block", Actor: "2", Target: "3", List: "L", Unconfirmed: true},
				},
				Annotated: []*feedfilterv1.Annotated{{Kind: "like", Posts: []uint32{0}}},
				Next:      2, Degraded: degraded,
			},
			[]string{"FilterResponse.kept"}, // never asked for
			func(text []byte) (any, error) {
				var f Feed
				return &f, f.decode(&req, text)
			},
		},
		{
			&feedfilterv1.FanoutResponse{
				Dropped:  []*feedfilterv1.DroppedViewer{{Index: 1, Kind: "block", Actor: "2", Target: "3"}},
				Degraded: degraded,
			}, nil,
			func(text []byte) (any, error) {
				var f Fanout
				var m feedfilterv1.FanoutResponse
				err := proto.Unmarshal(text, &m)
				f.fill(&spread, &m)
				return f, err
			},
		},
		{
			&feedfilterv1.ExplainResponse{
				Dropped: true, Degraded: degraded,
				Page: &feedfilterv1.Page{Number: 1, Sequence: 2, Keys: 3, Bytes: 4, FalsePositiveRate: 0.5},
				Reasons: []*feedfilterv1.Reason{{
					Kind: "block", Effect: "drop", Actor: "2", Target: "3", Direction: "by_viewer",
					Certainty: "ledger", Since: &timestamppb.Timestamp{Seconds: 1, Nanos: 1},
					Until: &timestamppb.Timestamp{Seconds: 2, Nanos: 1}, Parts: []string{"a"},
					OverruledBy: "follow", List: "L", InText: &feedfilterv1.TextRange{Start: 3, End: 8},
				}},
			}, nil,
			func(text []byte) (any, error) {
				var e Explanation
				var m feedfilterv1.ExplainResponse
				err := proto.Unmarshal(text, &m)
				e.fill(&m)
				return e, err
			},
		},
	} {
		schematest.Complete(t, c.answer, c.unset...)
		read := func() (any, error) {
			text, err := proto.Marshal(c.answer)
			if err != nil {
				t.Fatal(err)
			}
			return c.read(text)
		}
		whole, err := read()
		if err != nil {
			t.Fatal(err)
		}
		schematest.WithoutEach(c.answer, func(field string) {
			if got, err := read(); err == nil && reflect.DeepEqual(got, whole) {
				t.Errorf("%s has no effect", field)
			}
		})
	}
}

// TestAnswersAreDescribed: answers in JSON have the names of the OpenAPI document.
func TestAnswersAreDescribed(t *testing.T) {
	schemas := described(t)
	wantNames(t, schemas, schematest.JSONNames[Feed](), "FilterAnswer", "DroppedAnswer")
	wantNames(t, schemas, schematest.JSONNames[Dropped](),
		"FilterAnswer.dropped", "DroppedAnswer.dropped")
	wantNames(t, schemas, schematest.JSONNames[Degraded](), "Degraded")
	wantNames(t, schemas, schematest.JSONNames[Fanout](), "FanoutAnswer")
	wantNames(t, schemas, schematest.JSONNames[DroppedViewer](), "FanoutAnswer.dropped")
	wantNames(t, schemas, schematest.JSONNames[Explanation](), "Explanation")
	wantNames(t, schemas, schematest.JSONNames[Reason](), "Explanation.reasons")
	wantNames(t, schemas, schematest.JSONNames[TextRange](), "Explanation.reasons.in_text")
	wantNames(t, schemas, schematest.JSONNames[Kind](), "Kinds.kinds")
}
