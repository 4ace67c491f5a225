package httpapi_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/servertest"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

const (
	healthCheck = "/grpc.health.v1.Health/Check"
	docsBundle  = "/docs/swagger-ui/swagger-ui-bundle.js"
	feedOfOne   = `{"viewer":"1","posts":[{"id":"p","author":"2"}]}`
)

// running is a handler that counts the requests in it.
type running struct {
	http.Handler

	now atomic.Int64
}

func (h *running) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.now.Add(1)
	defer h.now.Add(-1)
	h.Handler.ServeHTTP(w, r)
}

// await waits until the number of requests in the handler is in a range.
func (h *running) await(t testing.TB, from, to int64) {
	t.Helper()
	what := fmt.Sprintf("%d to %d requests in the handler", from, to)
	err := servertest.Await(t.Context(), what, func(context.Context) error {
		if now := h.now.Load(); now < from || now > to {
			return fmt.Errorf("%d are", now)
		}
		return nil
	})
	must(t, err)
}

// unreader is an HTTP/2 client that lets the server send no byte of an answer's body: its windows
// are empty. It costs the test nothing, so there can be thousands of requests.
type unreader struct {
	t    testing.TB
	conn net.Conn
	last uint32 // number of the last stream
}

const (
	frameData     = 0
	frameHeaders  = 1
	frameSettings = 4
	endStream     = 1
	endHeaders    = 4
)

func newUnreader(t testing.TB, addr string) *unreader {
	t.Helper()
	conn := dial(t, addr)
	u := &unreader{t: t, conn: conn}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	u.frame(frameSettings, 0, 0, "\x00\x04\x00\x00\x00\x00") // the initial window size is 0
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	return u
}

func (u *unreader) frame(kind, flags byte, stream uint32, payload string) {
	u.t.Helper()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	if _, err := u.conn.Write(append(head, payload...)); err != nil {
		u.t.Fatalf("send a frame: %v", err)
	}
}

// begin sends the header of a request, with pairs of a name and a value, and whether it is the end.
func (u *unreader) begin(method, path string, end bool, header ...string) {
	u.t.Helper()
	var block strings.Builder
	for i, pairs := 0, append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", "localhost"}, header...); i < len(pairs); i += 2 {
		name, value := strings.ToLower(pairs[i]), pairs[i+1]
		fmt.Fprintf(&block, "\x00%c%s%c%s", len(name), name, len(value), value)
	}
	u.last = max(1, u.last+2)
	if u.last%2 == 0 {
		u.last++
	}
	flags := byte(endHeaders)
	if end {
		flags |= endStream
	}
	u.frame(frameHeaders, flags, u.last, block.String())
}

// send sends a part of the body of the last request.
func (u *unreader) send(part string) {
	u.t.Helper()
	u.frame(frameData, 0, u.last, part)
}

// manyUnreaders begins n requests that do not end, 200 on each connection.
func manyUnreaders(t testing.TB, addr string, n int, begin func(u *unreader)) {
	t.Helper()
	var u *unreader
	for i := range n {
		if i%200 == 0 {
			u = newUnreader(t, addr)
		}
		begin(u)
	}
}

// live returns the size of the live heap.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStrangersGiveWay: many requests that need no token, or lack it, and do not end take little
// memory. The oldest of them give way, and probes are answered.
func TestStrangersGiveWay(t *testing.T) {
	const all, most = 1500, 1024
	for name, begin := range map[string]func(u *unreader){
		"health checks without an end": func(u *unreader) {
			u.begin("POST", healthCheck, false, "content-type", "application/grpc")
		},
		"watches without an end": func(u *unreader) {
			u.begin("POST", "/grpc.health.v1.Health/Watch", false, "content-type", "application/grpc")
		},
		"reflection": func(u *unreader) {
			u.begin("POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", false, "content-type", "application/grpc")
		},
		"unread probes":   func(u *unreader) { u.begin("GET", "/healthz", true) },
		"unread refusals": func(u *unreader) { u.begin("GET", "/v1/stats", true) },
		"unread documents": func(u *unreader) {
			u.begin("GET", docsBundle, true)
		},
		"bodies of a probe that do not come": func(u *unreader) { u.begin("POST", "/healthz", false) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := guarded(t, httpapi.Config{}, nil)
			var begun atomic.Int64
			addr := serveBoth(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				begun.Add(1)
				s.ServeHTTP(w, r)
			}))
			before, routines := live(), runtime.NumGoroutine()
			manyUnreaders(t, addr, all, begin)
			s.await(t, "all requests have begun", func() error {
				if n := begun.Load(); n < all {
					return fmt.Errorf("%d of %d", n, all)
				}
				return nil
			})
			// Each connection has a few goroutines besides those of its requests.
			s.await(t, "the oldest have given way", func() error {
				if n := runtime.NumGoroutine() - routines; n > most+most/10 {
					return fmt.Errorf("%d goroutines", n)
				}
				return nil
			})
			if a := raw(t, addr, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"); a.Status != 200 {
				t.Errorf("a probe: %d %s", a.Status, a.Body)
			}
			if a := raw(t, addr, feedRequest("feed")); a.Status != 200 {
				t.Errorf("a feed: %d %s", a.Status, a.Body)
			}
			if grown := int64(live()) - int64(before); grown > 32<<20 {
				t.Errorf("%d requests take %d MiB", all, grown>>20)
			}
		})
	}
}

// pausedLog is a log that pauses at the end of a feed, before its answer is sent.
type pausedLog struct {
	slog.Handler

	ended, send chan struct{}
}

func (l pausedLog) Handle(_ context.Context, line slog.Record) error {
	line.Attrs(func(a slog.Attr) bool {
		if a.Key == "token" && a.Value.String() == "feed" {
			close(l.ended)
			<-l.send
		}
		return true
	})
	return nil
}

// TestFeedsDoNotGiveWay: however many strangers come between a feed and its answer, the answer is
// sent.
func TestFeedsDoNotGiveWay(t *testing.T) {
	debug, _ := logs()
	log := pausedLog{debug.Handler(), make(chan struct{}), make(chan struct{})}
	s, _ := guarded(t, httpapi.Config{Logger: slog.New(log)}, nil)
	h := &running{Handler: s.Handler}
	addr := serveBoth(t, h)
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, feedRequest("feed")); err != nil {
		t.Fatal(err)
	}
	<-log.ended
	manyUnreaders(t, addr, 1500, func(u *unreader) { u.begin("POST", "/healthz", false) })
	h.await(t, 1000, 1100)
	close(log.send)
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodPost})
	must(t, err)
	defer res.Body.Close()
	if a := answerOf(t, res); a.Status != 200 {
		t.Errorf("a feed: %d %s", a.Status, a.Body)
	}
}

// feedRequest is a request of one feed over HTTP/1.1.
func feedRequest(token string) string {
	return fmt.Sprintf("POST /v1/feed/filter HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		token, len(feedOfOne), feedOfOne)
}

// TestReflectionTakesNoRequest: open streams of reflection do not count as requests in progress.
func TestReflectionTakesNoRequest(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{MaxRequests: 2}, nil)
	addr := serveBoth(t, s)
	conn := dialGRPC(t, addr)
	for range 20 {
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		must(t, err)
		if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
			t.Fatal(err)
		}
		if res, err := stream.Recv(); err != nil || len(res.GetListServicesResponse().GetService()) == 0 {
			t.Fatalf("%v, %v", res, err)
		}
	}
	if a := raw(t, addr, feedRequest("feed")); a.Status != 200 {
		t.Errorf("a feed: %d %s", a.Status, a.Body)
	}
	res, err := healthv1.NewHealthClient(conn).Check(t.Context(), new(healthv1.HealthCheckRequest))
	if err != nil || res.GetStatus() != serving {
		t.Errorf("a health check: %v, %v", res, err)
	}
}

// TestUnreadScrapes: scrapes whose answers nobody reads do not delay others, and give way.
func TestUnreadScrapes(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{}, nil)
	h := &running{Handler: s.Handler}
	addr := serveBoth(t, h)
	manyUnreaders(t, addr, 100, func(u *unreader) { u.begin("GET", "/metrics", true, "authorization", "Bearer ops") })
	const scrape = "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ops\r\nConnection: close\r\n\r\n"
	for range 5 {
		if a := raw(t, addr, scrape); a.Status != 200 || !strings.Contains(a.Body, "feedfilter_http_requests_total") {
			t.Errorf("%d %.200s", a.Status, a.Body)
		}
	}
	h.await(t, 1, 16)
}

// TestShares: a token that holds all it can get of a budget leaves some for others.
func TestShares(t *testing.T) {
	const json, grpc = "application/json", "application/grpc"
	half := strings.Repeat(" ", 600)
	for name, c := range map[string]struct {
		config httpapi.Config
		hold   func(u *unreader)
		held   int64 // requests that the token keeps in progress
	}{
		"requests": {
			httpapi.Config{MaxRequests: 16},
			func(u *unreader) {
				u.begin("POST", "/v1/feed/filter", false, "authorization", "Bearer all", "content-type", json)
			}, 14,
		},
		"streams": {
			httpapi.Config{MaxStreams: 16},
			func(u *unreader) {
				u.begin("POST", "/v1/activities", false, "authorization", "Bearer all", "content-type", "application/x-ndjson")
			}, 14,
		},
		"streams of messages": {
			httpapi.Config{MaxStreams: 16},
			func(u *unreader) {
				u.begin("POST", feedfilterv1connect.ActivityServiceRecordStreamProcedure, false, "authorization", "Bearer all", "content-type", grpc)
			}, 14,
		},
		"bodies": {
			httpapi.Config{MaxBodyBytes: 1000, MaxBodiesBytes: 9600},
			func(u *unreader) {
				u.begin("POST", "/v1/feed/filter", false, "authorization", "Bearer all", "content-type", json, "content-length", "1000")
				u.send(half)
			}, 14,
		},
		"messages": {
			httpapi.Config{MaxBodyBytes: 1000, MaxBodiesBytes: 9600},
			func(u *unreader) {
				u.begin("POST", feedfilterv1connect.FeedServiceFilterProcedure, false, "authorization", "Bearer all", "content-type", grpc)
				u.send("\x00\x00\x00\x03\xe8" + half[:595])
			}, 14,
		},
		"second messages": {
			httpapi.Config{MaxBodyBytes: 1000, MaxBodiesBytes: 9600},
			func(u *unreader) {
				u.begin("POST", feedfilterv1connect.FeedServiceFilterProcedure, false, "authorization", "Bearer all", "content-type", grpc)
				u.send("\x00\x00\x00\x00\x00" + "\x00\x00\x00\x03\xe0" + half[:590])
			}, 14,
		},
		"messages of streams": {
			httpapi.Config{MaxBodyBytes: 1000, MaxBodiesBytes: 9600},
			func(u *unreader) {
				u.begin("POST", feedfilterv1connect.ActivityServiceRecordStreamProcedure, false, "authorization", "Bearer all", "content-type", grpc)
				u.send("\x00\x00\x00\x03\xe8" + half[:595])
			}, 14,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := guarded(t, c.config, nil)
			h := &running{Handler: s.Handler}
			addr := serveBoth(t, h)
			for range 32 {
				c.hold(newUnreader(t, addr)) // each on its own connection
			}
			h.await(t, c.held, c.held)
			if a := raw(t, addr, feedRequest("feed")); a.Status != 200 {
				t.Errorf("another token's feed: %d %s", a.Status, a.Body)
			}
			if got := s.do(t, "POST", "/v1/activities", activityLine("1", "hide", "p", "add"), append(as("activity"), "Content-Type", "application/x-ndjson")...); got.Body != yes+"\n" {
				t.Errorf("another token's stream: %d %s", got.Status, got.Body)
			}
		})
	}
}

// TestUserRateCountsLists: each list of a feed, and each user of a fan-out, counts as a call.
func TestUserRateCountsLists(t *testing.T) {
	s := newService(t, httpapi.Config{Access: limits.Access{Users: access.NewUsers(access.Rate{PerSecond: 0.01, Burst: 3})}}, nil)
	for name, ask := range map[string]func(user string) answer{
		"feed": func(u string) answer {
			return s.do(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":%q,"posts":[],"lists":["a","b"]}`, u))
		},
		"explain": func(u string) answer {
			return s.do(t, "POST", "/v1/feed/explain", fmt.Sprintf(`{"viewer":%q,"post":{"id":"p","author":"2"},"lists":["a","b"]}`, u))
		},
		"fan-out": func(u string) answer {
			return s.do(t, "POST", "/v1/fanout/filter", fmt.Sprintf(`{"author":%q,"actors":["a","b"],"viewers":["1"]}`, u))
		},
	} {
		for n, want := range []int{200, 429} { // three calls of three
			if a := ask(name); a.Status != want {
				t.Errorf("%s, call %d: %d %s, want %d", name, n, a.Status, a.Body, want)
			}
		}
	}
}

// TestErrorsFillNoLog: the errors of a token are logged ten at once, and do not hide those of
// others.
func TestErrorsFillNoLog(t *testing.T) {
	log, out := logs()
	s, _ := guarded(t, httpapi.Config{Logger: log}, nil)
	for range 1000 {
		s.do(t, "POST", "/v1/feed/filter", `{`, as("feed")...)
	}
	s.do(t, "POST", "/v1/feed/filter", `{`, as("all")...)
	s.store.set(panicing)
	for range 1000 {
		s.do(t, "POST", "/v1/feed/filter", feedOfOne, as("feed")...)
	}
	text := out.String()
	for level, most := range map[string]int{"INFO": 40, "ERROR": 40} {
		if n := strings.Count(text, `"level":"`+level+`"`); n == 0 || n > most {
			t.Errorf("%d lines of level %s in %d bytes", n, level, len(text))
		}
	}
	for _, want := range []string{`"token":"all","code":"malformed_json"`, `"stack":`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

// TestWhoIsTrusted: where tokens are required, only callers with one are trusted.
func TestWhoIsTrusted(t *testing.T) {
	tokens, _ := tokensOf(t, tokenEntry("feed", "feed:read", ""), tokenEntry("old", "feed:read", `,"expires":"2020-01-01T00:00:00Z"`))
	for header, want := range map[string]bool{"": false, "Bearer feed": true, "Bearer old": false, "Bearer wrong": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		if !new(limits.Access).Trusts(r) || (&limits.Access{Tokens: tokens}).Trusts(r) != want {
			t.Errorf("%q: want %v", header, want)
		}
	}
}
