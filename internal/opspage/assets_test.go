package opspage_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/opspage"
)

// get asks the handler for a path, with pairs of a header's name and value.
func get(t *testing.T, h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// files are the paths below assets, with their contents.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	root := os.DirFS("assets")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil || len(all) < 20 {
		t.Fatalf("%d files: %v", len(all), err)
	}
	return all
}

// TestFiles checks that every file is served unchanged, with a type and a tag. With the tag, a
// browser does not fetch the file twice.
func TestFiles(t *testing.T) {
	t.Parallel()
	h := opspage.New()
	types := map[string]string{"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
	for name, content := range files(t) {
		path := "/ops/" + name
		plain := get(t, h, http.MethodGet, path)
		if got := plain.Body.Bytes(); plain.Code != http.StatusOK || !bytes.Equal(got, content) {
			t.Errorf("%s: %d, %d bytes, want the %d of the file", path, plain.Code, len(got), len(content))
		}
		again := get(t, h, http.MethodGet, path, "If-None-Match", plain.Header().Get("ETag"))
		if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s: %d for what is there already", path, again.Code)
		}
		head := get(t, h, http.MethodHead, path)
		if head.Code != http.StatusOK || head.Body.Len() > 0 || head.Header().Get("Content-Length") != strconv.Itoa(len(content)) {
			t.Errorf("HEAD %s: %d, length %s", path, head.Code, head.Header().Get("Content-Length"))
		}
		_, ending, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ".")
		ending = ending[strings.LastIndex(ending, ".")+1:]
		want := types[ending]
		if want == "" {
			want = "text/plain; charset=utf-8"
		}
		if got := plain.Header().Get("Content-Type"); got != want {
			t.Errorf("%s is a %q, want %q", path, got, want)
		}
		if got := plain.Header().Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: Cache-Control: %q", path, got)
		}
	}
}

func TestIndex(t *testing.T) {
	t.Parallel()
	h := opspage.New()
	page := get(t, h, http.MethodGet, opspage.Path)
	if got := page.Body.Bytes(); page.Code != http.StatusOK || !bytes.Contains(got, []byte(`<main id="view"`)) {
		t.Errorf("%s: %d %.60s", opspage.Path, page.Code, got)
	}
	// What the page loads is relative to a path without a slash at its end.
	if slash := get(t, h, http.MethodGet, "/ops/"); slash.Code != http.StatusPermanentRedirect || slash.Header().Get("Location") != "../ops" {
		t.Errorf("/ops/: %d to %q", slash.Code, slash.Header().Get("Location"))
	}
	for _, path := range []string{"/ops/no", "/ops/assets/index.html", "/ops/../opspage.go", "/ops/js", "/ops/js/", "/ops//index.html"} {
		if r := get(t, h, http.MethodGet, path); r.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, r.Code)
		}
	}
}

// What is not vendored names no other place to load from, and puts no markup together.
func TestSources(t *testing.T) {
	t.Parallel()
	space := []byte("http://www.w3.org/2000/svg")
	for name, content := range files(t) {
		if strings.HasPrefix(name, "vendor/") {
			continue
		}
		rest := bytes.ReplaceAll(content, space, nil)
		for _, never := range []string{`//[a-z0-9.-]+\.[a-z]{2,}`, `innerHTML`, `outerHTML`, `insertAdjacent`, `document\.write`, `\beval\(`, `new Function`, `localStorage`, `<style`, ` style=`, ` on[a-z]+="`, `<script>`, `@import`} {
			if found := regexp.MustCompile(never).Find(rest); found != nil {
				t.Errorf("%s has %q", name, found)
			}
		}
		if lines := bytes.Count(content, []byte("\n")); lines > 200 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}

// What is vendored is what scripts/uplot put there: nobody has changed it.
func TestVendored(t *testing.T) {
	t.Parallel()
	all := files(t)
	const directory = "vendor/uplot/"
	sums := make(map[string]string)
	for line := range strings.Lines(string(all[directory+"SHA256SUMS"])) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	for name, content := range all {
		name, vendored := strings.CutPrefix(name, directory)
		if !vendored || name == "SHA256SUMS" {
			continue
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != sums[name] {
			t.Errorf("%s has the sum %x, want %s", name, sum, sums[name])
		}
		delete(sums, name)
	}
	if len(sums) > 0 {
		t.Errorf("there is no %v", sums)
	}
	version := bytes.TrimSpace(all[directory+"VERSION"])
	if !bytes.Contains(all[directory+"uPlot.iife.min.js"], fmt.Appendf(nil, "(v%s)", version)) {
		t.Errorf("the script is not of version %s", version)
	}
	if script, err := os.ReadFile("../../scripts/uplot"); err != nil || !bytes.Contains(script, fmt.Appendf(nil, "version=%s\n", version)) {
		t.Errorf("scripts/uplot fetches another version than %s: %v", version, err)
	}
}
