package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// flood sends n requests at once. The answers arrive as they are given.
func flood(t testing.TB, s *httpapitest.Service, n int, method string, target func(i int) string) <-chan httpapitest.Answer {
	t.Helper()
	answers := make(chan httpapitest.Answer, n)
	for i := range n {
		go func() { answers <- s.Do(t, method, target(i), "") }()
	}
	return answers
}

// TestMaxRequestsChanges changes the limit while requests are in progress.
func TestMaxRequestsChanges(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxRequests: 1, Timeout: time.Hour}, nil)
	handler, ok := s.Handler.(*httpapi.Handler)
	if !ok {
		t.Fatalf("the handler is a %T", s.Handler)
	}
	open := s.Ledger.Lists.Shut()
	defer open()
	list := func(int) string { return "/v1/users/1/blocks" }
	answers := flood(t, s, 1, "GET", list)
	for in, _ := s.Requests(t); in != 1; in, _ = s.Requests(t) { //nolint:revive // until it has arrived
	}
	if a := s.Do(t, "GET", "/v1/users/1/blocks", ""); a.Status != 503 {
		t.Errorf("a second request at the limit 1: %d %s", a.Status, a.Body)
	}
	handler.SetMaxRequests(2)
	more := flood(t, s, 2, "GET", list)
	if a := httpapitest.Await(t, more); a.Status != 503 {
		t.Errorf("a third request at the limit 2: %d %s", a.Status, a.Body)
	}
	handler.SetMaxRequests(1)
	open()
	for _, answered := range []<-chan httpapitest.Answer{answers, more} {
		if a := httpapitest.Await(t, answered); a.Status != 200 {
			t.Errorf("the accepted request: %d %s", a.Status, a.Body)
		}
	}
	if a := s.Do(t, "GET", "/v1/users/1/blocks", ""); a.Status != 200 {
		t.Errorf("the first request at the limit 1: %d %s", a.Status, a.Body)
	}
	feed := func(posts int) string {
		return `{"viewer":"1","posts":[` + httpapitest.Repeated(posts, `{"id":"p","author":"2"}`) + `]}`
	}
	large := feed(5001)
	httpapitest.WantOverloaded(t, "a large feed at the limit 1", s.Do(t, "POST", "/v1/feed/filter", large), true)
	handler.SetMaxRequests(2)
	for range 2 { // it gives back what it took
		if a := s.Do(t, "POST", "/v1/feed/filter", large); a.Status != 200 {
			t.Errorf("a large feed at the limit 2: %d %.200s", a.Status, a.Body)
		}
	}
	handler.SetMaxRequests(1)
	if a := s.Do(t, "POST", "/v1/feed/filter", feed(5000)); a.Status != 200 {
		t.Errorf("a feed of 5,000 at the limit 1: %d %.200s", a.Status, a.Body)
	}
}

// TestFlood requests 2,000 lists at once while the ledger hangs. Feeds are answered.
func TestFlood(t *testing.T) {
	const limit, most, all = 64, 48, 2000
	logger, out := httpapitest.Logs()
	s := httpapitest.NewService(t, httpapi.Config{MaxRequests: limit, Timeout: time.Hour, Logger: logger}, nil)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	open := s.Ledger.Lists.Shut()
	defer open()
	answers := flood(t, s, all, "GET", func(int) string { return "/v1/users/1/blocks" })
	told := make(map[string]int)
	for range all - most { // while none of the others proceeds
		a := httpapitest.Await(t, answers)
		httpapitest.WantOverloaded(t, "one too many", a, true)
		told[a.Header.Get("Retry-After")]++
	}
	if len(told) != 3 {
		t.Errorf("Retry-After %v", told)
	}
	if in, shed := s.Requests(t); in != most || shed != all-most {
		t.Errorf("%v in progress and %v shed, want %d and %d", in, shed, most, all-most)
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/stats", "/metrics"} {
		if a := s.Do(t, "GET", path, ""); a.Status != 200 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := s.Do(t, "GET", "/nothing", ""); a.Status != 404 {
		t.Errorf("an unknown path: %d %s", a.Status, a.Body)
	}
	for _, r := range []string{
		"PUT /v1/users/1/blocks/3", "DELETE /v1/users/1/blocks/2", "HEAD /v1/users/1/hides",
	} {
		method, path, _ := strings.Cut(r, " ")
		if a := s.Do(t, method, path, ""); a.Status != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", r, a.Status, a.Body)
		}
	}
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"2"}]}`, 200,
		`{"posts":[],"dropped":[{"id":"p","kind":"block","actor":"2"}],"degraded":[]}`)
	open()
	for range most {
		if a := httpapitest.Await(t, answers); a.Status != 200 || !strings.Contains(a.Body, `"target":"2"`) {
			t.Errorf("an accepted request: %d %s", a.Status, a.Body)
		}
	}
	if in, _ := s.Requests(t); in != 0 {
		t.Errorf("%v in progress at the end", in)
	}
	if got, _, _ := s.Items(t, "/v1/users/1/blocks"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("afterwards: %v", got)
	}
	log := out.String()
	if warned := strings.Count(log, "overloaded, requests refused"); warned == 0 || warned > 20 || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("%d warnings in a log of %d bytes: %.1000s", warned, len(log), log)
	}
}

// TestRefusedCostsNothing: refused requests take no memory, and their bodies are not read.
func TestRefusedCostsNothing(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxRequests: 1, Timeout: time.Hour}, nil)
	open := s.Ledger.Lists.Shut()
	defer open()
	held := flood(t, s, 2, "GET", func(int) string { return "/v1/users/1/blocks" })
	httpapitest.WantOverloaded(t, "the second of two", httpapitest.Await(t, held), true)
	refused := func(n int) {
		for i := range n {
			a, length := s.Unread(t, i)
			httpapitest.WantOverloaded(t, "with a body", a, length == 2)
		}
	}
	refused(100)
	before := httpapitest.Live()
	const n = 20_000
	refused(n)
	if grown := int64(httpapitest.Live()) - int64(before); grown > 1<<20 {
		t.Errorf("%d refused requests left %d bytes in memory", n, grown)
	}
	open()
	if a := httpapitest.Await(t, held); a.Status != 200 {
		t.Errorf("the accepted request: %d %s", a.Status, a.Body)
	}
}

// slowBody is the body of a request in progress. It stalls after a first part.
type slowBody struct {
	begun, rest chan struct{}
	first, text io.Reader
}

func (b *slowBody) Read(p []byte) (int, error) {
	if n, err := b.first.Read(p); err == nil {
		return n, nil
	}
	select {
	case <-b.begun:
	default:
		close(b.begun)
	}
	<-b.rest
	return b.text.Read(p)
}

// post sends a body of which a part has arrived. When post returns, the request has read that part,
// or is answered.
func post(t testing.TB, s *httpapitest.Service, target string, arrived int, text string, length int64) (body *slowBody, answered <-chan httpapitest.Answer) {
	t.Helper()
	body = &slowBody{
		begun: make(chan struct{}), rest: make(chan struct{}), first: strings.NewReader(text[:arrived]), text: strings.NewReader(text[arrived:]),
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, body)
	r.ContentLength = length
	r.Header.Set("Content-Type", "application/json")
	got := make(chan httpapitest.Answer, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		got <- httpapitest.Serve(t, s, r)
	}()
	select {
	case <-body.begun:
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("the request is neither in progress nor answered")
	}
	return body, got
}

// TestBodiesBudget uses up the budget of bodies, and finds it complete after each way in which a
// request can end.
func TestBodiesBudget(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxBodyBytes: 1000, MaxBodiesBytes: 2500}, nil)
	const seen = "/v1/users/1/seen"
	good := `{"posts":["x"]}` + strings.Repeat(" ", 985)
	first, firstAnswer := post(t, s, seen, 1000, good, 1000)
	second, secondAnswer := post(t, s, seen, 1000, good, -1)
	unsent, unsentAnswer := post(t, s, seen, 1, good, 1000) // counts as what has arrived
	_, tooMuch := post(t, s, seen, 500, good, 1000)
	httpapitest.WantOverloaded(t, "500 of 499 bytes left", httpapitest.Await(t, tooMuch), true)
	_, tooMuch = post(t, s, seen, 500, good, -1)
	httpapitest.WantOverloaded(t, "a body of unknown length", httpapitest.Await(t, tooMuch), false)
	third, thirdAnswer := post(t, s, seen, 499, good[:499], 499)
	httpapitest.WantOverloaded(t, "one byte more", s.Do(t, "POST", "/v1/feed/filter", "1"), true)
	// Requests without a JSON body still work, and invalid ones get their own error.
	s.Want(t, "PUT", "/v1/users/1/hides/h", "", 200, httpapitest.Yes)
	if got := s.NDJSON(t, httpapitest.ActivityLine("1", "hide", "h", "remove")); !slices.Equal(got, []string{httpapitest.Yes}) {
		t.Errorf("stream: %q", got)
	}
	if a := s.Do(t, "POST", seen, strings.Repeat(" ", 1001)); a.Status != 413 {
		t.Errorf("too large: %d %s", a.Status, a.Body)
	}
	if a := s.Do(t, "POST", seen, good, "Content-Type", "text/plain"); a.Status != 415 {
		t.Errorf("not JSON: %d %s", a.Status, a.Body)
	}
	for _, body := range []*slowBody{first, second, third} {
		close(body.rest)
	}
	for _, answered := range []<-chan httpapitest.Answer{firstAnswer, secondAnswer, thirdAnswer} {
		if a := httpapitest.Await(t, answered); a.Status != 200 || a.Body != `{"recorded":1}` {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	close(unsent.rest) // now there is room
	if a := httpapitest.Await(t, unsentAnswer); a.Status != 200 || a.Body != `{"recorded":1}` {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for range 3 { // each holds up to 1,000 bytes; only two fit
		for _, c := range []struct {
			target, text string
			status       int
		}{
			{seen, good, 200},
			{seen, strings.Repeat("nonsense", 120), 400},
			{seen, strings.Repeat("[", 1000), 400},
			{seen, strings.Repeat(" ", 980) + `{"posts":[]}`, 400},
			{seen, good + strings.Repeat(" ", 2000), 413},
			{"/v1/feed/filter", httpapitest.BlockedFeed, 200},
			{"/v1/activities", httpapitest.Lines(), 200},
		} {
			body, answered := post(t, s, c.target, min(999, len(c.text)), c.text, -1)
			close(body.rest)
			if a := httpapitest.Await(t, answered); a.Status != c.status {
				t.Fatalf("%s %.20s: %d %s, want %d", c.target, c.text, a.Status, a.Body, c.status)
			}
		}
		s.Store.Set(httpapitest.Panicing)
		if a := s.Do(t, "POST", "/v1/feed/filter", httpapitest.BlockedFeed); a.Status != 500 {
			t.Errorf("panic: %d %s", a.Status, a.Body)
		}
		s.Store.Set(httpapitest.Sound)
	}
	if in, shed := s.Requests(t); in != 0 || shed != 3 {
		t.Errorf("%v in progress, %v shed", in, shed)
	}
	if held := s.Scrape(t)["feedfilter_http_bodies_held_bytes{}"]; held != 0 {
		t.Errorf("%v bytes are held at the end", held)
	}
}

func TestStreamsBudget(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxStreams: 2}, nil)
	addr := s.Start(t)
	a, b := s.Duplex(t, addr), s.Duplex(t, addr)
	const third = "POST /v1/activities HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
	if a := httpapitest.Raw(t, addr, third); a.Status != 503 || a.Code != "overloaded" {
		t.Errorf("a third stream: %d %s", a.Status, a.Body)
	}
	s.Want(t, "POST", "/v1/activities", httpapitest.Lines(), 200, `{"results":[`+httpapitest.Yes+`]}`)
	if in, _ := s.Requests(t); in != 2 {
		t.Errorf("%v in progress", in)
	}
	_ = a.In.Close()
	if err := a.End(); err != nil {
		t.Errorf("end: %v", err)
	}
	c := s.Duplex(t, addr)
	for _, d := range []*httpapitest.Duplex{b, c} {
		d.Write(httpapitest.ActivityLine("1", "hide", "p", "add") + "\n")
		if got := d.Line(); got != httpapitest.Yes && got != httpapitest.No {
			t.Error(got)
		}
	}
}

// TestRecorderOverloaded queues more writes than the Recorder accepts.
func TestRecorderOverloaded(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxRequests: 10_000, Timeout: time.Hour}, nil)
	open := s.Ledger.Records.Shut()
	defer open()
	s.Ledger.Patient.Store(true) // a busy machine takes longer for all writes than the first may take
	const all, most = 4200, 4096
	answers := flood(t, s, all, "PUT", func(i int) string { return fmt.Sprintf("/v1/users/%d/hides/p", i) })
	for range all - most {
		httpapitest.WantOverloaded(t, "put", httpapitest.Await(t, answers), true)
	}
	httpapitest.WantOverloaded(t, "batch", s.Do(t, "POST", "/v1/activities", httpapitest.Lines()), true)
	for _, l := range s.NDJSON(t, httpapitest.Line+"\n"+httpapitest.Line) {
		httpapitest.WantError(t, l, "overloaded", "")
	}
	open()
	for range most {
		if a := httpapitest.Await(t, answers); a.Status != 200 || a.Body != httpapitest.Yes {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	s.Want(t, "GET", "/v1/users/1/blocks", "", 200, `{"items":[]}`)
	s.Want(t, "POST", "/v1/activities", httpapitest.Lines(), 200, `{"results":[`+httpapitest.Yes+`]}`)
}

// TestRefusedConnections: the connection of a refused request stays open after a small body, and is
// closed instead of waiting for a large one.
func TestRefusedConnections(t *testing.T) {
	s := httpapitest.NewService(t, httpapi.Config{MaxRequests: 1, Timeout: time.Hour}, nil)
	addr := s.Start(t)
	open := s.Ledger.Lists.Shut()
	defer open()
	held := flood(t, s, 2, "GET", func(int) string { return "/v1/users/1/blocks" })
	httpapitest.WantOverloaded(t, "the second of two", httpapitest.Await(t, held), true)
	const post = "POST /v1/activities HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		request string
		kept    bool
	}{
		"none":              {"GET /v1/users/1/blocks HTTP/1.1\r\nHost: x\r\n\r\n", true},
		"small":             {post + "Content-Length: 5\r\n\r\nhello", true},
		"64 KiB":            {post + "Content-Length: 65536\r\n\r\n" + strings.Repeat(" ", 65536), true},
		"large, never sent": {post + "Content-Length: 1048576\r\n\r\n", false},
		"chunked":           {post + "Transfer-Encoding: chunked\r\n\r\n", false},
		"expected":          {post + "Content-Length: 1048576\r\nExpect: 100-continue\r\n\r\n", false},
		"small, stalled":    {post + "Content-Length: 5\r\n\r\nhell", false}, // the rest must arrive within a second
		"chunked, part":     {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", false},
	} {
		all.Go(func() {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			ask := func(request string) (a httpapitest.Answer, kept bool) {
				_, err := io.WriteString(conn, request)
				res, readErr := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
				if err := errors.Join(err, readErr); err != nil {
					t.Errorf("%s: %v", name, err)
					return httpapitest.Answer{}, false
				}
				defer res.Body.Close()
				return httpapitest.AnswerOf(t, res), !res.Close
			}
			a, kept := ask(c.request)
			if a.Status != 503 || a.Code != "overloaded" || a.Header.Get("Retry-After") == "" || kept != c.kept {
				t.Errorf("%s: %d %s, connection kept: %v", name, a.Status, a.Body, kept)
			}
			if kept {
				if a, _ := ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); a.Status != 200 {
					t.Errorf("%s: next request: %d %s", name, a.Status, a.Body)
				}
			} else if n, err := in.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: %d unexpected bytes", name, n)
			}
		})
	}
	all.Wait()
}

// TestFeedsTakeTurns: only as many feeds read the store at once as the processors can handle. The
// others wait. A feed whose caller leaves ends at once.
func TestFeedsTakeTurns(t *testing.T) {
	synctest.Test(t, testFeedsTakeTurns) // a load that waits long in real time is given up
}

func testFeedsTakeTurns(t *testing.T) {
	const all = 400
	turns := min(all, int64(32*runtime.GOMAXPROCS(0)))
	s := httpapitest.NewService(t, httpapi.Config{Timeout: time.Hour}, nil)
	s.Want(t, "PUT", "/v1/users/1/hides/p", "", 200, httpapitest.Yes)
	open := s.Store.Loads.Shut()
	defer open()
	body := `{"viewer":"1","posts":[{"id":"p"}],"kinds":["hide"]}`
	answers := make(chan httpapitest.Answer, all)
	for range all {
		go func() { answers <- s.Do(t, "POST", "/v1/feed/filter", body) }()
	}
	synctest.Wait()
	if in, _ := s.Requests(t); in != all || s.Store.Loading.Load() != turns {
		t.Fatalf("%v feeds in progress, of which %d read the store; want %d and %d", in, s.Store.Loading.Load(), all, turns)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	s.Handler.ServeHTTP(w, httptest.NewRequestWithContext(gone, "POST", "/v1/feed/filter", strings.NewReader(body)))
	if w.Code == http.StatusOK {
		t.Errorf("a caller who left before its turn: %d %s", w.Code, w.Body)
	}
	open()
	for range all {
		if a := httpapitest.Await(t, answers); a.Status != 200 || !strings.Contains(a.Body, `"dropped":[{"id":"p"`) {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if most := s.Store.Most.Load(); most > turns {
		t.Errorf("%d feeds read the store at once, want %d", most, turns)
	}
}

// TestCongestedFeed: polls fail, and all requests that may wait for the ledger wait. Another
// process acknowledges a block, which Redis loses. A feed is refused, not answered without it.
func TestCongestedFeed(t *testing.T) {
	const limit, most = 8, 6
	s := httpapitest.NewOfPages(t, 1, httpapi.Config{MaxRequests: limit, Timeout: time.Hour}, nil, nil)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	other, err := activity.Open(t.Context(), activity.Config{Ledger: s.Whole, Store: s.Store.Store, StalenessBound: -1, Passive: true})
	httpapitest.Must(t, err)
	t.Cleanup(other.Close)
	s.Ledger.PollsFail.Store(true)
	open := s.Ledger.Lists.Shut()
	defer open()
	answers := flood(t, s, most, "GET", func(int) string { return "/v1/users/1/hides" })
	for in, _ := s.Requests(t); in != most; in, _ = s.Requests(t) { //nolint:revive // until they wait
	}
	before, _, err := s.Store.Store.Load(t.Context(), []favfilter.PageID{{}})
	httpapitest.Must(t, err)
	_, err = other.Record(t.Context(), []activity.Activity{{User: "1", Kind: "block", Target: "3"}})
	httpapitest.Must(t, err)
	for { // Redis loses the block
		now, _, err := s.Store.Store.Load(t.Context(), []favfilter.PageID{{}})
		httpapitest.Must(t, err)
		if lost, err := s.Store.Store.Replace(t.Context(), favfilter.Replacement{Page: before[0].Page, Seen: now[0].Version}); err != nil || lost {
			httpapitest.Must(t, err)
			break
		}
	}
	<-time.After(200 * time.Millisecond) // the staleness bound has passed since the acknowledgement
	feed := `{"viewer":"1","posts":[{"id":"p","author":"3"}]}`
	for range 20 {
		httpapitest.WantOverloaded(t, "a feed that may not ask the ledger", s.Do(t, "POST", "/v1/feed/filter", feed), true)
	}
	open()
	for range most {
		if a := httpapitest.Await(t, answers); a.Status != 200 {
			t.Errorf("a list: %d %s", a.Status, a.Body)
		}
	}
	s.Want(t, "POST", "/v1/feed/filter", feed, 200, `{"posts":[],"dropped":[{"id":"p","kind":"block","actor":"3"}],"degraded":[]}`)
}
