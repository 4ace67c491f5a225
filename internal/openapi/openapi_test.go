package openapi_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDocument: a kind gets its routes, names and errors, and every placeholder is replaced. What
// else the document says, the tests of httpapi hold against the service.
func TestDocument(t *testing.T) {
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "super-like", Plural: "super-likes", Target: activity.Post, Effect: activity.Annotate, Limit: 3},
		activity.Kind{Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Annotate, Window: time.Hour})...)
	must(t, err)
	document, err := openapi.Document(kinds)
	must(t, err)
	if !jsontext.Value(document).IsValid() {
		t.Error("the document is no JSON, or has a name twice")
	}
	for _, want := range []string{
		`"/v1/users/{user}/super-likes/{target}"`, `"operationId": "recordSuperLike"`, `"operationId": "recordGlimpse"`, "`limit_reached`",
		`["block", "hide", "like", "seen", "super-like", "glimpse"]`, `"glimpse", "blocks", "hides", "likes", "super-likes", "glimpses"]`, "after 1h0m0s",
		`"Feeds of both users leave out posts with the other as author or actor. Recording an activity again sets its end, or removes it."`,
	} {
		if !strings.Contains(string(document), want) {
			t.Errorf("the document lacks %s", want)
		}
	}
	for _, never := range []string{"<", "x-errors", "x-error-groups", "/glimpses/{target}"} {
		if strings.Contains(strings.ReplaceAll(string(document), "Bearer <token>", ""), never) {
			t.Errorf("the document has %s", never)
		}
	}
}

// TestPageFiles: files come as they are stored, and uncompressed to who does not read gzip.
func TestPageFiles(t *testing.T) {
	files, err := openapi.Page()
	must(t, err)
	for name, kind := range map[string]string{
		"index.html": "text/html", "style.css": "text/css", "start.js": "text/javascript", "swagger-ui/swagger-ui.css": "text/css",
		"swagger-ui/swagger-ui-bundle.js": "text/javascript", "swagger-ui/LICENSE": "text/plain",
	} {
		f := files[name]
		if f.Type != kind+"; charset=utf-8" || len(f.Content) == 0 {
			t.Errorf("%s: %q, %d bytes", name, f.Type, len(f.Content))
		}
		if f.Zipped == nil {
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(f.Zipped))
		must(t, err)
		if content, err := io.ReadAll(z); err != nil || !bytes.Equal(content, f.Content) {
			t.Errorf("%s: %d bytes out of gzip, want %d: %v", name, len(content), len(f.Content), err)
		}
	}
	for _, name := range []string{"", "none", "swagger-ui", "../openapi.yaml", "../../openapi.go", "/etc/passwd", "swagger-ui/swagger-ui.css.gz"} {
		if f, ok := files[name]; ok {
			t.Errorf("%q: %d bytes", name, len(f.Content))
		}
	}
}

// TestVendored: nobody has changed what scripts/swagger-ui put there.
func TestVendored(t *testing.T) {
	const directory = "page/swagger-ui"
	list, err := os.ReadFile(filepath.Join(directory, "SHA256SUMS"))
	must(t, err)
	sums := make(map[string]string)
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	files, err := os.ReadDir(directory)
	if err != nil || len(files) != len(sums)+1 {
		t.Fatalf("%d files, %d sums: %v", len(files), len(sums), err)
	}
	for name, want := range sums {
		content, err := os.ReadFile(filepath.Join(directory, name))
		must(t, err)
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the sum %x, want %s", name, sum, want)
		}
	}
	version, err := os.ReadFile(filepath.Join(directory, "VERSION"))
	must(t, err)
	script, err := os.ReadFile("../../scripts/swagger-ui")
	if err != nil || !strings.Contains(string(script), "version="+string(version)) {
		t.Errorf("scripts/swagger-ui fetches another version than %s: %v", version, err)
	}
}
