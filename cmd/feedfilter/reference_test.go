package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/settings"
)

// updated reports whether tests write their expected files, as in `make docs`.
func updated() bool { return os.Getenv("UPDATE") != "" }

// testParser returns the parser of the command.
func testParser(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := newParser(&cli{}, stdio{os.Stdin, os.Stdout, os.Stderr})
	must(t, err)
	return parser
}

// TestCommandReference compares docs/COMMAND.md with the output of --help.
func TestCommandReference(t *testing.T) {
	const name = "../../docs/COMMAND.md"
	t.Setenv("COLUMNS", "100")
	parser, text := testParser(t), &bytes.Buffer{}
	parser.Stdout = text
	text.WriteString("# Commands\n\nWhat `--help` prints. `make docs` writes this page.\n" +
		"Flags that a command shares with `serve` are explained once, [there](#feedfilter-serve).\n")
	leaves := parser.Model.Leaves(true)
	if parser.Model.Children[0] != leaves[0] || leaves[0].Name != "serve" {
		t.Fatalf("the first command is %s, not serve", leaves[0].Name)
	}
	for _, node := range append([]*kong.Node{parser.Model.Node}, leaves...) {
		fmt.Fprintf(text, "\n## %s\n\n```text\n", node.FullPath())
		command, err := kong.Trace(parser, strings.Fields(node.Path()))
		if err == nil {
			err = command.PrintUsage(false)
		}
		must(t, err)
		text.WriteString("```\n")
	}
	if updated() {
		must(t, os.WriteFile(name, text.Bytes(), 0o644))
	}
	is, err := os.ReadFile(name)
	must(t, err)
	if !bytes.Equal(is, text.Bytes()) {
		t.Error("docs/COMMAND.md differs from the commands: run make docs")
	}
}

// TestExamples checks that the help of every command has examples, and parses them.
func TestExamples(t *testing.T) {
	shown, all := make(map[string]bool), examples()
	for _, node := range testParser(t).Model.Leaves(true) {
		if len(all[node.Path()]) == 0 {
			t.Errorf("%s has no example: add one to examples.txt", node.FullPath())
		}
		for _, line := range all[node.Path()] {
			shown[line] = true
			if !strings.Contains(node.Detail, "\n    "+line) {
				t.Errorf("the help of %s lacks %s", node.FullPath(), line)
			}
		}
	}
	for command, lines := range all {
		for _, line := range lines {
			found := regexp.MustCompile(`(?:^|[ (])feedfilter( [^|>&)]*)`).FindStringSubmatch(line)
			if found == nil {
				t.Errorf("%s is not an example", line)
				continue
			}
			// Files of an example do not exist here.
			text := strings.ReplaceAll(found[1], "tables.json", "../../examples/follow/own.json")
			args := strings.Fields(regexp.MustCompile(`--config \S+`).ReplaceAllString(text, ""))
			chosen, err := settings.Parse(t.Context(), testParser(t), envPrefix, args)
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			// The examples of "config" show one of its commands.
			if path := chosen.Selected().Path(); !strings.HasPrefix(path, command) && !strings.HasPrefix(command, path) {
				t.Errorf("%s is an example of %s, not of %s", line, path, command)
			}
		}
	}
}

// Package settings checks no groups of flags that kong knows: each command checks its own.
func TestFlagsHaveNoGroups(t *testing.T) {
	for _, command := range testParser(t).Model.Leaves(false) {
		for _, flag := range command.Flags {
			if len(flag.Xor)+len(flag.And) > 0 {
				t.Errorf("%s: --%s is in groups %q and %q, which have no effect", command.Path(), flag.Name, flag.Xor, flag.And)
			}
		}
	}
}
