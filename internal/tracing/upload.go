package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// firstWait is the average time before the first repetition. It doubles each time, up to maxWait.
	firstWait = 500 * time.Millisecond
	maxWait   = 2 * time.Second
	// maxReply is how much of a reply is read.
	maxReply = 64 << 10
)

// uploader sends spans to a collector of traces, as OTLP over HTTP. OpenTelemetry's client does the
// same, but links gRPC with the package html/template, with which the linker must keep every
// exported method of every type.
type uploader struct {
	url    string
	client *http.Client
}

// Start implements [otlptrace.Client].
func (*uploader) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *uploader) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. It returns after sendTimeout at the latest. Until
// then, it repeats a call that a busy collector refused, or a proxy whose collector is down.
func (c *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The encoding of TracesData is that of the request, whose package links gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode traces: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		err := c.post(ctx, body)
		busy, ok := errors.AsType[*busyError](err)
		if !ok {
			return err
		}
		timer := time.NewTimer(max(busy.retryAfter, wait/2+rand.N(wait))) //nolint:gosec // spreads repetitions, no secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// busyError is a temporary refusal.
type busyError struct {
	error

	retryAfter time.Duration
}

// post sends a request once.
func (c *uploader) post(ctx context.Context, body []byte) error {
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
	switch status := response.StatusCode; {
	case status >= 200 && status < 300:
		if err == nil && response.Header.Get("Content-Type") == "application/x-protobuf" {
			err = rejected(reply)
		}
		return err
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway,
		status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)
		return &busyError{refusal(response.Status, reply), time.Duration(seconds) * time.Second}
	default:
		return refusal(response.Status, reply)
	}
}

// refusal is the error of a collector that answers with this status.
func refusal(status string, reply []byte) error {
	if text := strings.TrimSpace(string(reply)); text != "" {
		return fmt.Errorf("the collector answered %s: %.200q", status, text)
	}
	return fmt.Errorf("the collector answered %s", status)
}

// rejected returns an error if reply, an ExportTraceServiceResponse, reports rejected spans.
// Field 1 of reply is a message with their number in field 1 and a text in field 2.
func rejected(reply []byte) error {
	partial, _ := field(reply, 1)
	text, _ := field(partial, 2)
	_, number := field(partial, 1)
	if number == 0 && len(text) == 0 {
		return nil
	}
	return fmt.Errorf("the collector rejected %d spans: %.200q", number, text)
}

// field returns the last field of a message with this number: its bytes, or its integer.
func field(message []byte, number protowire.Number) (text []byte, integer uint64) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			break
		}
		message = message[size:]
		length := protowire.ConsumeFieldValue(n, kind, message)
		if length < 0 {
			break
		}
		if n == number && kind == protowire.BytesType {
			text, _ = protowire.ConsumeBytes(message)
		} else if n == number && kind == protowire.VarintType {
			integer, _ = protowire.ConsumeVarint(message)
		}
		message = message[length:]
	}
	return text, integer
}
