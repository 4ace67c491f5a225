package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

// network answers requests without a network. In a synctest bubble, time passes while everything
// waits.
type network func(r *http.Request, attempt int) (*http.Response, error)

// counted is a network as a transport that counts its requests and records their times.
type counted struct {
	network

	asked atomic.Int64
	open  atomic.Int64 // bodies
	times []time.Duration
	start time.Time
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	n := int(c.asked.Add(1))
	c.times = append(c.times, time.Since(c.start))
	res, err := c.network(r, n)
	if res != nil {
		c.open.Add(1)
		res.Body = &closedOnce{ReadCloser: res.Body, open: &c.open}
	}
	return res, err
}

// closedOnce counts a body as open until it is closed.
type closedOnce struct {
	io.ReadCloser

	open *atomic.Int64
	once sync.Once
}

func (b *closedOnce) Close() error {
	b.once.Do(func() { b.open.Add(-1) })
	return b.ReadCloser.Close()
}

// answered returns a JSON answer. Header pairs can change its headers.
func answered(r *http.Request, status int, body string, header ...string) *http.Response {
	res := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
	for i := 0; i < len(header); i += 2 {
		res.Header.Set(header[i], header[i+1])
	}
	return res
}

// over returns a client over the network that speaks JSON.
func over(t *testing.T, o client.Options, n network) (*client.Client, *counted) {
	t.Helper()
	transport := &counted{network: n, start: time.Now()}
	o.HTTPClient, o.JSON = &http.Client{Transport: transport}, true
	return newClient(t, "http://service", o), transport
}

// overOlder returns a client over the network of a service that accepts no messages, and does not
// know AnswerDropped.
func overOlder(t *testing.T, n network) *client.Client {
	t.Helper()
	return newClient(t, "http://service", client.Options{HTTPClient: &http.Client{Transport: &counted{
		start: time.Now(),
		network: func(r *http.Request, attempt int) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/feedfilter.v1.") {
				return answered(r, 404, overloaded), nil
			}
			return n(r, attempt)
		},
	}}})
}

const (
	okKinds     = `{"kinds":[]}`
	overloaded  = `{"error":{"code":"overloaded","message":"the service has too much to do"}}`
	unavailable = `{"error":{"code":"unavailable","message":"what this call needs is unavailable: ledger"}}`
)

var errCut = errors.New("connection reset by peer")

// cutOff returns a body that breaks off after text.
func cutOff(text string) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text), readerOf(func([]byte) (int, error) { return 0, errCut })))
}

type readerOf func([]byte) (int, error)

func (r readerOf) Read(p []byte) (int, error) { return r(p) }

// TestRetries: a call is retried only if a retry may have another result.
func TestRetries(t *testing.T) {
	cut := func(r *http.Request) (*http.Response, error) {
		res := answered(r, 200, "")
		res.Body = cutOff(`{"kin`)
		return res, nil
	}
	for name, c := range map[string]struct {
		first    func(r *http.Request) (*http.Response, error)
		attempts int64
		is       error // without a retry, or if all attempts fail in the same way
	}{
		"overloaded":  {func(r *http.Request) (*http.Response, error) { return answered(r, 503, overloaded), nil }, 2, nil},
		"unavailable": {func(r *http.Request) (*http.Response, error) { return answered(r, 503, unavailable), nil }, 2, nil},
		"too many":    {func(r *http.Request) (*http.Response, error) { return answered(r, 429, overloaded), nil }, 2, nil},
		"a proxy's error": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 502, "<html>", "Content-Type", "text/html"), nil
		}, 2, nil},
		"a bare 400": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 400, "400 Bad Request", "Content-Type", "text/plain; charset=utf-8"), nil
		}, 2, nil},
		"no connection":  {func(*http.Request) (*http.Response, error) { return nil, errCut }, 2, nil},
		"half an answer": {cut, 2, nil},
		"invalid": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 400, `{"error":{"code":"x","message":"y"}}`), nil
		}, 1, client.ErrInvalid},
		"denied": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 401, `{"error":{"code":"x","message":"y"}}`), nil
		}, 1, client.ErrDenied},
		"no ledger": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 501, `{"error":{"code":"no_ledger","message":"y"}}`), nil
		}, 1, client.ErrNoLedger},
		"inside": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 500, `{"error":{"code":"internal","message":"y"}}`), nil
		}, 1, client.ErrUnavailable},
		"another type": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 200, okKinds, "Content-Type", "text/plain"), nil
		}, 1, client.ErrForeign},
		"not JSON":   {func(r *http.Request) (*http.Response, error) { return answered(r, 200, `{"kinds":[}`), nil }, 1, client.ErrForeign},
		"two values": {func(r *http.Request) (*http.Response, error) { return answered(r, 200, okKinds+okKinds), nil }, 1, client.ErrForeign},
		"another's 404": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 404, `<html>`, "Content-Type", "text/html"), nil
		}, 1, client.ErrForeign},
		"too long": {func(r *http.Request) (*http.Response, error) {
			return answered(r, 200, okKinds+strings.Repeat(" ", 2000)), nil
		}, 1, client.ErrForeign},
	} {
		synctest.Test(t, func(t *testing.T) {
			service, asked := over(t, client.Options{MaxAnswerBytes: 1000}, func(r *http.Request, n int) (*http.Response, error) {
				if n > 1 {
					return answered(r, 200, okKinds), nil
				}
				return c.first(r)
			})
			_, err := service.Kinds(t.Context())
			if got := asked.asked.Load(); got != c.attempts || !errors.Is(err, c.is) || (c.is == nil) != (err == nil) {
				t.Errorf("%s: %d attempts, %v", name, got, err)
			}
			if open := asked.open.Load(); open != 0 {
				t.Errorf("%s: %d bodies were left open", name, open)
			}
			// If all attempts fail in the same way, their number is limited, and the last error is
			// returned.
			service, asked = over(t, client.Options{MaxAnswerBytes: 1000}, func(r *http.Request, _ int) (*http.Response, error) { return c.first(r) })
			_, err = service.Kinds(t.Context())
			if got := asked.asked.Load(); err == nil || c.attempts == 2 && (got != 4 || !errors.Is(err, client.ErrUnavailable)) || c.attempts == 1 && got != 1 {
				t.Errorf("%s, always: %d attempts, %v", name, got, err)
			}
		})
	}
}

// TestPauses: pauses grow, are random, and are at least Retry-After. The client does not begin a
// pause that outlasts the context.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := ""
		n := func(r *http.Request, _ int) (*http.Response, error) {
			return answered(r, 503, overloaded, "Retry-After", after), nil
		}
		const attempts = 10
		service, asked := over(t, client.Options{MaxAttempts: attempts}, n)
		_, err := service.Kinds(t.Context())
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "overloaded" || len(asked.times) != attempts {
			t.Fatalf("%d attempts, %v", len(asked.times), err)
		}
		longest := time.Duration(0)
		for i := 1; i < attempts; i++ {
			pause, most := asked.times[i]-asked.times[i-1], min(100*time.Millisecond<<(i-1), 3*time.Second)
			if pause < 0 || pause >= most {
				t.Errorf("pause %d is %v, want at most %v", i, pause, most)
			}
			longest = max(longest, pause)
		}
		if longest < 100*time.Millisecond { // false by chance once in 10^9 runs
			t.Errorf("pauses do not grow: the longest is %v", longest)
		}
		after = "2"
		service, asked = over(t, client.Options{}, n)
		_, err = service.Kinds(t.Context())
		if e, ok := errors.AsType[*client.Error](err); !ok || e.RetryAfter != 2*time.Second {
			t.Errorf("%v", err)
		}
		for i := 1; i < 4; i++ {
			if pause := asked.times[i] - asked.times[i-1]; pause < 2*time.Second || pause > 2100*time.Millisecond {
				t.Errorf("after Retry-After: 2 it was %v", pause)
			}
		}
		after = "31"
		service, asked = over(t, client.Options{}, n)
		if _, err = service.Kinds(t.Context()); len(asked.times) != 1 || !errors.Is(err, client.ErrOverloaded) {
			t.Errorf("%d attempts after Retry-After: 31, %v", len(asked.times), err)
		}
		after = "2"
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		service, asked = over(t, client.Options{}, n)
		if _, err := service.Kinds(ctx); len(asked.times) != 4 || !errors.Is(err, client.ErrOverloaded) {
			t.Errorf("%d attempts in a minute, %v", len(asked.times), err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		service, asked = over(t, client.Options{}, n)
		start := time.Now()
		if _, err := service.Kinds(ctx); !errors.Is(err, client.ErrOverloaded) || !errors.Is(err, client.ErrUnavailable) || len(asked.times) != 1 || time.Since(start) != 0 {
			t.Errorf("%d attempts in %v, %v", len(asked.times), time.Since(start), err)
		}
	})
}

// TestRetryBudget: all calls together make ten retries, and one more for each ten successful calls.
func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		service, asked := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			if down {
				return answered(r, 503, unavailable), nil
			}
			return answered(r, 200, okKinds), nil
		})
		for range 20 {
			if _, err := service.Kinds(t.Context()); err == nil {
				t.Fatal("the call succeeded")
			}
		}
		if got := asked.asked.Load(); got != 20+10 {
			t.Errorf("%d attempts of 20 calls", got)
		}
		down = false
		for range 21 {
			if _, err := service.Kinds(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		down = true
		asked.asked.Store(0)
		for range 20 {
			_, _ = service.Kinds(t.Context())
		}
		if got := asked.asked.Load(); got != 20+2 {
			t.Errorf("%d attempts of 20 calls after 21 successful ones", got)
		}
	})
}

// TestStalledAttempts: a stalled attempt times out, wherever it stalls, and is retried. The context
// ends the whole call.
func TestStalledAttempts(t *testing.T) {
	silent := map[string]network{
		"before the answer": func(r *http.Request, _ int) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"within it": func(r *http.Request, _ int) (*http.Response, error) {
			res := answered(r, 200, "")
			res.Body = io.NopCloser(readerOf(func([]byte) (int, error) { <-r.Context().Done(); return 0, r.Context().Err() }))
			return res, nil
		},
	}
	for name, n := range silent {
		synctest.Test(t, func(t *testing.T) {
			service, asked := over(t, client.Options{AttemptTimeout: time.Second, MaxAttempts: 3}, n)
			start := time.Now()
			_, err := service.Kinds(t.Context())
			if took := time.Since(start); !errors.Is(err, client.ErrUnavailable) || asked.asked.Load() != 3 || took < 3*time.Second || took > 3500*time.Millisecond {
				t.Errorf("%s: %d attempts in %v, %v", name, asked.asked.Load(), took, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start = time.Now()
			_, err = service.Kinds(ctx)
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnavailable) || took != 300*time.Millisecond {
				t.Errorf("%s: in %v, %v", name, took, err)
			}
			ctx, cancel = context.WithCancel(t.Context())
			cancel()
			if _, err := service.Kinds(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			// A deletion may take longer than other calls.
			start = time.Now()
			if _, err := service.DeleteUser(t.Context(), "1"); err == nil || time.Since(start) < 15*time.Minute {
				t.Errorf("%s: a deletion in %v, %v", name, time.Since(start), err)
			}
		})
	}
}

// TestPartsOfAnswers: an answer that lacks a required field is an error. Otherwise a post could
// count as shown, or an activity as recorded, without the service saying so.
func TestPartsOfAnswers(t *testing.T) {
	posts := []client.Post{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for body, whole := range map[string]bool{
		`{"posts":[{"id":"a"}],"dropped":[{"id":"b","kind":"hide"},{"id":"c","kind":"hide"}],"degraded":[]}`: true,
		`{"posts":[{"id":"a"}],"dropped":[{"id":"b","kind":"hide"}],"next":2,"degraded":[]}`:                 true,
		`{"posts":[{"id":"a"}],"dropped":[{"id":"b","kind":"hide"}],"degraded":[]}`:                          false,
		`{"posts":[{"id":"a"}],"dropped":[],"next":2,"degraded":[]}`:                                         false,
		`{"posts":[{"id":"a"},{"id":"b"},{"id":"c"}],"dropped":[],"next":3,"degraded":[]}`:                   false,
		`{"posts":[{"id":"a"},{"id":"b"},{"id":"c"}],"dropped":[],"next":-1,"degraded":[]}`:                  false,
		`{"posts":[{"id":"a"},{"id":"b"},{"id":"c"}],"dropped":[]}`:                                          false,
		`{"dropped":[{"index":1,"kind":"hide"},{"index":2,"kind":"hide"}],"degraded":[]}`:                    true,
		`{"dropped":[{"index":1,"kind":"hide"}],"next":2,"degraded":[]}`:                                     true,
		`{"dropped":[{"index":2,"kind":"hide"}],"next":2,"degraded":[]}`:                                     false,
		`{"dropped":[{"index":3,"kind":"hide"}],"degraded":[]}`:                                              false,
		`{"dropped":[{"index":1,"kind":"hide"},{"index":1,"kind":"hide"}],"degraded":[]}`:                    false,
		`{"dropped":[],"annotated":{"like":[0]},"degraded":[]}`:                                              false,
		`{"dropped":[]}`: false, `{"degraded":[]}`: false, `{}`: false, `{"changed":true}`: false,
	} {
		answer := func(r *http.Request, _ int) (*http.Response, error) { return answered(r, 200, body), nil }
		service, _ := over(t, client.Options{}, answer)
		if strings.Contains(body, "posts") {
			service = overOlder(t, answer)
		}
		if _, err := service.Filter(t.Context(), client.FilterRequest{Viewer: "1", Posts: posts}); (err == nil) != whole || !whole && !errors.Is(err, client.ErrForeign) {
			t.Errorf("%s: %v", body, err)
		}
		if _, err := service.Put(t.Context(), "1", client.Hide, "a", time.Time{}); (err == nil) != strings.Contains(body, "changed") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestUnrequestedKeptPosts: an answer with kept posts to a request for dropped ones is an error,
// because its indexes may have another meaning.
func TestUnrequestedKeptPosts(t *testing.T) {
	service, _ := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
		return answered(r, 200, `{"posts":[{"id":"b"}],"dropped":[{"id":"a","kind":"hide"}],"degraded":[]}`), nil
	})
	req := client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "a"}, {ID: "b"}}}
	if feed, err := service.Filter(t.Context(), req); !errors.Is(err, client.ErrForeign) {
		t.Errorf("%+v, %v", feed, err)
	}
}

// TestPathsOnTheWire: ids such as ".." are escaped so that no proxy takes them for a place in the
// path.
func TestPathsOnTheWire(t *testing.T) {
	for id, want := range map[string]string{".": "%2E", "..": "%2E%2E", "a/b": "a%2Fb", "a.b": "a.b", "?": "%3F", "%": "%25"} {
		var got string
		service, _ := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			got = r.URL.RequestURI()
			return answered(r, 200, `{"changed":true}`), nil
		})
		if _, err := service.Delete(t.Context(), id, client.Hide, id); err != nil || got != "/v1/users/"+want+"/hide/"+want {
			t.Errorf("%q: %s, %v", id, got, err)
		}
	}
}

// TestRecordSeenOnce: a feed that records kept posts as seen is not retried once it may have done
// so. The retry would drop these posts.
func TestRecordSeenOnce(t *testing.T) {
	for name, c := range map[string]struct {
		first network
		want  int64
	}{
		"overloaded":  {func(r *http.Request, _ int) (*http.Response, error) { return answered(r, 503, overloaded), nil }, 2},
		"unavailable": {func(r *http.Request, _ int) (*http.Response, error) { return answered(r, 503, unavailable), nil }, 1},
		"not yet": {func(r *http.Request, _ int) (*http.Response, error) {
			return answered(r, 503, `{"error":{"code":"not_yet","message":"","field":"after"}}`, "Retry-After", "1"), nil
		}, 2},
		"cut":           {func(*http.Request, int) (*http.Response, error) { return nil, errCut }, 1},
		"cut, dialling": {func(*http.Request, int) (*http.Response, error) { return nil, &net.OpError{Op: "dial", Err: errCut} }, 2},
		"cut, writing":  {func(*http.Request, int) (*http.Response, error) { return nil, &net.OpError{Op: "write", Err: errCut} }, 1},
		"a proxy's": {func(r *http.Request, _ int) (*http.Response, error) {
			return answered(r, 504, "", "Content-Type", "text/html"), nil
		}, 1},
		"cut, answering": {func(r *http.Request, _ int) (*http.Response, error) {
			res := answered(r, 200, "")
			res.Body = cutOff("{")
			return res, nil
		}, 1},
	} {
		for _, record := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				service, asked := over(t, client.Options{}, func(r *http.Request, n int) (*http.Response, error) {
					if n == 1 {
						return c.first(r, n)
					}
					return answered(r, 200, `{"dropped":[],"degraded":[]}`), nil
				})
				want := c.want
				if !record {
					want = 2
				}
				_, err := service.Filter(t.Context(), client.FilterRequest{Viewer: "1", RecordSeen: record})
				if got := asked.asked.Load(); got != want || (err == nil) != (want == 2) {
					t.Errorf("%s, recording %v: %d attempts, %v", name, record, got, err)
				}
			})
		}
	}
}
