package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

// examplesText has the examples of each command below a line "# <command>".
//
//go:embed examples.txt
var examplesText string

// examples are shown at the end of each command's help, by the command. A test sees to it that they are understood, and that
// each command has some.
func examples() map[string][]string {
	all := make(map[string][]string)
	command := ""
	for line := range strings.Lines(examplesText) {
		line = strings.TrimSpace(line)
		name, heads := strings.CutPrefix(line, "# ")
		switch {
		case heads:
			command = name
		case line != "":
			all[command] = append(all[command], line)
		}
	}
	return all
}

// addExamples puts them after what there is to say of a command.
func addExamples(node *kong.Node, all map[string][]string) {
	if lines := all[node.Path()]; node.Type == kong.CommandNode && len(lines) > 0 {
		node.Detail = strings.TrimSpace(node.Detail + "\n\nExamples:\n\n    " + strings.Join(lines, "\n    "))
	}
	for _, below := range node.Children {
		addExamples(below, all)
	}
}
