package grpc_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// enveloped returns a message as gRPC sends it.
func enveloped(message []byte) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + string(message)
}

// FuzzProcedures sends any message to every procedure. No call fails inside the service, and each
// refusal has a detail.
func FuzzProcedures(f *testing.F) {
	s := httpapitest.Open(f)
	procedures := []string{
		feedfilterv1connect.FeedServiceFilterProcedure, feedfilterv1connect.FeedServiceExplainProcedure,
		feedfilterv1connect.ActivityServiceRecordProcedure, feedfilterv1connect.ActivityServiceRecordPostsProcedure,
		feedfilterv1connect.ActivityServiceRecordBatchProcedure, feedfilterv1connect.ActivityServiceListProcedure,
		feedfilterv1connect.ActivityServiceCountProcedure, feedfilterv1connect.ActivityServiceRecordStreamProcedure,
	}
	add := feedfilterv1.Op_OP_ADD
	for i, m := range []proto.Message{
		&feedfilterv1.FilterRequest{Viewer: "1", Posts: []string{"a", "b"}, Authors: []string{"2", "3"}, Actors: []string{"4"}, ActorPosts: []uint32{1}},
		&feedfilterv1.ExplainRequest{Viewer: "1", Post: &feedfilterv1.Post{Id: "a", Author: "b", Actors: []string{"c"}}},
		&feedfilterv1.RecordRequest{User: "1", Plural: "blocks", Target: "2", Op: add}, &feedfilterv1.RecordPostsRequest{User: "1", Plural: "seen", Posts: []string{"a"}},
		&feedfilterv1.RecordBatchRequest{Activities: []*feedfilterv1.Activity{{User: "1", Kind: "hide", Target: "2", Op: add}}},
		&feedfilterv1.ListRequest{User: "1", Plural: "blocks", Limit: 3}, &feedfilterv1.CountRequest{User: "1"},
		&feedfilterv1.RecordStreamRequest{Activities: []*feedfilterv1.Activity{{User: "1", Kind: "hide", Target: "2", Op: add}, {}}},
	} {
		text, err := proto.Marshal(m)
		httpapitest.Must(f, err)
		f.Add(i, text)
		f.Add(i, []byte{})
		f.Add(i, []byte("\x0a\x02\xff\xff"))
	}
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		procedure := procedures[uint(which)%uint(len(procedures))]
		types := []string{"application/grpc", "application/proto", "application/grpc-web+proto"}
		if procedure == feedfilterv1connect.ActivityServiceRecordStreamProcedure {
			types = types[:1]
		}
		for _, mediaType := range types {
			sent := string(body)
			if mediaType != "application/proto" {
				sent = enveloped(body)
			}
			w := proceed(t, s, procedure, sent, mediaType)
			answer := w.Body.Bytes()
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
		}
	})
}

// TestTooManyInMessages: lists that are too long for any request are refused before memory is
// allocated.
func TestTooManyInMessages(t *testing.T) {
	s := httpapitest.Open(t)
	for field, procedure := range map[protowire.Number]string{
		2: feedfilterv1connect.FeedServiceFilterProcedure, 1: feedfilterv1connect.ActivityServiceRecordBatchProcedure,
		3: feedfilterv1connect.ActivityServiceRecordPostsProcedure,
	} {
		body := strings.Repeat(string(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil)), 500_000)
		grown := testing.AllocsPerRun(1, func() {
			if w := proceed(t, s, procedure, body, "application/proto"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"out_of_range"`) {
				t.Errorf("%s: %d %.200s", procedure, w.Code, w.Body)
			}
		})
		if grown > 10_000 {
			t.Errorf("%s: %v allocations", procedure, grown)
		}
	}
}
