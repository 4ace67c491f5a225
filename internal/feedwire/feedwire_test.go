package feedwire_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/internal/feedwire"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// TestFieldsAreThoseOfTheSchema compares all numbers with the generated code.
func TestFieldsAreThoseOfTheSchema(t *testing.T) {
	for _, c := range []struct {
		message proto.Message
		numbers map[protoreflect.Name]protoreflect.FieldNumber
	}{
		{&feedfilterv1.FilterRequest{}, map[protoreflect.Name]protoreflect.FieldNumber{
			"viewer": feedwire.Viewer, "posts": feedwire.Posts, "authors": feedwire.Authors, "actors": feedwire.Actors,
			"actor_posts": feedwire.ActorPosts, "kinds": feedwire.Kinds, "annotate": feedwire.Annotate, "limit": feedwire.Limit,
			"record_seen": feedwire.RecordSeen, "exact": feedwire.Exact, "answer": feedwire.Answer,
			"facets": feedwire.Facets, "actor_roles": feedwire.ActorRoles, "related": feedwire.Related, "related_posts": feedwire.RelatedPosts,
			"lists": feedwire.Lists,
		}},
		{&feedfilterv1.Facet{}, map[protoreflect.Name]protoreflect.FieldNumber{
			"name": feedwire.FacetName, "ids": feedwire.FacetIDs, "posts": feedwire.FacetPosts,
		}},
		{&feedfilterv1.KindNames{}, map[protoreflect.Name]protoreflect.FieldNumber{"names": feedwire.KindNames}},
		{&feedfilterv1.FilterResponse{}, map[protoreflect.Name]protoreflect.FieldNumber{
			"kept": feedwire.Kept, "dropped": feedwire.Dropped, "annotated": feedwire.Annotated, "next": feedwire.Next,
			"degraded": feedwire.Degraded,
		}},
		{&feedfilterv1.Dropped{}, map[protoreflect.Name]protoreflect.FieldNumber{
			"index": feedwire.DroppedIndex, "kind": feedwire.DroppedKind, "actor": feedwire.DroppedActor,
			"unconfirmed": feedwire.DroppedUnconfirmed, "target": feedwire.DroppedTarget, "list": feedwire.DroppedList,
		}},
		{&feedfilterv1.Annotated{}, map[protoreflect.Name]protoreflect.FieldNumber{
			"kind": feedwire.AnnotatedKind, "posts": feedwire.AnnotatedPosts,
		}},
		{&feedfilterv1.Degraded{}, map[protoreflect.Name]protoreflect.FieldNumber{
			"kind": feedwire.DegradedKind, "reason": feedwire.DegradedReason,
		}},
	} {
		fields := c.message.ProtoReflect().Descriptor().Fields()
		if fields.Len() != len(c.numbers) {
			t.Errorf("%T has %d fields, want %d", c.message, fields.Len(), len(c.numbers))
		}
		for i := range fields.Len() {
			if f := fields.Get(i); f.Number() != c.numbers[f.Name()] {
				t.Errorf("%T: field %s has number %d, want %d", c.message, f.Name(), c.numbers[f.Name()], f.Number())
			}
		}
	}
}

// TestAppend compares each function with the generated code, which also omits empty strings and
// zeros.
func TestAppend(t *testing.T) {
	dropped := []byte{}
	for _, d := range []*feedfilterv1.Dropped{
		{}, {Index: 1, Kind: "block", Actor: "u2", Unconfirmed: true}, {Index: 1 << 31, Kind: "hide"},
	} {
		part := feedwire.AppendNumber(nil, feedwire.DroppedIndex, uint64(d.GetIndex()))
		part = feedwire.AppendText(part, feedwire.DroppedKind, d.GetKind())
		part = feedwire.AppendText(part, feedwire.DroppedActor, d.GetActor())
		if d.GetUnconfirmed() {
			part = feedwire.AppendNumber(part, feedwire.DroppedUnconfirmed, 1)
		}
		want, err := proto.Marshal(d)
		if err != nil || !bytes.Equal(part, want) {
			t.Errorf("%v: %x, want %x, %v", d, part, want, err)
		}
		dropped = feedwire.AppendPart(dropped, feedwire.Dropped, part)
	}
	var answer feedfilterv1.FilterResponse
	if err := proto.Unmarshal(dropped, &answer); err != nil || len(answer.GetDropped()) != 3 || answer.GetDropped()[1].GetActor() != "u2" {
		t.Errorf("%v, %v", &answer, err)
	}
}

// TestAppendJSON compares the strings with the encoder of JSON.
func TestAppendJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9"\\\x00-\x20\x7f]{0,9}`), rapid.Just("\u2028<>&")).Draw(t, "s")
		want, wantErr := jsontext.AppendQuote([]byte("x,"), s)
		if got, err := feedwire.AppendJSON([]byte("x"), ",", s); (err != nil) != (wantErr != nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%q: %s, %v; want %s, %v", s, got, err, want, wantErr)
		}
	})
	if _, err := feedwire.AppendJSON(nil, "", "a\xff"); err == nil {
		t.Error("text that is not UTF-8 has no error")
	}
}
