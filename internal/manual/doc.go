// Package manual says what the commands of a kong parser are, to people and to shells: as man pages, as Markdown, and as what a command
// line that is being typed may go on with. Hidden commands and flags are left out.
package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Program is what there is to say of a program beside its model.
type Program struct {
	Version string   // for the foot of pages; "": none
	Date    string   // of it, as 2006-01-02; "": none
	Exit    []Status // the statuses that it exits with
}

// Status is one that a program exits with.
type Status struct{ Code, Meaning string }

// visible are the commands below node.
func visible(node *kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(node.Children), func(n *kong.Node) bool { return n.Hidden || n.Type != kong.CommandNode })
}

// commands are node, if it is a command, and all below it, in their order.
func commands(node *kong.Node) []*kong.Node {
	var all []*kong.Node
	if node.Type == kong.CommandNode {
		all = append(all, node)
	}
	for _, below := range visible(node) {
		all = append(all, commands(below)...)
	}
	return all
}

// flagsOf are the flags of a command, and of those that it stands below.
func flagsOf(node *kong.Node) []*kong.Flag { return slices.Concat(node.AllFlags(true)...) }

// block is a paragraph, or lines that stay as they are.
type block struct {
	text    string
	literal bool
}

// blocks cuts a text as go/doc does: at empty lines, and what is indented stays as it is.
func blocks(text string) []block {
	var all []block
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		if part[0] != ' ' && part[0] != '\t' {
			all = append(all, block{text: strings.Join(strings.Fields(part), " ")})
			continue
		}
		var lines []string
		for line := range strings.SplitSeq(part, "\n") {
			lines = append(lines, strings.TrimSpace(line))
		}
		all = append(all, block{text: strings.Join(lines, "\n"), literal: true})
	}
	return all
}

// helpOf is the text on a flag or an argument, without what is said of its default and its variable elsewhere.
func helpOf(value *kong.Value) string {
	if value.Flag != nil && value.HasDefault && value.Default != "" {
		return value.Help + " Default: " + value.Default
	}
	return value.Help
}

// usage is how a command is called, without the program's name.
func usage(node *kong.Node) string {
	text := strings.ReplaceAll(node.Summary(), "\n", " ")
	if node.DefaultCmd != nil {
		text = strings.Replace(text, "<command>", "[<command>]", 1)
	}
	return text
}
