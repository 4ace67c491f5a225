package client_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

// FuzzClientAnswer answers every call with anything. No call panics or reads much more than its
// limit. A call with an error status or an empty answer fails.
func FuzzClientAnswer(f *testing.F) {
	for _, body := range []string{
		`{"posts":[{"id":"p9","like":true}],"dropped":[{"id":"p8","kind":"block","actor":"2"}],"next":1,"degraded":[{"kind":"seen","reason":"x"}]}`,
		`{"error":{"code":"limit_reached","message":"m","field":"f","limit":3}}`, `{"changed":true}` + "\n" + `{"error":{"code":"x","message":""}}` + "\n",
		`{"items":[{"target":"2","since":"2026-11-20T09:30:00.000123Z"}],"next":"a"}`, `{"results":[{"changed":true},{"error":{}}]}`,
		`{"status":"ready"}`, `{"kinds":[{"name":"a","limit":null}]}`, `{"pages":1,"homes":1}`, `{"recorder":{},"uptime_seconds":-1}`, `{"counts":{"a":1}}`, "", "{", "\n\n", "null", `[]`,
		`{"user":"1","kind":"k","target":"2","op":"add","since":"2026-11-20T09:30:00Z"}` + "\n", strings.Repeat("[", 20_000), `{"posts":[{"id":"a","id":"b"}]}`,
	} {
		for _, status := range []int{200, 202, 400, 503} {
			f.Add(status, "application/json", "1", []byte(body))
			f.Add(status, "application/x-ndjson; charset=utf-8", "", []byte(body))
		}
	}
	f.Add(429, "text/html", "99999999999999999999", []byte("<html>"))
	f.Fuzz(func(t *testing.T, status int, contentType, retryAfter string, body []byte) {
		if status < 100 || status > 999 {
			t.Skip("no status")
		}
		const limit = 1 << 10
		taken := 0
		transport := &counted{network: func(r *http.Request, _ int) (*http.Response, error) {
			taken = 0
			go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			res := answered(r, status, "", "Content-Type", contentType, "Retry-After", retryAfter)
			in := strings.NewReader(string(body))
			res.Body = io.NopCloser(readerOf(func(p []byte) (int, error) {
				n, err := in.Read(p)
				taken += n
				return n, err
			}))
			return res, nil
		}}
		c := newClient(t, "http://service", client.Options{
			HTTPClient:  &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
			MaxAttempts: 1, MaxAnswerBytes: limit, JSON: true,
		})
		check := func(call string, err error) {
			if err == nil && (status/100 != 2 || !strings.Contains(string(body), "{") || strings.TrimSpace(string(body)) == "{}") && call != "ready" && call != "stream" {
				t.Errorf("%s: no error of status %d and %q", call, status, body)
			}
			if taken > 2*limit && call != "stream" {
				t.Errorf("%s: %d bytes were read, of at most %d", call, taken, limit)
			}
			if err != nil {
				_ = err.Error()
			}
		}
		ctx := t.Context()
		feed, err := c.Filter(ctx, client.FilterRequest{Viewer: "1"})
		check("filter", err)
		if err == nil && len(feed.Posts)+len(feed.Dropped) > 0 {
			t.Errorf("posts of a feed without candidates: %+v", feed)
		}
		_, err = c.Explain(ctx, client.ExplainRequest{Viewer: "1"})
		check("explain", err)
		_, err = c.Put(ctx, "1", client.Block, "2", time.Time{})
		check("put", err)
		_, err = c.Record(ctx, "1", client.Seen, []string{"a"})
		check("record", err)
		_, err = c.Counts(ctx, "1")
		check("counts", err)
		_, err = c.Get(ctx, "1", client.Block, "2")
		check("get", err)
		_, err = c.Preview(ctx, "1", "block", []string{"2"})
		check("preview", err)
		_, err = c.DeleteUser(ctx, "1")
		check("delete", err)
		results, err := c.Batch(ctx, make([]client.Activity, 2))
		check("batch", err)
		if err == nil && len(results) != 2 {
			t.Errorf("%d results", len(results))
		}
		_, err = c.Kinds(ctx)
		check("kinds", err)
		_, err = c.Pages(ctx)
		check("pages", err)
		_, err = c.Stats(ctx)
		check("stats", err)
		_, err = c.Ready(ctx)
		check("ready", err)
		err = nil
		n := 0
		for _, one := range c.List(ctx, "1", client.Block) {
			if err = one; n > 100 {
				break // the service repeats this part for ever
			}
			n++
		}
		check("list", err)
		for _, one := range c.Export(ctx, "1") {
			err = one
		}
		check("stream", err)
		err = nil
		for _, one := range c.Stream(ctx, slices.Values(make([]client.Activity, 2))) {
			err = one
		}
		check("stream", err)
		if err == nil && (status != 200 || strings.Count(string(body), "\n") != 2) {
			t.Errorf("two results in %q, of status %d", body, status)
		}
	})
}
