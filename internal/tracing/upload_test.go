package tracing

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestUpload checks that only temporary refusals are repeated, and that the error contains the
// collector's message.
func TestUpload(t *testing.T) {
	partial := func(number int64, text string) string {
		reply, err := proto.Marshal(&collector.ExportTraceServiceResponse{
			PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: number, ErrorMessage: text},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(reply)
	}
	for _, c := range []struct {
		name     string
		statuses []int // the last one is also used for all further answers
		reply    string
		asked    int
		want     string // in the error; empty: none
	}{
		{"taken", []int{200}, "", 1, ""},
		{"taken, with a reply", []int{200}, partial(0, ""), 1, ""},
		{"rejected in part", []int{200}, partial(300, "too old"), 1, `rejected 300 spans: "too old"`},
		{"warned", []int{200}, partial(0, "nearly full"), 1, "nearly full"},
		{"no protobuf", []int{200}, "\xff\xff", 1, ""},
		{"busy at first", []int{503, 429, 200}, "", 3, ""},
		{"refused", []int{400}, "what is this?", 1, `400 Bad Request: "what is this?"`},
		{"unauthorized after busy", []int{502, 401}, "", 2, "401 Unauthorized"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var bodies []string // of one request after another
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				bodies = append(bodies, string(body))
				w.Header().Set("Content-Type", "application/x-protobuf")
				w.WriteHeader(c.statuses[min(len(bodies), len(c.statuses))-1])
				_, _ = io.WriteString(w, c.reply)
			}))
			defer server.Close()
			u := &uploader{server.URL, server.Client()}
			err := u.UploadTraces(t.Context(), []*spans.ResourceSpans{{SchemaUrl: "a schema"}})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if len(bodies) != c.asked {
				t.Fatalf("asked %d times, want %d", len(bodies), c.asked)
			}
			var request collector.ExportTraceServiceRequest
			for _, body := range bodies {
				if err := proto.Unmarshal([]byte(body), &request); err != nil || request.GetResourceSpans()[0].GetSchemaUrl() != "a schema" {
					t.Errorf("request %v, error %v", &request, err)
				}
			}
		})
	}
}
