package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// Ops of activities.
const (
	Add    = "add"
	Remove = "remove"
)

// Activity is one activity of a batch, a stream or an export.
type Activity struct {
	User   string `json:"user"`
	Kind   string `json:"kind"` // such as Block
	Target string `json:"target"`
	Op     string `json:"op"` // Add or Remove
	// Since is when the activity was done; zero: now. A window keeps the activity from that time.
	// If the window would already have forgotten it, nothing changes.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"` // zero: it has no end
}

// Result is the outcome of one activity.
type Result struct {
	Changed bool
	Err     *Error // why it failed; nil: it succeeded
}

// UnmarshalJSON reads {"changed":true} or {"error":{...}}.
func (r *Result) UnmarshalJSON(text []byte) error {
	var line struct {
		Changed *bool    `json:"changed"`
		Error   *problem `json:"error"`
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	*r = Result{}
	switch {
	case line.Error != nil && line.Error.Code != "":
		r.Err = new(Error)
		line.Error.to(r.Err)
	case line.Changed != nil:
		r.Changed = *line.Changed
	default:
		return errors.New("the result has neither a change nor an error")
	}
	return nil
}

// Batch records and undoes 1 to 10,000 activities, and returns a result for each, in order. The
// service checks all of them first. If one is invalid, Batch returns an [*Error] whose Field names
// it, and nothing changes. An Until that has passed, or a Since in the future, is the Err of its
// result alone.
func (c *Client) Batch(ctx context.Context, activities []Activity) ([]Result, error) {
	body := struct {
		Activities []Activity `json:"activities"`
	}{activities}
	var answer struct {
		Results []Result `json:"results"`
	}
	fill := func(m *feedfilterv1.RecordBatchResponse) {
		answer.Results = make([]Result, len(m.GetResults()))
		for i, r := range m.GetResults() {
			answer.Results[i] = resultOf(r)
		}
	}
	err := c.do(ctx, &call{
		method: http.MethodPost, path: []string{"v1", "activities"}, body: body, into: &answer,
		procedure: procedureOf(
			activityService, "RecordBatch", batchOf(activities),
			new(feedfilterv1.RecordBatchResponse), fill,
		),
	})
	if err == nil && len(answer.Results) != len(activities) {
		return nil, fmt.Errorf(
			"%d results for %d activities: %w", len(answer.Results), len(activities), ErrForeign,
		)
	}
	return answer.Results, err
}

// batchOf returns activities as a message.
func batchOf(activities []Activity) *feedfilterv1.RecordBatchRequest {
	all := make([]feedfilterv1.Activity, len(activities))
	batch := &feedfilterv1.RecordBatchRequest{
		Activities: make([]*feedfilterv1.Activity, len(activities)),
	}
	for i, a := range activities {
		m := &all[i]
		m.User, m.Kind, m.Target, m.Op = a.User, a.Kind, a.Target, op(a.Op)
		m.Since, m.Until = stamp(a.Since), stamp(a.Until)
		batch.Activities[i] = m
	}
	return batch
}

// Stream records and undoes any number of activities, and yields a result for each, in order. An
// activity with an error does not end the stream. If the stream breaks, Stream yields the error and
// ends. Activities without a result may or may not have taken effect; it is safe to repeat them.
//
// Stream reads activities in another goroutine, as fast as the service accepts them. The loop over
// the results ends only after that goroutine, so an iterator that blocks must stop when ctx ends.
func (c *Client) Stream(
	ctx context.Context, activities iter.Seq[Activity],
) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		body := &lineBody{lines: make(chan []byte, maxUnsent), err: io.EOF, closed: make(chan struct{})}
		sent, got := 0, 0
		var writing sync.WaitGroup
		writing.Go(func() { sent = body.write(activities) })
		end := func() {
			_ = body.Close()
			writing.Wait()
		}
		defer end()
		post := &call{method: http.MethodPost, path: []string{"v1", "activities"}}
		for r, err := range lines[Result](ctx, c, post, body) {
			if err == nil {
				got++
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		end()
		if got != sent {
			yield(Result{}, &lostError{fmt.Errorf("%d results for %d activities", got, sent)})
		}
	}
}

// maxUnsent is the number of lines that may wait to be sent.
const maxUnsent = 256

// lineBody is the body of a stream, with a line for each activity. One goroutine writes it, and the
// transport reads it. A read returns all waiting lines, because each read causes a write to the
// connection.
type lineBody struct {
	lines  chan []byte
	err    error  // why there are no more lines; set before lines is closed
	rest   []byte // of the last line
	closed chan struct{}
	once   sync.Once // closes closed
}

// write writes a line for each activity until the body is closed. It returns the number of lines
// that it started.
func (b *lineBody) write(activities iter.Seq[Activity]) (sent int) {
	defer close(b.lines)
	for a := range activities {
		line, err := json.Marshal(a)
		if err != nil {
			b.err = fmt.Errorf("write an activity: %w: %w", ErrInvalid, err)
			return sent
		}
		sent++
		select {
		case b.lines <- append(line, '\n'):
		case <-b.closed:
			return sent
		}
	}
	return sent
}

// Read implements [io.Reader]. It waits only for the first line.
func (b *lineBody) Read(p []byte) (n int, err error) {
	if len(b.rest) == 0 {
		select {
		case line, ok := <-b.lines:
			if !ok {
				return 0, b.err
			}
			b.rest = line
		case <-b.closed:
			return 0, io.ErrClosedPipe
		}
	}
	for {
		c := copy(p[n:], b.rest)
		n, b.rest = n+c, b.rest[c:]
		if n == len(p) {
			return n, nil
		}
		select {
		case b.rest = <-b.lines: // nil if there are no more lines
			if b.rest == nil {
				return n, nil
			}
		default:
			return n, nil
		}
	}
}

// Close implements [io.Closer].
func (b *lineBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// Export yields all activities of the user in the ledger, by kind and target. If Export fails, it
// yields the error and ends; the activities before the error are incomplete.
func (c *Client) Export(ctx context.Context, userID string) iter.Seq2[Activity, error] {
	return lines[Activity](ctx, c, &call{method: http.MethodGet, path: user(userID, "export")}, nil)
}

// lines makes the call, and yields each line of its answer. If the loop ends early, it closes the
// connection.
func lines[T any](ctx context.Context, c *Client, call *call, body io.Reader) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		mediaType := typeNDJSON
		if body == nil {
			mediaType, body = "", http.NoBody
		}
		res, err := c.send(ctx, call.method, c.url(call.path, call.query), mediaType, body)
		if err != nil {
			yield(none, err)
			return
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			yield(none, c.failure(res))
			return
		}
		if err := typed(res, typeNDJSON); err != nil {
			yield(none, err)
			return
		}
		in := bufio.NewScanner(res.Body)
		in.Buffer(nil, int(min(c.o.MaxAnswerBytes, 1<<30)))
		in.Split(wholeLines)
		for in.Scan() {
			var v T
			if err := json.Unmarshal(in.Bytes(), &v); err != nil {
				yield(none, foreign(res, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		switch err := in.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(none, foreign(res, err))
		case err != nil:
			yield(none, &lostError{fmt.Errorf("%s: read the answer: %w", where(res), err)})
		}
	}
}

// wholeLines is [bufio.ScanLines], but the last line must end with a newline, too.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}
