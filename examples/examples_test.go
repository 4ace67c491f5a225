// Package examples_test runs the examples against a service.
package examples_test

import (
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

// service serves what the examples call. The first call is refused, as under overload, then for its
// body, then its answer is cut off; with blind, feeds drop nothing.
func service(t *testing.T, blind bool) string {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, FalsePositiveRate: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	handler := httpapi.New(httpapi.Config{Activities: r})
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

// TestEmbed: the program filters a feed in its own process. The next process finds what the first
// one recorded, seen posts included.
func TestEmbed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "embed")
	if out, ok := output(t, ".", needs(t, "go", "make deps installs it"), "build", "-o", program, "./embed"); !ok {
		t.Fatal(out)
	}
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
	const install = "make deps installs it"
	for _, example := range []struct {
		name    string
		command func(t *testing.T) []string
	}{
		{"curl", func(t *testing.T) []string {
			needs(t, "curl", install)
			return []string{needs(t, "curl/feed.sh", install)}
		}},
		{"python", func(t *testing.T) []string { return []string{needs(t, "python3", install), "python/feed.py"} }},
		{"go", func(t *testing.T) []string {
			program := filepath.Join(t.TempDir(), "example")
			if out, ok := output(t, ".", needs(t, "go", install), "build", "-o", program, "./go"); !ok {
				t.Fatal(out)
			}
			return []string{program}
		}},
		{"typescript", func(t *testing.T) []string {
			node, dir := needs(t, "node", install), t.TempDir()
			compiler := needs(t, "typescript/node_modules/.bin/tsc", "in examples/typescript, npm ci does; "+install)
			if out, ok := output(t, "typescript", compiler, "--outDir", dir); !ok {
				t.Fatal(out)
			}
			if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{node, filepath.Join(dir, "feed.js")}
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
