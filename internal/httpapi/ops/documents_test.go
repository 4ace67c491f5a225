package ops_test

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// TestFilesOfPages: the description has the paths of pages that a person opens. Their files are
// served, too, and no others.
func TestFilesOfPages(t *testing.T) {
	s := httpapitest.Open(t)
	for path, first := range map[string]string{"/ops": `<script type="module" src="`, "/docs": `<script src="`} {
		_, file, _ := strings.Cut(s.Do(t, "GET", path, "").Body, first)
		file, _, _ = strings.Cut(file, `"`)
		if a := s.Do(t, "GET", "/"+file, ""); !strings.HasPrefix("/"+file, path+"/") || a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/javascript") {
			t.Errorf("/%s: %d %v", file, a.Status, a.Header)
		}
		for _, path := range []string{path + "x", path + "/none", path + "//", path + "/.."} {
			if a := s.Do(t, "GET", path, ""); a.Status != 404 {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
		}
	}
	for route := range s.ContractOf(t).Operations() {
		if strings.Contains(route, "*") || strings.Contains(route, " /ops/") || strings.Contains(route, " /docs/") && route != "GET /docs/style.css" {
			t.Errorf("%s is in the description", route)
		}
	}
}

// TestDocs: the page is served with and without compression, and may load nothing from other hosts.
// Package tools/opspage tests it in a browser.
func TestDocs(t *testing.T) {
	s := httpapitest.Open(t)
	page := s.Do(t, "GET", "/docs", "")
	if page.Status != 200 || page.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page.Body, `href="docs/style.css"`) {
		t.Fatalf("%d %v", page.Status, page.Header)
	}
	policy := page.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("policy %q", policy)
	}
	const bundle = "/docs/swagger-ui/swagger-ui-bundle.js"
	plain, zipped := s.Do(t, "GET", bundle, ""), s.Do(t, "GET", bundle, "", "Accept-Encoding", "br, gzip")
	if len(plain.Body) < 1<<20 || len(zipped.Body) > 1<<19 || zipped.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d bytes, %d compressed, header %v", len(plain.Body), len(zipped.Body), zipped.Header)
	}
	if a := s.Do(t, "GET", "/docs?url=https://evil.example/openapi.json", ""); a.Status != 400 {
		t.Errorf("an unknown file: %d", a.Status)
	}
}
