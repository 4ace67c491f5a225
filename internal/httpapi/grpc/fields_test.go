package grpc

import (
	"reflect"
	"testing"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	"github.com/feedfilter/feedfilter/internal/schematest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// TestFieldNumbers: the fields that are read and written by hand have the numbers of the schema.
func TestFieldNumbers(t *testing.T) {
	if healthpb.File_grpc_health_v1_health_proto == nil {
		t.Fatal("the schema of health checks is not loaded")
	}
	for name, number := range map[protoreflect.FullName]protoreflect.FieldNumber{
		"feedfilter.v1.FilterRequest.posts":         fieldPosts,
		"feedfilter.v1.FilterRequest.authors":       fieldAuthors,
		"feedfilter.v1.FilterRequest.actors":        fieldActors,
		"feedfilter.v1.FilterRequest.actor_roles":   fieldActorRoles,
		"feedfilter.v1.FanoutRequest.viewers":       fieldViewers,
		"grpc.health.v1.HealthCheckRequest.service": fieldService,
		"grpc.health.v1.HealthCheckResponse.status": fieldStatus,
	} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := d.(protoreflect.FieldDescriptor)
		if f.Number() != number || number >= 16 { // the tag of a higher one has two bytes
			t.Errorf("%s has the number %d in the schema, and %d here", name, f.Number(), number)
		}
		if f.IsList() != (f.Parent().FullName().Parent() == "feedfilter.v1") {
			t.Errorf("%s is a list: %v", name, f.IsList())
		}
	}
}

// eachList calls do with all lists in messages of a type, which may be nested.
func eachList(of protoreflect.MessageDescriptor, do func(f protoreflect.FieldDescriptor)) {
	for i := range of.Fields().Len() {
		f := of.Fields().Get(i)
		if f.IsList() {
			do(f)
		}
		if f.Message() != nil {
			eachList(f.Message(), do)
		}
	}
}

// TestListsHaveLimits: each list of a request has the limit that was chosen for it.
func TestListsHaveLimits(t *testing.T) {
	want := map[protoreflect.FullName]int{
		"FilterRequest.posts": feed.MaxPosts, "FilterRequest.authors": feed.MaxPosts,
		"FilterRequest.texts":  feed.MaxPosts,
		"FilterRequest.actors": feed.MaxIDs, "FilterRequest.actor_roles": feed.MaxIDs,
		"FilterRequest.related": feed.MaxIDs, "Facet.ids": feed.MaxIDs,
		"FilterRequest.actor_posts": feed.MaxIDs, "FilterRequest.related_posts": feed.MaxIDs,
		"Facet.posts": feed.MaxIDs, "FanoutRequest.viewers": feed.MaxViewers,
		"FilterRequest.annotate": wire.MaxTexts, "FilterRequest.lists": wire.MaxTexts,
		"FilterRequest.facets": wire.MaxTexts, "KindNames.names": wire.MaxTexts,
		"ExplainRequest.lists": wire.MaxTexts, "Post.actors": wire.MaxTexts,
		"Post.actor_roles": wire.MaxTexts, "Post.related": wire.MaxTexts, "Post.facets": wire.MaxTexts,
		"FanoutRequest.actors": wire.MaxTexts, "FanoutRequest.actor_roles": wire.MaxTexts,
		"FanoutRequest.related": wire.MaxTexts, "FanoutRequest.facets": wire.MaxTexts,
		"RecordPostsRequest.posts":       wire.MaxTexts,
		"RecordBatchRequest.activities":  operations.MaxBatch,
		"RecordStreamRequest.activities": operations.MaxChunk,
	}
	found := make(map[protoreflect.FullName]bool)
	for _, file := range []protoreflect.FileDescriptor{
		feedfilterv1.File_feedfilter_v1_feed_proto, feedfilterv1.File_feedfilter_v1_activity_proto,
	} {
		for s := range file.Services().Len() {
			methods := file.Services().Get(s).Methods()
			for m := range methods.Len() {
				eachList(methods.Get(m).Input(), func(f protoreflect.FieldDescriptor) {
					name := protoreflect.FullName(f.Parent().Name() + "." + f.Name())
					found[name] = true
					most, ok := want[name]
					if got := maxListed(f, protowire.VarintType); !ok || got != most {
						t.Errorf("%s has the limit %d, want %d; choose one for a new list", name, got, most)
					}
				})
			}
		}
	}
	if len(found) != len(want) {
		t.Errorf("%d lists in the schema, %d in the test", len(found), len(want))
	}
}

// TestEveryFieldIsRead: each field of a message changes the request that is read from it.
func TestEveryFieldIsRead(t *testing.T) {
	kinds := &feedfilterv1.KindNames{Names: []string{"block"}}
	for _, c := range []struct {
		message proto.Message
		unset   []string
		read    func(text string) (any, error)
	}{
		{
			&feedfilterv1.FilterRequest{
				Viewer: "1", Posts: []string{"a"}, Authors: []string{"2"}, Actors: []string{"3"},
				ActorPosts: []uint32{0}, Kinds: kinds, Annotate: []string{"like"}, Limit: 3,
				RecordSeen: true, Exact: true,
				Answer:     feedfilterv1.Answer_ANSWER_DROPPED,
				ActorRoles: []string{"repost"}, Lists: []string{"L"},
				Facets:  []*feedfilterv1.Facet{{Name: "tag", Ids: []string{"t"}, Posts: []uint32{0}}},
				Related: []string{"b"}, RelatedPosts: []uint32{0}, After: "position", Within: "2s",
				Texts: []string{"words"},
			}, nil,
			func(text string) (any, error) {
				req, dropped, err := (&feedMessage{text}).decode(wire.NewBuffer())
				return []any{req, dropped}, err
			},
		},
		{
			&feedfilterv1.FanoutRequest{
				Author: "2", Actors: []string{"3"}, ActorRoles: []string{"repost"}, Viewers: []string{"1"},
				Kinds: kinds, Exact: true, Post: "a", Related: []string{"b"},
				Facets: []*feedfilterv1.Facet{{Name: "tag", Ids: []string{"t"}}},
				After:  "position", Within: "2s", Text: "words",
			}, []string{"Facet.posts"}, // a fan-out is about one post
			func(text string) (any, error) {
				m, err := (&fanoutMessage{text}).decode(wire.NewBuffer())
				if err != nil {
					return nil, err
				}
				return fanoutRequest(m)
			},
		},
	} {
		schematest.Complete(t, c.message, c.unset...)
		whole, err := c.read(string(marshaled(c.message)))
		if err != nil {
			t.Fatal(err)
		}
		schematest.WithoutEach(c.message, func(field string) {
			got, err := c.read(string(marshaled(c.message)))
			if err == nil && reflect.DeepEqual(got, whole) {
				t.Errorf("%s has no effect", field)
			}
		})
	}
}

// TestEveryFieldIsWritten: an answer has all fields of the schema, and each field of the feed or
// fan-out changes it.
func TestEveryFieldIsWritten(t *testing.T) {
	degraded := []activity.Degraded{{Kind: "seen", Reason: "unavailable"}}
	filtered := feed.Answer{
		Kept: []int{2}, Annotated: [][]int{{2}}, Next: 3, Degraded: degraded,
		Dropped: []feed.Dropped{
			{At: 1, Kind: "block", Actor: "2", Target: "3", List: "L", Unconfirmed: true},
		},
	}
	spread := feed.FanoutAnswer{
		Dropped:  []feed.FanoutDropped{{At: 1, Kind: "block", Actor: "2", Target: "3"}},
		Degraded: degraded,
	}
	for _, c := range []struct {
		write func() proto.Message
		value any // a part of the feed or fan-out
	}{
		{func() proto.Message {
			return feedAnswer(filtered, feed.Request{Annotate: []string{"like"}}, false)
		}, &filtered.Dropped[0]},
		{func() proto.Message { return fanoutAnswer(spread) }, &spread.Dropped[0]},
		{func() proto.Message { return fanoutAnswer(spread) }, &spread.Degraded[0]},
	} {
		whole := c.write()
		schematest.Complete(t, whole)
		schematest.ZeroEach(t, c.value, func(field string) {
			if proto.Equal(c.write(), whole) {
				t.Errorf("the field %s of a %T is not written", field, c.value)
			}
		})
	}
}
