package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const maxReply = 64 << 10 // how much of a reply is read

// uploader sends spans to a collector of traces, as OTLP over HTTP. It logs the first of
// consecutive failures. OpenTelemetry's client does the same, but links gRPC with the package
// html/template, with which the linker must keep every exported method of every type.
type uploader struct {
	url    string
	client *http.Client
	log    *slog.Logger
	down   atomic.Bool
}

// Start implements [otlptrace.Client].
func (*uploader) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *uploader) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. It never returns an error, because its caller would
// write that to standard error. The spans are then dropped.
func (c *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := c.post(ctx, spans)
	if down := err != nil; c.down.Swap(down) != down {
		if down {
			c.log.WarnContext(ctx, "traces cannot be sent and are dropped", "error", err)
		} else {
			c.log.InfoContext(ctx, "traces can be sent again")
		}
	}
	return nil
}

func (c *uploader) post(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The encoding of TracesData is that of the request, whose package links gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode traces: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if status := response.StatusCode; status < 200 || status > 299 {
		return fmt.Errorf("the collector answered %s: %.200q", response.Status, reply)
	}
	return err
}
