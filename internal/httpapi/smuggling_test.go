package httpapi_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
)

// exchangeRaw sends bytes, and returns the statuses of all answers until the server closes the
// connection. The last request must ask for that: a client that closed its side would cancel
// requests in progress.
func exchangeRaw(t *testing.T, addr, sent string) (statuses []int) {
	t.Helper()
	conn := dial(t, addr)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		statuses = append(statuses, res.StatusCode)
	}
}

// TestSmuggling sends requests whose end two servers may see differently, as a proxy would forward
// them. The service must refuse such a request and close the connection, or go by the chunks alone.
// Then the rest is a separate request, which needs its own token.
func TestSmuggling(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{}, nil)
	addr := s.start(t)
	const start = "POST /v1/feed/filter HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer feed\r\nContent-Type: application/json\r\n"
	const body = `{"viewer":"1","posts":[]}`
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	const behind = "PUT /v1/users/1/blocks/2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, c := range map[string]struct {
		header, body string
		want         []int
	}{
		"sound":                     {fmt.Sprintf("Content-Length: %d\r\n", len(body)), body, []int{200, 401}},
		"chunks":                    {"Transfer-Encoding: chunked\r\n", chunked, []int{200, 401}},
		"a length and chunks":       {fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(chunked)+len(behind)), chunked, []int{200, 401}},
		"chunks and a short length": {"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunked, []int{200, 401}},
		"two lengths":               {fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d\r\n", len(body), len(body)+len(behind)), body, []int{400}},
		"a length with a sign":      {fmt.Sprintf("Content-Length: +%d\r\n", len(body)), body, []int{400}},
		"a negative length":         {"Content-Length: -1\r\n", body, []int{400}},
		"a list of encodings":       {"Transfer-Encoding: gzip, chunked\r\n", chunked, []int{501}},
		"a space before the colon":  {"Transfer-Encoding : chunked\r\n", chunked, []int{400}},
		"a header that goes on":     {"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 25\r\n", body, []int{200, 401}},
		"a chunk with a sign":       {"Transfer-Encoding: chunked\r\n", "+" + chunked, []int{400}},
		"a chunk that is longer":    {"Transfer-Encoding: chunked\r\n", "5\r\n" + body + "\r\n0\r\n\r\n", []int{400}},
	} {
		got := exchangeRaw(t, addr, start+c.header+"\r\n"+c.body+behind)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: answered %v, want %v", name, got, c.want)
		}
	}
	if a := s.do(t, "GET", "/v1/users/1/blocks", "", as("feed")...); a.Body != `{"items":[]}` {
		t.Errorf("something was written: %s", a.Body)
	}
}

// smuggled is a request that stands in the body of another one.
const smuggled = "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: smuggled\r\n\r\n"

// following is a request that a client sends after a body.
const following = "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: following\r\nConnection: close\r\n\r\n"

// earlyAnswer is a reason to answer requests before their bodies end.
type earlyAnswer struct {
	service http.Handler
	token   string
	header  string // lines
	path    string // behind the route's
	method  string // in place of the route's
	want    int    // a status that some of these requests get
	forms   []bodyForm
}

// bodyForm is how a body is sent.
type bodyForm struct {
	length           int // at least; it does not include the beginning
	chunked          bool
	late             bool // all but the beginning waits for the answer
	protocol, header string
}

// usualForms returns the forms in which a server may most easily miss the end of a body.
func usualForms() []bodyForm {
	const small, large = 1 << 10, 260 << 10 // large: more than net/http discards
	return []bodyForm{
		{large, false, false, "HTTP/1.1", ""}, {small, false, true, "HTTP/1.1", ""}, {small, true, true, "HTTP/1.1", ""},
	}
}

// wholeForms returns all forms.
func wholeForms() []bodyForm {
	const small, most, large = 1 << 10, 60 << 10, 260 << 10
	const expect, keep = "Expect: 100-continue\r\n", "Connection: keep-alive\r\n"
	return append(usualForms(), bodyForm{large, false, true, "HTTP/1.1", ""}, bodyForm{small, false, false, "HTTP/1.1", ""}, bodyForm{most, false, false, "HTTP/1.1", ""},
		bodyForm{small, true, false, "HTTP/1.1", ""}, bodyForm{most, true, false, "HTTP/1.1", ""}, bodyForm{large, true, false, "HTTP/1.1", ""},
		bodyForm{small, false, false, "HTTP/1.1", expect}, bodyForm{small, false, true, "HTTP/1.1", expect}, bodyForm{most, true, false, "HTTP/1.1", expect},
		bodyForm{small, false, false, "HTTP/1.0", keep}, bodyForm{large, false, false, "HTTP/1.0", keep}, bodyForm{small, false, true, "HTTP/1.0", keep})
}

// sent returns the header and the beginning of a request, and the rest of its body, which consists
// of requests.
func (f bodyForm) sent(line, header, begin string) (first, rest string) {
	rest = strings.Repeat(smuggled, 1+f.length/len(smuggled))
	if !strings.Contains(header, "Host: ") {
		header += "Host: x\r\n"
	}
	header = line + " " + f.protocol + "\r\nX-Request-Id: outer\r\n" + header + f.header
	if !f.chunked {
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", header, len(begin)+len(rest), begin), rest
	}
	first = header + "Transfer-Encoding: chunked\r\n\r\n"
	if begin != "" {
		first += fmt.Sprintf("%x\r\n%s\r\n", len(begin), begin)
	}
	return fmt.Sprintf("%s%x\r\n", first, len(rest)), rest + "\r\n0\r\n\r\n"
}

// answered is the status and the id of an answer.
type answered struct {
	status int
	id     string
}

// answersTo sends a request in two parts, and a following one. It returns all answers until the
// server closes the connection. If late is true, the second part waits for the answer.
func answersTo(ctx context.Context, addr, first, rest string, late bool) (all []answered, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		return nil, err
	}
	send := func(text string) { go func() { _, _ = io.WriteString(conn, text) }() } // the server may have closed
	if late {
		send(first)
	} else {
		send(first + rest + following)
	}
	method, _, _ := strings.Cut(first, " ")
	for in := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return all, err
		case err != nil:
			return all, nil
		}
		if late {
			send(rest + following)
			late = false
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body) // of a stream, it may be cut off
		_ = res.Body.Close()
		all = append(all, answered{res.StatusCode, res.Header.Get("X-Request-ID")})
		method = http.MethodGet
	}
}

// routesOf returns all routes of a service as "<method> <path>", with parameters filled in.
func routesOf(t *testing.T, h http.Handler) (all []string) {
	t.Helper()
	handler, _ := h.(*httpapi.Handler)
	e, ok := handler.Handler.(*echo.Echo)
	if !ok {
		t.Fatalf("the service is a %T", handler.Handler)
	}
	fill := strings.NewReplacer(":user", "1", ":target", "2", ":name", "app", ":number", "1", ":kind", "block", "*", "x")
	for _, r := range e.Routes() {
		if r.Method != echo.RouteNotFound {
			all = append(all, r.Method+" "+fill.Replace(r.Path))
		}
	}
	slices.Sort(all)
	return all
}

// earlyAnswers returns reasons to answer a request early.
func earlyAnswers(t *testing.T) (all map[string]earlyAnswer, routes []string) {
	t.Helper()
	type set = func(s *service, c *httpapi.Config)
	// One kind in the ledger and one with a window have all forms of routes.
	kinds, err := activity.NewKinds(
		activity.Kind{Name: "block", Plural: "blocks", Target: activity.User, Effect: activity.Drop, Reverse: "blocked-by"},
		activity.Kind{Name: "seen", Plural: "seen", Target: activity.Post, Effect: activity.Drop, Window: time.Hour},
	)
	must(t, err)
	serve := func(set set) *httpapi.Handler {
		// A token gets seven eighths of the budget of bodies, less than the longest body.
		c := httpapi.Config{MaxBodyBytes: 64 << 10, MaxBodiesBytes: 64 << 10, Access: limits.Access{Hosts: []string{"x"}}}
		c.Access.Tokens, _ = tokensOf(t, tokenEntry("feed", "feed:read", ""), tokenEntry("ops", "ops:read", ""),
			tokenEntry("all", "feed:read,activity:write,source:write,ops:read,ops:write", ""),
			tokenEntry("slow", "feed:read,activity:write,source:write,ops:read,ops:write", `,"rate":0.0001,"burst":1`))
		s := newService(t, c, kinds)
		if set != nil {
			set(s, &c)
		}
		return receiving(t, s.activities, c)
	}
	sound := serve(nil)
	full := serve(nil)
	full.SetMaxRequests(0)
	faulty := func(mode fault) set {
		return func(s *service, c *httpapi.Config) {
			c.Timeout = time.Millisecond
			s.store.set(mode)
			s.ledger.set(mode)
		}
	}
	unaudited := func(_ *service, c *httpapi.Config) {
		broken := writeFunc(func([]byte) (int, error) { return 0, errInjected })
		c.Access.Audit = access.NewAudit(broken, access.AuditRefuse, slog.New(slog.DiscardHandler))
		c.Access.AuditReads = true
	}
	all = map[string]earlyAnswer{
		"no token":           {service: sound, want: 401},
		"feeds' scope":       {service: sound, token: "feed", want: 403},
		"operators' scope":   {service: sound, token: "ops", want: 403},
		"invalid":            {service: sound, token: "all", want: 400, forms: wholeForms()},
		"media type":         {service: sound, token: "all", header: "Content-Type: text/plain\r\n", want: 415},
		"compressed":         {service: sound, token: "all", header: "Content-Encoding: gzip\r\n", want: 415},
		"query":              {service: sound, token: "all", path: "?x=y", want: 400},
		"host":               {service: sound, token: "all", header: "Host: y\r\n", want: 421},
		"origin":             {service: sound, token: "all", header: "Sec-Fetch-Site: cross-site\r\n", want: 403},
		"rate":               {service: sound, token: "slow", want: 429},
		"path":               {service: sound, token: "all", path: "/x/y/z", want: 404},
		"method":             {service: sound, token: "all", method: "PATCH", want: 405},
		"too many requests":  {service: full, token: "all", want: 503},
		"too many streams":   {service: serve(func(_ *service, c *httpapi.Config) { c.MaxStreams = -1 }), token: "all", want: 503},
		"no audit log":       {service: serve(unaudited), token: "all", want: 503},
		"ledger and store":   {service: serve(faulty(failing)), token: "all", want: 503},
		"panic":              {service: serve(faulty(panicing)), token: "all", want: 400},
		"deadline of a call": {service: sound, token: "all", header: "Grpc-Timeout: 1n\r\nConnect-Timeout-Ms: 0\r\n", want: 400},
	}
	return all, routesOf(t, sound)
}

// writeFunc is a writer whose Write is a function.
type writeFunc func([]byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// TestBodiesAreNotAnswered sends bodies that contain whole requests to each route, and makes the
// service answer before the body ends. It must refuse the request, or the body is too long, or the
// rest arrives only after the answer. Nothing in a body is ever answered. The request that follows
// the body is either answered or finds the connection closed.
//
// A proxy that shares connections among its clients would pass the second answer to another client.
func TestBodiesAreNotAnswered(t *testing.T) {
	answers, routes := earlyAnswers(t)
	serve := func(h http.Handler, stall time.Duration) string {
		server := httptest.NewUnstartedServer(h)
		server.Config.Protocols, server.Config.ReadTimeout = bothProtocols(), stall
		server.Config.ReadHeaderTimeout = time.Hour // otherwise a busy machine misses that of the header
		server.Start()
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	type place struct {
		h    http.Handler
		late bool
	}
	addrs := make(map[place]string)
	var mu sync.Mutex
	seen := make(map[string]map[int]int) // by the reason, how often each status was answered
	var running sync.WaitGroup
	turn := make(chan struct{}, 500)
	send := func(name, addr, route, first, rest string, late bool) {
		turn <- struct{}{}
		running.Go(func() {
			defer func() { <-turn }()
			got, err := answersTo(t.Context(), addr, first, rest, late)
			sound := len(got) == 1 && got[0].id == "outer" || len(got) == 2 && got[0].id == "outer" && got[1] == answered{200, "following"}
			if err != nil || !sound {
				header, _, _ := strings.Cut(first, "\r\n\r\n")
				t.Errorf("%s: %s, a body of %d bytes after %q, late: %v: answers %v, %v", name, route, len(rest), header, late, got, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[name][got[0].status]++
		})
	}
	for name := range answers { // before anything is sent: then seen is only read
		seen[name] = make(map[int]int)
	}
	for name, a := range answers {
		forms := a.forms
		if forms == nil {
			forms = usualForms()
		}
		for _, late := range []bool{false, true} {
			if at := (place{a.service, late}); addrs[at] == "" {
				addrs[at] = serve(a.service, map[bool]time.Duration{true: 50 * time.Millisecond}[late])
			}
		}
		for _, route := range routes {
			for _, body := range bodiesOf(route) {
				method, path, _ := strings.Cut(route, " ")
				header := a.header
				if a.token != "" {
					header += "Authorization: Bearer " + a.token + "\r\n"
				}
				if !strings.Contains(header, "Content-Type") {
					header += "Content-Type: " + body.media + "\r\n"
				}
				for _, f := range forms {
					first, rest := f.sent(cmp.Or(a.method, method)+" "+path+a.path, header, body.begin)
					send(name, addrs[place{a.service, f.late}], route, first, rest, f.late)
				}
			}
		}
	}
	running.Wait()
	for name, a := range answers {
		if seen[name][a.want] == 0 {
			t.Errorf("%s: no answer has the status %d: %v", name, a.want, seen[name])
		}
	}
}

// beginning is a media type and how a body of it begins.
type beginning struct{ media, begin string }

// bodiesOf returns forms of the bodies that a route reads.
func bodiesOf(route string) []beginning {
	const object, envelope = `{"viewer":"1","posts":["`, "\x00\x00\x00\xa0\x00" // a message of 40 KiB
	_, path, _ := strings.Cut(route, " ")
	switch {
	case isProcedure(path):
		return []beginning{{"application/proto", ""}, {"application/grpc", envelope}, {"application/connect+proto", envelope}}
	case strings.HasPrefix(route, "POST"):
		return []beginning{{"application/json", object}, {"application/x-ndjson", ""}}
	default:
		return []beginning{{"application/json", object}}
	}
}

// TestRefusedBodiesOverHTTP2 refuses many long bodies on one connection of HTTP/2. The connection
// stays open, its flow control takes more bodies than its window, and no body stays in the budget.
func TestRefusedBodiesOverHTTP2(t *testing.T) {
	for name, secure := range map[string]bool{"without TLS": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			s, _ := guarded(t, httpapi.Config{MaxBodyBytes: 64 << 10, MaxBodiesBytes: 64 << 10}, nil)
			server := httptest.NewUnstartedServer(s)
			var opened atomic.Int64
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			client := overHTTP2(t)
			if secure {
				server.EnableHTTP2 = true
				server.StartTLS()
				client = server.Client()
			} else {
				server.Config.Protocols = bothProtocols()
				server.Start()
			}
			t.Cleanup(server.Close)
			send := func(path, media, token string, length int64) (status int, err error) {
				body := io.MultiReader(strings.NewReader(`{"viewer":"1","posts":[]}`), readFunc(func(p []byte) (int, error) {
					return copy(p, strings.Repeat(" ", len(p))), nil
				}))
				// A body without a length is not refused for it.
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, io.LimitReader(body, length))
				if err != nil {
					return 0, err
				}
				r.Header.Set("Content-Type", media)
				r.Header.Set("Authorization", "Bearer "+token)
				res, err := client.Do(r)
				if err != nil {
					return 0, err
				}
				defer res.Body.Close()
				if res.ProtoMajor != 2 {
					return 0, errors.New(res.Proto)
				}
				_, err = io.Copy(io.Discard, res.Body)
				return res.StatusCode, err
			}
			const filter, proto = "/v1/feed/filter", "application/proto"
			whole := func() {
				t.Helper()
				s.await(t, "there is room for the body of a feed", func() error {
					status, err := send(filter, "application/json", "feed", 50<<10)
					if status != 200 {
						err = errors.Join(err, fmt.Errorf("answered %d", status))
					}
					return err
				})
			}
			whole()
			for _, c := range []struct {
				path, media, token string
				length             int64
				want               int
			}{
				{filter, "application/json", "wrong", 300 << 10, 401}, {filter, "text/plain", "feed", 300 << 10, 415},
				{filter, "application/json", "feed", 60 << 10, 503}, // more than the token's share of the budget
				{filterProcedure, proto, "wrong", 300 << 10, 401}, {filterProcedure, "text/plain", "feed", 300 << 10, 415},
				{filterProcedure, proto, "feed", 60 << 10, 503},
				{"/v1/nothing", proto, "feed", 300 << 10, 404},
			} {
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						if status, err := send(c.path, c.media, c.token, c.length); status != c.want || err != nil {
							t.Errorf("%s as %s with %s: %d, %v; want %d", c.path, c.token, c.media, status, err, c.want)
						}
					})
				}
				all.Wait()
				whole()
			}
			s.await(t, "no body is held", func() error {
				if a := s.do(t, "GET", "/metrics", "", as("ops")...); !strings.Contains(a.Body, "\nfeedfilter_http_bodies_held_bytes 0\n") {
					return fmt.Errorf("answered %d", a.Status)
				}
				return nil
			})
			if n := opened.Load(); n != 1 {
				t.Errorf("%d connections, want one", n)
			}
		})
	}
}

// TestPathTricks requests protected routes by other spellings of their path and with misleading
// headers, with a token that lacks the scope and without one. None succeeds, and no header changes
// the route.
func TestPathTricks(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{}, nil)
	addr := s.start(t)
	headers := []string{
		"", "X-HTTP-Method-Override: PUT", "X-Method-Override: PUT", "X-HTTP-Method: DELETE", "X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Forwarded-For: 127.0.0.1",
		"X-Forwarded-Host: localhost", "X-Forwarded-Prefix: /healthz", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Original-Method: PUT", "Cookie: token=all", "Proxy-Authorization: Bearer all",
		"Authorization : Bearer all", "X-Authorization: Bearer all",
	}
	for _, request := range []string{
		"GET /v1/stats", "GET //v1/stats", "GET /v1//stats", "GET /v1/stats/", "GET /v1/./stats", "GET /healthz/../v1/stats", "GET /healthz/..%2fv1/stats", "GET /healthz%2f..%2fv1%2fstats",
		"GET /healthz;/v1/stats", "GET /v1/stats;x", "GET /v1/stats%3fx", "GET /v1/stats%00", "GET /v1/stats%20", "GET /%76%31/stats", "GET /V1/stats", "GET \\v1\\stats", "GET http://localhost/v1/stats",
		"GET http:///v1/stats", "GET /v1/stats?token=all&access_token=all", "GET /ops/../v1/stats", "GET /ops/..%2f..%2fv1%2fstats", "GET /ops/%2e%2e/v1/ops/health", "GET /docs/../metrics", "GET /metrics", "GET //metrics",
		"GET /ops/..%2fopspage.go", "GET /ops/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "GET /ops/....//....//etc/passwd", "GET /ops/", "GET /ops/assets", "GET /ops/.git/config", "GET /ops/ops.js%00.html",
		"GET /debug/pprof/", "GET /debug/vars", "GET /debug/requests", "GET /.env", "GET /admin", "GET /server-status",
		"PUT /v1/users/1/blocks/2", "PUT /v1/users/1/blocks/../../../../healthz", "PUT /healthz/../v1/users/1/blocks/2", "POST /v1/users/1/blocks/2", "GET /v1/users/1/blocks/2?_method=PUT", "PUT //v1/users/1/blocks/2",
		"DELETE /v1/users/1", "DELETE /v1/users/1/../1", "CONNECT localhost:80", "PUT *", "put /v1/users/1/blocks/2",
	} {
		for _, token := range []string{"", "Authorization: Bearer feed\r\n"} {
			plain := 0 // the status without more headers
			for _, header := range headers {
				sent := request + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + token
				if header != "" {
					sent += header + "\r\n"
				}
				got := exchangeRaw(t, addr, sent+"\r\n")
				allowed := request == "GET /ops/" && len(got) == 1 && got[0]/100 == 3 // redirects to the page itself
				if len(got) != 1 || got[0] < 400 && !allowed || got[0] >= 500 {
					t.Errorf("%s with %q %q: answered %v", request, header, token, got)
					continue
				}
				if header == "" {
					plain = got[0]
				}
				if got[0] != plain && got[0] != http.StatusBadRequest { // invalid header
					t.Errorf("%s with %q %q: answered %d, and %d without", request, header, token, got[0], plain)
				}
			}
		}
	}
	if a := s.do(t, "GET", "/v1/users/1/blocks", "", as("feed")...); a.Body != `{"items":[]}` {
		t.Errorf("something was written: %s", a.Body)
	}
}

// TestForgedLogLines puts text that looks like log lines into everything that a client controls. In
// both formats, at the lowest level, each line is the service's own.
func TestForgedLogLines(t *testing.T) {
	const forged = "x\nlevel=ERROR msg=FORGED\n{\"level\":\"ERROR\",\"msg\":\"FORGED\"}\n\u2028\x1b[31m\r\"y"
	inJSON := `"x\nlevel=ERROR msg=FORGED\n{\"level\":\"ERROR\",\"msg\":\"FORGED\"}\u2028\r\u001b"`
	escaped := everyByte(forged)
	var text, jsons, audit lockedBuffer
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	for format, log := range map[string]*slog.Logger{"text": slog.New(slog.NewTextHandler(&text, options)), "json": slog.New(slog.NewJSONHandler(&jsons, options))} {
		s := audited(t, log)
		for _, mode := range []fault{sound, failing} {
			s.store.set(mode)
			s.ledger.set(mode)
			for _, c := range [][3]string{
				{"PUT", "/v1/users/" + escaped + "/blocks/2"}, {"PUT", "/v1/users/1/blocks/" + escaped}, {"GET", "/" + escaped}, {"GET", "/v1/stats?" + escaped + "=" + escaped},
				{"GET", "/v1/ops/users/1/keys/" + escaped + "/2"}, {"GET", "/v1/users/1/blocks?cursor=" + escaped}, {"GET", "/v1/ops/pages/" + escaped},
				{"POST", "/v1/feed/filter", `{"viewer":` + inJSON + `,"posts":[]}`}, {"POST", "/v1/feed/filter", `{"viewer":"1","posts":[],` + inJSON + `:1}`},
				{"POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"kinds":[` + inJSON + `]}`},
				{"POST", "/v1/activities", `{"activities":[{"user":"1","kind":` + inJSON + `,"target":"2","op":` + inJSON + `}]}`}, {"POST", "/v1/feed/explain", inJSON}, {"PUT", "/v1/pages", inJSON},
			} {
				for _, token := range []string{"all", "wrong", forged} {
					ask(t, s, c[0], c[1], c[2], "Authorization", "Bearer "+token, "X-Request-Id", forged, "User-Agent", forged, "Traceparent", forged, "X-Forwarded-For", forged, "Content-Type", "application/json")
				}
			}
		}
		_, _ = io.WriteString(&audit, s.out.String())
		if n := strings.Count(s.out.String(), "\n"); n < 10 {
			t.Errorf("%s: %d audit lines", format, n)
		}
	}
	for name, b := range map[string]*lockedBuffer{`time=`: &text, `{"time":`: &jsons, `{"time":"`: &audit} {
		n := 0
		for line := range strings.Lines(b.String()) {
			n++
			if !strings.HasPrefix(line, name) || strings.Contains(line, "\r") || strings.Contains(line, "\x1b") || strings.Contains(line, "\u2028") {
				t.Errorf("a line by a client: %q", line)
			}
		}
		if n < 20 {
			t.Errorf("%s: %d lines", name, n)
		}
	}
}
