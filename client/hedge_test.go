package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/client"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

const hedge = 50 * time.Millisecond

// attempts is a network for several goroutines. It passes the number of the attempt.
type attempts struct {
	answer func(r *http.Request, attempt int64) (*http.Response, error)
	made   atomic.Int64
}

func (a *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	return a.answer(r, a.made.Add(1))
}

// hedging returns a client over a that speaks messages.
func hedging(t *testing.T, o client.Options, a *attempts) *client.Client {
	t.Helper()
	o.HTTPClient = &http.Client{Transport: a}
	return newClient(t, "http://service", o)
}

// isAnswered answers a call with the minimum message that the call accepts.
func isAnswered(r *http.Request) (*http.Response, error) {
	var m proto.Message
	switch r.URL.Path {
	case "/feedfilter.v1.FeedService/Filter":
		m = &feedfilterv1.FilterResponse{}
	case "/feedfilter.v1.ActivityService/RecordPosts":
		m = &feedfilterv1.RecordPostsResponse{Recorded: 1}
	case "/feedfilter.v1.ActivityService/RecordBatch":
		m = &feedfilterv1.RecordBatchResponse{Results: []*feedfilterv1.Result{{}}}
	default:
		m = &feedfilterv1.ListResponse{}
	}
	return answered(r, 200, messageText(m), "Content-Type", typeMessage), nil
}

// silent answers only after its request is canceled.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func after(r *http.Request, pause time.Duration, status int, code string) (*http.Response, error) {
	select {
	case <-time.After(pause):
		return answered(r, status, refusal(code, uint32(status))), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// oneFeed is a request for a feed of one post.
func oneFeed() client.FilterRequest {
	return client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "p", Author: "2"}}}
}

// reads returns all calls that are hedged; writes returns some that are not.
func reads(ctx context.Context, c *client.Client) map[string]func() error {
	return map[string]func() error{
		"Filter": func() error { _, err := c.Filter(ctx, oneFeed()); return err },
		"Explain": func() error {
			_, err := c.Explain(ctx, client.ExplainRequest{Viewer: "1", Post: oneFeed().Posts[0]})
			return err
		},
		"Counts": func() error { _, err := c.Counts(ctx, "1"); return err },
		"Get":    func() error { _, err := c.Get(ctx, "1", client.Block, "2"); return err },
		"List": func() (failed error) {
			for _, err := range c.List(ctx, "1", client.Block) {
				failed = err
			}
			return failed
		},
	}
}

func writes(ctx context.Context, c *client.Client) map[string]func() error {
	return map[string]func() error{
		"Filter with RecordSeen": func() error {
			req := oneFeed()
			req.RecordSeen = true
			_, err := c.Filter(ctx, req)
			return err
		},
		"Put":    func() error { _, err := c.Put(ctx, "1", client.Block, "2", time.Time{}); return err },
		"Delete": func() error { _, err := c.Delete(ctx, "1", client.Block, "2"); return err },
		"Record": func() error { _, err := c.Record(ctx, "1", client.Seen, []string{"p"}); return err },
		"Batch": func() error {
			_, err := c.Batch(ctx, []client.Activity{{User: "1", Kind: "block", Target: "2", Op: client.Add}})
			return err
		},
	}
}

// TestHedge: a slow read is sent again, in either form. The second answer counts, and the first
// attempt is canceled.
func TestHedge(t *testing.T) {
	for name := range reads(t.Context(), nil) {
		for _, inJSON := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { hedgesRead(t, name, inJSON) })
		}
	}
}

func hedgesRead(t *testing.T, name string, inJSON bool) {
	t.Helper()
	canceled := make(chan error, 1)
	a := &attempts{answer: func(r *http.Request, n int64) (*http.Response, error) {
		switch {
		case n == 1:
			res, err := silent(r)
			canceled <- context.Cause(r.Context())
			return res, err
		case name == "Explain" && inJSON:
			return answered(r, 200, `{"dropped":false,"reasons":[],"degraded":[]}`), nil
		case inJSON:
			return answered(r, 200, `{"dropped":[],"counts":{},"items":[],"degraded":[],"target":"2"}`), nil
		default:
			return isAnswered(r)
		}
	}}
	c := hedging(t, client.Options{Hedge: hedge, JSON: inJSON}, a)
	start := time.Now()
	if err := reads(t.Context(), c)[name](); err != nil || a.made.Load() != 2 || time.Since(start) != hedge {
		t.Errorf("%s, JSON %v: %d attempts in %v, %v", name, inJSON, a.made.Load(), time.Since(start), err)
	}
	if err := <-canceled; !errors.Is(err, context.Canceled) {
		t.Errorf("%s, JSON %v: the first attempt ended by %v", name, inJSON, err)
	}
}

// TestNotHedged: writes are never hedged, and reads only if configured and slow.
func TestNotHedged(t *testing.T) {
	slow := func(pause time.Duration) *attempts {
		return &attempts{answer: func(r *http.Request, _ int64) (*http.Response, error) {
			time.Sleep(pause)
			return isAnswered(r)
		}}
	}
	for name := range writes(t.Context(), nil) {
		synctest.Test(t, func(t *testing.T) {
			a := slow(10 * hedge)
			if err := writes(t.Context(), hedging(t, client.Options{Hedge: hedge}, a))[name](); err != nil || a.made.Load() != 1 {
				t.Errorf("%s: %d attempts, %v", name, a.made.Load(), err)
			}
		})
	}
	for name, o := range map[string]client.Options{
		"no Hedge": {}, "one attempt": {Hedge: hedge, MaxAttempts: 1}, "in time": {Hedge: 11 * hedge},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := slow(10 * hedge)
			if _, err := hedging(t, o, a).Filter(t.Context(), oneFeed()); err != nil || a.made.Load() != 1 {
				t.Errorf("%s: %d attempts, %v", name, a.made.Load(), err)
			}
		})
	}
}

// TestHedgeFailures: an error that a retry may change ends a call only after both attempts fail.
// Any other error ends it at once.
func TestHedgeFailures(t *testing.T) {
	const later = 2 * hedge
	for name, c := range map[string]struct {
		answer func(r *http.Request, attempt int64) (*http.Response, error)
		most   int
		want   int64
		took   time.Duration
		is     error
	}{
		"the first, then an answer": {func(r *http.Request, n int64) (*http.Response, error) {
			if n == 1 {
				return after(r, later, 503, "overloaded")
			}
			time.Sleep(3 * hedge)
			return isAnswered(r)
		}, 4, 2, 4 * hedge, nil},
		"the second, then an answer": {func(r *http.Request, n int64) (*http.Response, error) {
			if n == 2 {
				return after(r, 0, 429, "rate_limited")
			}
			time.Sleep(3 * hedge)
			return isAnswered(r)
		}, 4, 2, 3 * hedge, nil},
		"both": {func(r *http.Request, n int64) (*http.Response, error) {
			return after(r, time.Duration(3-n)*later, 503, "overloaded")
		}, 2, 2, 2 * later, client.ErrOverloaded},
		"invalid": {func(r *http.Request, n int64) (*http.Response, error) {
			if n == 1 {
				return after(r, later, 422, "self_block")
			}
			return silent(r)
		}, 4, 2, later, client.ErrInvalid},
		"before it": {func(r *http.Request, _ int64) (*http.Response, error) {
			return after(r, hedge/2, 422, "self_block")
		}, 4, 1, hedge / 2, client.ErrInvalid},
		"the deadline": {func(r *http.Request, _ int64) (*http.Response, error) {
			return silent(r)
		}, 4, 2, time.Second, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a := &attempts{answer: c.answer}
			start := time.Now()
			_, err := hedging(t, client.Options{Hedge: hedge, MaxAttempts: c.most}, a).Filter(ctx, oneFeed())
			if a.made.Load() != c.want || time.Since(start) != c.took || !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
				t.Errorf("%s: %d attempts in %v, %v", name, a.made.Load(), time.Since(start), err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // both attempts count, and the third is not hedged
		a := &attempts{answer: func(r *http.Request, _ int64) (*http.Response, error) {
			return after(r, later, 503, "overloaded")
		}}
		if _, err := hedging(t, client.Options{Hedge: hedge, MaxAttempts: 3}, a).Filter(t.Context(), oneFeed()); !errors.Is(err, client.ErrOverloaded) || a.made.Load() != 3 {
			t.Errorf("%d attempts, %v", a.made.Load(), err)
		}
	})
}

// TestHedgesHaveABudget: second attempts take retries from the budget, and leave half of it for
// retries.
func TestHedgesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool // attempts that nobody waits for read it, too
		a := &attempts{answer: func(r *http.Request, _ int64) (*http.Response, error) {
			if down.Load() {
				return after(r, 0, 503, "overloaded")
			}
			time.Sleep(10 * hedge)
			return isAnswered(r)
		}}
		c := hedging(t, client.Options{Hedge: hedge}, a)
		for range 9 { // six take a retry each and return a tenth
			if _, err := c.Filter(t.Context(), oneFeed()); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.made.Load(); got != 9+6 {
			t.Errorf("%d attempts of 9 calls", got)
		}
		down.Store(true)
		a.made.Store(0)
		for range 5 {
			_, _ = c.Filter(t.Context(), oneFeed())
		}
		if got := a.made.Load(); got != 5+4 { // 4.9 were left
			t.Errorf("%d attempts of 5 calls", got)
		}
	})
}

// TestHedgeConnection: the second attempt uses another connection.
func TestHedgeConnection(t *testing.T) {
	var first atomic.Pointer[string]
	canceled := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if first.CompareAndSwap(nil, &r.RemoteAddr) {
			<-r.Context().Done()
			close(canceled)
			return
		}
		if *first.Load() == r.RemoteAddr {
			t.Error("both attempts used one connection")
		}
		w.Header().Set("Content-Type", typeMessage)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, server.URL, client.Options{Hedge: time.Nanosecond})
	if _, err := c.Filter(t.Context(), oneFeed()); err != nil {
		t.Error(err)
	}
	<-canceled
}

// TestDeadlineIsSent: a message carries the time that its attempt has, at most the time that the
// context has left.
func TestDeadlineIsSent(t *testing.T) {
	for _, c := range []struct {
		attempt, context time.Duration
		json             bool
		want             string
	}{
		{0, 0, false, "15000"}, {0, 300 * time.Millisecond, false, "300"}, {time.Second, time.Minute, false, "1000"},
		{0, time.Microsecond, false, "1"}, {200 * 24 * time.Hour, 0, false, "9999999999"}, {0, time.Second, true, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := "none"
			a := &attempts{answer: func(r *http.Request, _ int64) (*http.Response, error) {
				got = strings.Join(r.Header["Connect-Timeout-Ms"], ",")
				if c.json {
					return answered(r, 200, `{"counts":{}}`), nil
				}
				return isAnswered(r)
			}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.context > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), c.context)
				defer cancel()
			}
			if _, err := hedging(t, client.Options{AttemptTimeout: c.attempt, JSON: c.json}, a).Counts(ctx, "1"); err != nil || got != c.want {
				t.Errorf("%+v: %q, %v", c, got, err)
			}
		})
	}
}
