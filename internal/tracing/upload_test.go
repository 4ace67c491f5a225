package tracing

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestUpload checks that each batch is sent once, that the log has the collector's message, and
// that it has one line for consecutive failures and one for their end.
func TestUpload(t *testing.T) {
	var bodies []string
	statuses := []int{200, 400, 503, 200}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
		w.WriteHeader(statuses[len(bodies)-1])
		_, _ = io.WriteString(w, "what is this?")
	}))
	defer server.Close()
	var logged strings.Builder
	u := &uploader{url: server.URL, client: server.Client(), log: slog.New(slog.NewTextHandler(&logged, nil))}
	for i := range statuses {
		if err := u.UploadTraces(t.Context(), []*spans.ResourceSpans{{SchemaUrl: "a schema"}}); err != nil {
			t.Error(err)
		}
		var request collector.ExportTraceServiceRequest
		if err := proto.Unmarshal([]byte(bodies[i]), &request); err != nil || request.GetResourceSpans()[0].GetSchemaUrl() != "a schema" {
			t.Errorf("request %v, error %v", &request, err)
		}
	}
	lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `400 Bad Request: \"what is this?\"`) || !strings.Contains(lines[1], "sent again") {
		t.Errorf("logged %q", lines)
	}
}
