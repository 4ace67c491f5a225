package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

// examplesText holds the examples of each command, below a line "# <command>".
//
//go:embed examples.txt
var examplesText string

// examples returns the examples in the help of each command, by command. TestExamples parses them
// all.
func examples() map[string][]string { return sections(examplesText) }

// addExamples appends the examples to the help of the commands.
func addExamples(node *kong.Node, all map[string][]string) {
	if lines := all[node.Path()]; node.Type == kong.CommandNode && len(lines) > 0 {
		node.Detail = strings.TrimSpace(node.Detail + "\n\nExamples:\n\n    " + strings.Join(lines, "\n    "))
	}
	for _, below := range node.Children {
		addExamples(below, all)
	}
}
