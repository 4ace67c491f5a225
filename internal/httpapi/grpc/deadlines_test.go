package grpc_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// TestDeadlines: each procedure stops its work at the client's deadline. Redis and the ledger see a
// client that left: a deadline would count as their failure.
func TestDeadlines(t *testing.T) {
	log, out := httpapitest.Logs()
	// Without the client's deadline, each call would hang.
	s := httpapitest.NewService(t, httpapi.Config{Timeout: time.Hour, Logger: log}, nil)
	s.Store.Set(httpapitest.Hanging)
	s.Ledger.Set(httpapitest.Hanging)
	add := feedfilterv1.Op_OP_ADD
	for procedure, req := range map[string]proto.Message{
		feedfilterv1connect.FeedServiceFilterProcedure:  &feedfilterv1.FilterRequest{Viewer: "1", Posts: []string{"p"}, Authors: []string{"2"}},
		feedfilterv1connect.FeedServiceExplainProcedure: &feedfilterv1.ExplainRequest{Viewer: "1", Post: &feedfilterv1.Post{Id: "p", Author: "2"}},
		feedfilterv1connect.ActivityServiceRecordProcedure: &feedfilterv1.RecordRequest{
			User: "1", Plural: "blocks", Target: "2", Op: add,
		},
		feedfilterv1connect.ActivityServiceRecordPostsProcedure: &feedfilterv1.RecordPostsRequest{User: "1", Plural: "seen", Posts: []string{"p"}},
		feedfilterv1connect.ActivityServiceRecordBatchProcedure: &feedfilterv1.RecordBatchRequest{
			Activities: []*feedfilterv1.Activity{{User: "1", Kind: "block", Target: "2", Op: add}},
		},
		feedfilterv1connect.ActivityServiceListProcedure: &feedfilterv1.ListRequest{User: "1", Plural: "blocks"},
	} {
		body, err := proto.Marshal(req)
		httpapitest.Must(t, err)
		for _, ms := range []string{"0", "20"} { // before the procedure begins, and while it waits
			out.Reset()
			w := proceed(t, s, procedure, string(body), "application/proto", "Connect-Timeout-Ms", ms)
			var answer struct {
				Code string `json:"code"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatalf("%s: %d %q: %v", procedure, w.Code, w.Body, err)
			}
			if w.Code != http.StatusGatewayTimeout || answer.Code != "deadline_exceeded" {
				t.Errorf("%s after %s ms: %d %s", procedure, ms, w.Code, w.Body)
			}
			wantEnded(t, procedure, out.String())
		}
		for _, timeout := range []string{"0n", "20m"} {
			out.Reset()
			w := proceed(t, s, procedure, enveloped(body), "application/grpc", "Grpc-Timeout", timeout)
			if got := w.Header().Get(http.TrailerPrefix + "Grpc-Status"); got != "4" {
				t.Errorf("%s after %s: %v", procedure, timeout, w.Header())
			}
			wantEnded(t, procedure, out.String())
		}
	}
}

// proceed calls a procedure in process.
func proceed(t *testing.T, h http.Handler, procedure, body, mediaType string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, procedure, strings.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	if strings.HasPrefix(mediaType, "application/grpc") {
		r.ProtoMajor, r.ProtoMinor, r.ContentLength = 2, 0, -1
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantEnded asserts that the log has a call that its client ended.
func wantEnded(t *testing.T, procedure, log string) {
	t.Helper()
	if !strings.Contains(log, `"status":499`) || strings.Contains(log, `"level":"ERROR"`) ||
		!strings.Contains(log, `"code":"deadline_exceeded"`) || strings.Contains(log, "context deadline exceeded") {
		t.Errorf("%s: the log says %s", procedure, log)
	}
}

// TestDeadlineAhead: a deadline that has not passed changes nothing.
func TestDeadlineAhead(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{}, nil)
	for _, deadline := range [][]string{nil, {"Connect-Timeout-Ms", "9999999999"}} {
		w := proceed(t, s, feedfilterv1connect.ActivityServiceCountProcedure, "\x0a\x011", "application/proto", deadline...)
		var counts feedfilterv1.CountResponse
		if err := proto.Unmarshal(w.Body.Bytes(), &counts); err != nil || w.Code != http.StatusOK || len(counts.GetCounts()) == 0 {
			t.Errorf("%q: %d %q, %v", deadline, w.Code, w.Body, err)
		}
	}
}
