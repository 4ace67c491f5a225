package httpapi_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// FuzzPathWithToken requests any path with any method and header. Without the right token only open
// routes succeed, and no request fails inside the service.
func FuzzPathWithToken(f *testing.F) {
	s, _ := httpapitest.Guarded(f, httpapi.Config{}, nil)
	for _, seed := range []string{"GET /v1/stats", "GET /healthz", "PUT /v1/users/1/blocks/2", "POST /v1/feed/filter", "GET //v1/stats", "GET /v1//stats", "GET /v1/stats/", "GET /V1/STATS",
		"GET /v1/%73tats", "GET /v1/../v1/stats", "GET /healthz/../v1/stats", "HEAD /v1/kinds", "OPTIONS /v1/stats", "GET /v1/users/%2e%2e/export", "GET /healthz?x=/v1/stats", "GET http://x/v1/stats", "GET *",
		"GET /ops", "GET /ops/..%2fv1/stats", "GET /ops/../v1/ops/health", "GET /v1/ops/users/1/keys/block/2", "POST /v1/ops/scrub", "GET /docs", "GET /openapi.json", "GET /metrics"} {
		method, path, _ := strings.Cut(seed, " ")
		for _, header := range []string{"", "Bearer wrong", "Bearer old", "Bearer feed", "bearer all", "Basic YWxsOg=="} {
			f.Add(method, path, header)
		}
	}
	f.Fuzz(func(t *testing.T, method, path, header string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: " + header + "\r\n\r\n")))
		if err != nil {
			t.Skip("the server refuses it")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		right := strings.EqualFold(scheme, "bearer") && slices.Contains([]string{"feed", "activity", "ops", "all"}, strings.TrimLeft(token, " "))
		open := r.Method == http.MethodOptions || strings.HasPrefix(r.URL.Path, "/ops/") || strings.HasPrefix(r.URL.Path, "/docs/") || // static, without data
			slices.Contains([]string{"/healthz", "/readyz", "/openapi.json", "/docs", "/ops"}, r.URL.Path)
		if w.Code >= 500 || w.Code < 400 && !right && !open {
			t.Fatalf("%q %q with %q: %d %s", r.Method, r.URL, header, w.Code, w.Body)
		}
	})
}
