package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
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

// TestCommandReference compares docs/COMMAND.md with the output of --help. The page explains flags
// that commands share with serve only once, at serve.
func TestCommandReference(t *testing.T) {
	const name = "../../docs/COMMAND.md"
	t.Setenv("COLUMNS", "100")
	parser, text := testParser(t), &bytes.Buffer{}
	parser.Stdout = text
	text.WriteString("# Commands\n\nWhat `--help` prints. `make docs` writes this page.\n" +
		"Flags that a command shares with `serve` are explained once, [there](#feedfilter-serve).\n")
	serve := parser.Model.Leaves(true)[0]
	if serve.Name != "serve" {
		t.Fatalf("the first command is %s, not serve", serve.Name)
	}
	for _, node := range append([]*kong.Node{parser.Model.Node}, parser.Model.Leaves(true)...) {
		shared := hideShared(node, serve)
		fmt.Fprintf(text, "\n## %s\n\n```text\n", node.FullPath())
		command, err := kong.Trace(parser, strings.Fields(node.Path()))
		if err == nil {
			err = command.PrintUsage(false)
		}
		must(t, err)
		text.WriteString("```\n")
		writeShared(text, shared)
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

// hideShared hides the flags that a command shares with serve, with the same help and default. It
// returns their names.
func hideShared(node, serve *kong.Node) (names []string) {
	if node == serve {
		return nil
	}
	for _, flag := range node.Flags {
		if flag.Hidden {
			continue
		}
		if slices.ContainsFunc(serve.Flags, func(s *kong.Flag) bool {
			return s.Name == flag.Name && s.Help == flag.Help && s.Default == flag.Default
		}) {
			flag.Hidden = true
			names = append(names, "`--"+flag.Name+"`")
		}
	}
	return names
}

// writeShared lists the flags that hideShared has hidden, in lines of at most 100 columns.
func writeShared(text *bytes.Buffer, names []string) {
	if len(names) == 0 {
		return
	}
	line := "\nAlso these flags of [serve](#feedfilter-serve):"
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		} else {
			name += "."
		}
		if len(line)+1+len(name) > 100 {
			text.WriteString(line + "\n")
			line = name
			continue
		}
		line += " " + name
	}
	text.WriteString(line + "\n")
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
