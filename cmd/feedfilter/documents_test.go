//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/doctest"
	"github.com/feedfilter/feedfilter/internal/settings"
)

// TestCommandsInDocuments parses every command in the documents, in blocks and within lines.
func TestCommandsInDocuments(t *testing.T) {
	app, understood := testParser(t).Model, 0
	for name, text := range doctest.Documents(t, "../..") {
		// COMMAND.md is generated, and the changelog names removed commands.
		if name == "docs/COMMAND.md" || name == "CHANGELOG.md" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if strings.Contains(text, "export FEEDFILTER_SERVER=") {
				t.Setenv("FEEDFILTER_SERVER", "http://127.0.0.1:8080")
			}
			for _, line := range commandsShown(t, text) {
				understood++
				if names(app.Node, strings.Fields(line)) {
					continue
				}
				if err := understand(t, line); err != nil {
					t.Errorf("feedfilter %s: %v", line, err)
				}
			}
		})
	}
	if understood < 60 {
		t.Errorf("only %d commands were found", understood)
	}
}

// commandsShown returns the arguments of each feedfilter command in a text.
func commandsShown(t *testing.T, text string) (lines []string) {
	t.Helper()
	blocks, err := doctest.Blocks(text)
	must(t, err)
	for _, b := range blocks {
		if b.Info == "sh" || b.Info == "console" {
			joined := strings.ReplaceAll(b.Text, "\\\n", " ")
			for _, m := range regexp.MustCompile(`(?m)(?:^ *|[;&|] |until |[A-Z_]+=\S+ )feedfilter( .*)?$`).FindAllStringSubmatch(joined, -1) {
				lines = append(lines, m[1])
			}
		}
		text = strings.Replace(text, b.Text, "", 1)
	}
	for _, m := range regexp.MustCompile("`feedfilter( [^`]*)`").FindAllStringSubmatch(text, -1) {
		lines = append(lines, m[1])
	}
	for i, line := range lines {
		line = strings.NewReplacer(`"$FEEDFILTER_SERVER"`, "http://127.0.0.1:8080", `"$(get /v1/pages | jq .due)"`, "65536").Replace(line)
		line = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(line, "redis://127.0.0.1")
		line = regexp.MustCompile(`(?: \d?>|[;&|)]| #).*`).ReplaceAllString(line, "")
		lines[i] = strings.TrimSuffix(line, " --help")
	}
	return lines
}

// names reports whether words are only the name of a command, as in a sentence.
func names(node *kong.Node, words []string) bool {
	if len(words) == 0 {
		return true
	}
	for _, child := range node.Children {
		if child.Name == words[0] {
			return names(child, words[1:])
		}
	}
	return false
}

// understand replaces placeholders by values, and parses the arguments.
func understand(t *testing.T, line string) error {
	t.Helper()
	// Files that a document names do not exist here.
	line = regexp.MustCompile(`--(config|kinds|tls-cert|tls-key) \S+`).ReplaceAllString(line, "")
	line = regexp.MustCompile(`--source \S+`).ReplaceAllString(line, "")
	line = regexp.MustCompile(`--(tables|follow) \S+`).ReplaceAllString(line, "--$1 ../../examples/follow/own.json --source postgres://db/app")
	if strings.HasPrefix(strings.TrimSpace(line), "serve ") {
		line = regexp.MustCompile(`--auth-file \S+`).ReplaceAllString(line, "")
	}
	line = regexp.MustCompile(`--source \S+`).ReplaceAllString(line, "")
	line = regexp.MustCompile(`--(tables|follow) \S+`).ReplaceAllString(line, "--$1 ../../examples/follow/own.json --source postgres://db/app")
	line = strings.NewReplacer("'", "", " ...", "", "--redis URL", "--redis redis://127.0.0.1", "URL", "http://127.0.0.1:8080",
		" N", " 1024", "$port", "8080").Replace(line)
	_, err := settings.Parse(t.Context(), testParser(t), envPrefix, strings.Fields(line))
	return err
}
