package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
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
