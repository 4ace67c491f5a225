package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The commands of docs/SIZING.md print what it says. A line of three dots stands for the rest.
func TestSizingDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/SIZING.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)
	t.Chdir(t.TempDir())
	for _, file := range regexp.MustCompile("(?s)`([a-z.]+json)`:\n\n```json\n(.*?)```").FindAllStringSubmatch(document, -1) {
		if err := os.WriteFile(file[1], []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blocks := regexp.MustCompile("(?s)```console\n\\$ (.*?[^\\\\])\n(.*?)```").FindAllStringSubmatch(document, -1)
	if len(blocks) < 4 {
		t.Fatalf("only %d commands were found", len(blocks))
	}
	for _, b := range blocks {
		command, want := b[1], b[2]
		r := runCommand(t, nil, "sh", "-c", command)
		got := r.stdout
		if head, ok := strings.CutSuffix(want, "...\n"); ok && strings.HasPrefix(got, head) {
			continue
		}
		if r.code != 0 || got != want {
			t.Errorf("%s: exit code %d\n%s%s\nthe document has:\n%s", command, r.code, got, r.stderr, want)
		}
	}
}
