//go:build unix

package doctest

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		failure  string // in the error; "": none
	}{
		"one shell": {"text\n```sh\nx=1\ncd /\n```\n```sh\necho $x $PWD\n```\n\nmore\n\n```output\n1 /\n```\n", ""},
		"words stand for others": {
			"```sh\necho redis://here:1/0 redis://here:1\n```\n```output\nlonger shorter\n```\n", "",
		},
		"files, commands and variables": {"```sh\ncat a.txt\nhello\necho $V\n```\n```output\nof the test\nhello\nset\n```\n", ""},
		"json":                          {"```sh\necho '{\"a\": [1,2],\"b\":\"x y\"}'\n```\n```json\n{\"a\":[1, 2],\n \"b\":\"x y\"}\n```\n", ""},
		"json for readers":              {"```json\n{}\n```\n```sh\ntrue\n```\n", ""},
		"for readers":                   {"```console\n$ false\n```\n```\nfalse\n```\n```sh\ntrue\n```\n", ""},
		"a failure":                     {"a\n```sh\ntrue\n```\n```sh\necho said\necho why >&2\nfalse\necho after\n```\n", "6: exit status 1\n"},
		"what it wrote":                 {"```sh\necho said\necho why >&2\nfalse\n```\n", "output:\nsaid\n--- standard error:\nwhy\n"},
		"a failure in a pipe":           {"```sh\nfalse | cat\n```\n", "2: exit status 1"},
		"a variable that is not there":  {"```sh\necho $none\n```\n", "none: unbound variable"},
		"another output":                {"```sh\necho 1\n```\n```output\n2\n```\n", "2: the output differs"},
		"more output":                   {"```sh\necho 1; echo 2\n```\n```output\n1\n```\n", "2: the output differs"},
		"other json":                    {"```sh\necho '{\"a\":\"x  y\"}'\n```\n```json\n{\"a\":\"x y\"}\n```\n", "2: the output differs"},
		"an early output":               {"```sh\necho 1\n```\n```output\n2\n```\n```sh\nfalse\n```\n", "2: the output differs"},
		"no end":                        {"```sh\ntrue\n", "2: the block has no end"},
		"no command":                    {"```output\n1\n```\n", "2: an output without a command"},
		"nothing":                       {"words\n", "0: there is nothing to run"},
		"an exit":                       {"```sh\nexit 3\n```\n", "2: exit status 3"},
		"too long":                      {"```sh\nsleep 1000\n```\n", "2: not done after 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "hello"), []byte("#!/bin/sh\necho hello\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			timeout := 30 * time.Second
			if name == "too long" {
				timeout = 3 * time.Second
			}
			err := run(t.Context(), c.document, t.TempDir(), Config{
				Replace: map[string]string{"redis://here:1": "shorter", "redis://here:1/0": "longer"},
				Path:    []string{bin}, Env: []string{"V=set"}, Files: map[string]string{"a.txt": "of the test\n"}, Timeout: timeout,
			})
			if c.failure == "" && err != nil {
				t.Error(err)
			}
			if c.failure != "" && (err == nil || !strings.Contains(err.Error(), c.failure)) {
				t.Errorf("got %v, want %q", err, c.failure)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "a", true},
		{"", "", true},
		{"a\n", "b\n", false},
		{"a.c\n", "abc\n", false},
		{"a ... c\n", "a bb c\n", true},
		{"a ... c\n", "a b\n c\n", false},
		{"a...\n", "a\n", true},
		{"...\nz\n", "a\nb\nz\n", true},
		{"...\nz\n", "z\n", true},
		{"a\n...\n", "a\nb\nc\n", true},
		{"a\n...\nz\n", "a\nz\ny\n", false},
		{`{"a":...,"b":1}`, `{"a":12.5,"b":1}`, true},
		{"{\n  \"a\": ...,\n  \"b\": 1\n}", `{"a":12.5,"b":1}`, true},
		{`{"a":1}`, `{"a":2}`, false},
		{`{"a":"\" "}`, `{"a": "\" "}`, true},
		{`{"a":"\" "}`, `{"a": "\""}`, false},
	} {
		if matches(c.want, c.got) != c.ok {
			t.Errorf("%q is like %q: %v, want %v", c.got, c.want, !c.ok, c.ok)
		}
	}
}

// TestBackground checks that background processes end with the document, also after a failure.
func TestBackground(t *testing.T) {
	for _, end := range []string{"true", "false"} {
		dir := t.TempDir()
		err := run(t.Context(), "```sh\nsleep 1000 &\necho $! >pid\n"+end+"\n```\n", dir, Config{})
		if (err == nil) != (end == "true") {
			t.Errorf("%s: %v", end, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		err = servertest.Await(t.Context(), "it has ended", func(context.Context) error {
			state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if err != nil || strings.Contains(string(state), ") Z ") {
				return nil //nolint:nilerr // it is gone
			}
			return syscall.EBUSY
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestBlocks(t *testing.T) {
	const document = "words\n```sh\n1\n```\n\n    set in\n      more\n\n```\n    2\n```\n    last"
	got, err := Blocks(document)
	want := []Block{
		{Line: 3, Info: "sh", Text: "1\n"}, {Line: 6, Text: "set in\n  more\n", Indented: true}, {Line: 10, Text: "    2\n"},
		{Line: 12, Text: "last\n", Indented: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for document, want := range map[string]string{"a\n```sh\n1\n": "3: the block has no end", "- a\n  ```sh\n  1\n  ```\n": "2: the block does not begin"} {
		if _, err := Blocks(document); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", document, err, want)
		}
	}
}

func TestDocuments(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.md", "b/c.md", ".d/e.md", "node_modules/f.md", "g.txt"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := Documents(t, root), map[string]string{"a.md": "of a.md", "b/c.md": "of b/c.md"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
