package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
)

// TestHosts sends requests of a web page whose host name leads to this machine (DNS rebinding).
func TestHosts(t *testing.T) {
	s := newService(t, httpapi.Config{Access: limits.Access{Hosts: []string{"localhost", "feeds.internal"}}}, nil)
	addr := s.start(t)
	for host, good := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:1": true, "127.0.0.1": true, "127.0.0.1:8080": true, "[::1]": true, "[::1]:8080": true,
		"10.0.0.7:80": true, "feeds.internal": true, "Feeds.Internal:8080": true, "": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example:8080": false, "localhost.": false,
		"127.0.0.1:8080:1": false, "2130706433": false, "xlocalhost": false, "0x7f.1": false,
	} {
		for _, request := range []string{"GET /healthz", "PUT /v1/users/1/blocks/2", "GET /v1/nothing"} {
			a := raw(t, addr, request+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			if (a.Status != 421) != good || !good && a.Code != "misdirected" {
				t.Errorf("%s for %q: %d %s", request, host, a.Status, a.Body)
			}
		}
	}
	everywhere := open(t)
	if a := raw(t, everywhere.start(t), "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n"); a.Status != 200 {
		t.Errorf("without a list of hosts: %d", a.Status)
	}
}

// TestCrossOrigin sends requests of a browser for a page of another origin. A form's media types
// are refused anyway; for others the browser asks first (CORS), and gets no permission.
func TestCrossOrigin(t *testing.T) {
	s := open(t)
	body := `{"activities":[` + activityLine("1", "block", "2", "add") + `]}`
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		for _, header := range [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}, nil} {
			a := s.do(t, "POST", "/v1/activities", body, append([]string{"Content-Type", media}, header...)...)
			if want := map[bool]int{true: 415, false: 403}[header == nil]; a.Status != want || want == 403 && a.Code != "cross_origin" {
				t.Errorf("%s, %v: %d %s, want %d", media, header, a.Status, a.Body, want)
			}
		}
	}
	for _, r := range []string{"PUT /v1/users/1/blocks/2", "DELETE /v1/users/1", "POST /v1/activities"} {
		method, path, _ := strings.Cut(r, " ")
		ask := s.do(t, "OPTIONS", path, "", "Origin", "http://evil.example", "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "content-type")
		for name := range ask.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the answer has %s", r, name)
			}
		}
		if a := s.do(t, method, path, body, "Origin", "http://evil.example"); a.Status != 403 || a.Code != "cross_origin" {
			t.Errorf("%s: %d %s", r, a.Status, a.Body)
		}
	}
	s.want(t, "GET", "/v1/users/1/blocks", "", 200, `{"items":[]}`)
	for _, header := range [][]string{nil, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "http://example.com"}} {
		if a := s.do(t, "POST", "/v1/activities", body, header...); a.Status != 200 {
			t.Errorf("%v: %d %s", header, a.Status, a.Body)
		}
	}
}

// TestHeaders checks the headers that every answer has.
func TestHeaders(t *testing.T) {
	s, _ := guarded(t, httpapi.Config{}, nil)
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/healthz", "none", 200}, {"GET", "/v1/stats", "ops", 200}, {"GET", "/v1/stats", "none", 401}, {"GET", "/v1/stats", "feed", 403},
		{"GET", "/nothing", "none", 404}, {"BREW", "/healthz", "none", 405}, {"OPTIONS", "/healthz", "none", 204}, {"GET", "/v1/users/1/export", "feed", 200},
		{"POST", "/v1/feed/filter", "feed", 415}, {"GET", "/v1/users/%00/blocks", "feed", 400},
	} {
		for _, secure := range []bool{false, true} {
			r := httptest.NewRequestWithContext(t.Context(), c.method, map[bool]string{false: "http", true: "https"}[secure]+"://localhost"+c.path, http.NoBody)
			r.Header.Set("Authorization", "Bearer "+c.token)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			h := w.Header()
			if w.Code != c.status || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || (h.Get("Strict-Transport-Security") != "") != secure {
				t.Errorf("%s %s: %d, header %v; want %d", c.method, c.path, w.Code, h, c.status)
			}
		}
	}
}
