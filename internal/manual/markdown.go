package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Markdown is a reference of all commands and flags.
func (p *Program) Markdown(app *kong.Application) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# %s\n\n", app.Name)
	for _, block := range blocks(app.Help) {
		markdownBlock(b, block)
	}
	b.WriteString("| | |\n|---|---|\n")
	for _, node := range commands(app.Node) {
		fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", node.FullPath(), strings.ReplaceAll(node.FullPath(), " ", "-"), inCell(node.Help))
	}
	if len(p.Exit) > 0 {
		b.WriteString("\n## Exit status\n\n| | |\n|---|---|\n")
		for _, s := range p.Exit {
			fmt.Fprintf(b, "| %s | %s |\n", s.Code, inCell(s.Meaning))
		}
	}
	for _, node := range commands(app.Node) {
		markdownCommand(b, app, node)
	}
	return b.String()
}

func markdownCommand(b *strings.Builder, app *kong.Application, node *kong.Node) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n```text\n%s %s\n```\n\n", node.FullPath(), escape(node.Help), app.Name, usage(node))
	for _, block := range blocks(node.Detail) {
		markdownBlock(b, block)
	}
	if !node.Leaf() {
		return
	}
	rows := &strings.Builder{}
	for _, argument := range node.Positional {
		fmt.Fprintf(rows, "| `%s` | | %s |\n", argument.Summary(), inCell(helpOf(argument)))
	}
	for _, flag := range flagsOf(node) {
		if flag == app.HelpFlag {
			continue
		}
		variables := ""
		if len(flag.Envs) > 0 {
			variables = "`" + strings.Join(flag.Envs, "`, `") + "`"
		}
		fmt.Fprintf(rows, "| `%s` | %s | %s |\n", strings.ReplaceAll(flag.String(), "|", `\|`), variables, inCell(helpOf(flag.Value)))
	}
	if rows.Len() > 0 {
		fmt.Fprintf(b, "| | Variable | |\n|---|---|---|\n%s", rows)
	}
}

func markdownBlock(b *strings.Builder, block block) {
	if block.literal {
		fmt.Fprintf(b, "```console\n%s\n```\n\n", block.text)
		return
	}
	fmt.Fprintf(b, "%s\n\n", escape(block.text))
}

// escape keeps text from being taken for markup.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "<", `\<`, ">", `\>`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "`", "\\`").Replace(text)
}

func inCell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(escape(text), "|", `\|`), "\n", " ")
}
