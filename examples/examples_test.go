// Package examples_test runs the examples against a service.
package examples_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/kindfile"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// needs returns the path of a program, or of a file of this directory. Where it is not there the
// test is skipped, but in continuous integration, where it fails.
func needs(t *testing.T, program, install string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		if path, err = filepath.Abs(path); err != nil {
			t.Fatal(err)
		}
	case os.Getenv("CI") != "":
		t.Fatalf("%v: %s", err, install)
	default:
		t.Skipf("NOT RUN: %v: %s", err, install)
	}
	return path
}

// output runs a command, and returns what it printed and whether it exited with 0.
func output(t *testing.T, dir, program string, args ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited { //nolint:errorlint // as Run returns it
		t.Fatal(err)
	}
	return string(out), err == nil
}

// handler answers what the examples call.
func handler(t *testing.T, kinds *activity.Kinds) http.Handler {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, Kinds: kinds, FalsePositiveRate: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return httpapi.New(httpapi.Config{Activities: r})
}

// service serves what the examples call. The first call is refused, as under overload, then for its
// body, then its answer is cut off; with blind, feeds drop nothing.
func service(t *testing.T, blind bool) string {
	t.Helper()
	handler := handler(t, activity.BuiltinKinds())
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch n := calls.Add(1); {
		case n == 1:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":{"code":"overloaded","message":"the service has too much to do"}}`))
		case n == 2:
			w.WriteHeader(http.StatusRequestTimeout)
			_, _ = w.Write([]byte(`{"error":{"code":"timeout","message":"the body took too long"}}`))
		case n == 3 && !strings.HasPrefix(req.UserAgent(), "curl/"): // which does not try again then
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"changed":`))
		case blind && strings.HasSuffix(req.URL.Path, "/filter"):
			_, _ = w.Write([]byte(`{"posts":[{"id":"p8"},{"id":"p9"}],"dropped":[],"degraded":[]}`))
		default:
			handler.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const install = "make deps installs it"

// built returns a program in Go, which it builds.
func built(t *testing.T, directory string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "example")
	if out, ok := output(t, ".", needs(t, "go", install), "build", "-o", program, "./"+directory); !ok {
		t.Fatal(out)
	}
	return program
}

// compiled compiles the program in TypeScript in a directory, and returns the file of a name.
func compiled(t *testing.T, directory, name string) string {
	t.Helper()
	dir := t.TempDir()
	compiler := needs(t, "typescript/node_modules/.bin/tsc", "in examples/typescript, npm ci does; "+install)
	if out, ok := output(t, directory, compiler, "--outDir", dir); !ok {
		t.Fatal(out)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// TestEmbed: the program filters a feed in its own process. The next process finds what the first
// one recorded, seen posts included.
func TestEmbed(t *testing.T) {
	program := built(t, "embed")
	for name, args := range map[string]func(t *testing.T) []string{
		"directory": func(t *testing.T) []string { return []string{t.TempDir()} },
		"servers":   func(t *testing.T) []string { return []string{pgtest.Start(t).Schema(), redistest.Start(t).URL()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := args(t)
			first, ok := output(t, ".", program, given...)
			if second, again := output(t, ".", program, given...); !ok || !again ||
				first != "show p8\ndrop p7 because of block\n" || second != "drop p7 because of block\ndrop p8 because of seen\n" {
				t.Errorf("it printed %q, and then %q", first, second)
			}
		})
	}
}

// TestExamples: each example does what it says, tries again what is refused for overload, and ends
// with an error where a feed is not as it should be.
func TestExamples(t *testing.T) {
	for _, example := range []struct {
		name    string
		command func(t *testing.T) []string
	}{
		{"curl", func(t *testing.T) []string {
			needs(t, "curl", install)
			return []string{needs(t, "curl/feed.sh", install)}
		}},
		{"python", func(t *testing.T) []string { return []string{needs(t, "python3", install), "python/feed.py"} }},
		{"go", func(t *testing.T) []string { return []string{built(t, "go")} }},
		{"typescript", func(t *testing.T) []string {
			return []string{needs(t, "node", install), compiled(t, "typescript", "feed.js")}
		}},
	} {
		t.Run(example.name, func(t *testing.T) {
			t.Parallel()
			command := example.command(t)
			out, ok := output(t, ".", command[0], append(command[1:], service(t, false))...)
			if !ok || strings.Count(out, "\nfeed: ") != 2 || !strings.Contains(out, "\nwrong") {
				t.Errorf("it failed, or did not get to its end:\n%s", out)
			}
			if out, ok := output(t, ".", command[0], append(command[1:], service(t, true))...); ok || strings.Contains(out, "\nwhy") {
				t.Errorf("somebody who is blocked was shown, and it did not notice:\n%s", out)
			}
		})
	}
}

// TestWords: each example of muted phrases does what it says, also if it is run again. It ends with
// an error if a post with a muted phrase is shown.
func TestWords(t *testing.T) {
	const want = `until 2001: out_of_range
muted: climate change, spoilers until 2127-01-01
ann sees: p2 p3
bob sees: p1 p2 p3
why: climate change in CLIMATE—change
p1 is not for: %s-ann
ann sees: p1 p2 p3
`
	file, err := os.ReadFile("words/kinds.json")
	if err != nil {
		t.Fatal(err)
	}
	service := func(t *testing.T, kinds string) string {
		t.Helper()
		parsed, err := kindfile.Parse([]byte(kinds))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler(t, parsed))
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, command := range map[string]func(t *testing.T) []string{
		"py": func(t *testing.T) []string { return []string{needs(t, "python3", install), "words/words.py"} },
		"go": func(t *testing.T) []string { return []string{built(t, "words")} },
		"ts": func(t *testing.T) []string {
			return []string{needs(t, "node", install), compiled(t, "words", "words.mjs")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, url := command(t), service(t, string(file))
			for range 2 {
				out, ok := output(t, ".", command[0], append(command[1:], url)...)
				if !ok || out != fmt.Sprintf(want, name) {
					t.Errorf("it printed\n%s", out)
				}
			}
			blind := service(t, strings.Replace(string(file), `"text": true`, `"fold": "lower"`, 1))
			if out, ok := output(t, ".", command[0], append(command[1:], blind)...); ok || strings.Contains(out, "\nbob") {
				t.Errorf("a post with a muted phrase was shown, and it did not notice:\n%s", out)
			}
		})
	}
}
