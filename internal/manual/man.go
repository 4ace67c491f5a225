package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// sourceWidth is the length of the longest line of text in a page's source, unless a word is longer.
const sourceWidth = 76

// Pages are the man pages of section 1, by the names of their files: one of the program and one for each command.
func (p *Program) Pages(app *kong.Application) map[string]string {
	pages := map[string]string{pageName(app.Node) + ".1": p.Page(app, app.Node)}
	for _, node := range commands(app.Node) {
		pages[pageName(node)+".1"] = p.Page(app, node)
	}
	return pages
}

// pageName is what man finds the page of a command by.
func pageName(node *kong.Node) string { return strings.ReplaceAll(node.FullPath(), " ", "-") }

// Page is the man page of the program, or of one of its commands: the source of it, with the macros of man(7).
func (p *Program) Page(app *kong.Application, node *kong.Node) string {
	r := &roff{}
	r.linef(".TH %s 1 %s %s", quote(strings.ToUpper(pageName(node))), quote(p.Date), quote(strings.TrimSpace(app.Name+" "+p.Version)))
	r.linef(".nh\n.ad l") // names are not to be hyphenated, nor lines with long ones stretched
	r.linef(".SH NAME")
	r.linef("%s \\- %s", literal(pageName(node)), text(strings.TrimSuffix(firstSentence(node.Help), ".")))
	r.linef(".SH SYNOPSIS")
	r.linef("\\fB%s\\fR %s", literal(app.Name), text(usage(node)))
	r.linef(".SH DESCRIPTION")
	description := node.Help
	if node != app.Node {
		description += "\n\n" + node.Detail
	}
	for i, block := range blocks(description) {
		if i > 0 || block.literal {
			r.linef(".PP")
		}
		r.block(block)
	}
	r.commands(node)
	if node.Leaf() {
		r.options(node)
	}
	if len(p.Exit) > 0 {
		r.linef(".SH EXIT STATUS")
		for _, s := range p.Exit {
			r.item(literal(s.Code), s.Meaning)
		}
	}
	r.seeAlso(app, node)
	return r.String()
}

// roff is the source of a page.
type roff struct{ strings.Builder }

// linef adds a line, or several.
func (r *roff) linef(format string, args ...any) { _, _ = fmt.Fprintf(r, format+"\n", args...) } // a builder does not fail

func (r *roff) block(b block) {
	if !b.literal {
		r.linef("%s", text(b.text))
		return
	}
	r.linef(".RS 4\n.nf")
	for line := range strings.SplitSeq(b.text, "\n") {
		r.linef("%s", literal(line))
	}
	r.linef(".fi\n.RE")
}

func (r *roff) item(title, meaning string) { r.linef(".TP\n%s\n%s", title, text(meaning)) }

func (r *roff) commands(node *kong.Node) {
	if len(visible(node)) == 0 {
		return
	}
	r.linef(".SH COMMANDS")
	for _, below := range visible(node) {
		r.item("\\fB"+literal(pageName(below))+"\\fR(1)", below.Help)
	}
}

func (r *roff) options(node *kong.Node) {
	r.linef(".SH OPTIONS")
	for _, argument := range node.Positional {
		r.item("\\fI"+literal(argument.Summary())+"\\fR", helpOf(argument))
	}
	for _, flag := range flagsOf(node) {
		help := helpOf(flag.Value)
		if len(flag.Envs) > 0 {
			help += " ($" + strings.Join(flag.Envs, ", $") + ")"
		}
		name, value, _ := strings.Cut(flag.String(), "=")
		title := "\\fB" + literal(name) + "\\fR"
		if value != "" {
			title += "=\\fI" + literal(value) + "\\fR"
		}
		r.item(title, help)
	}
}

func (r *roff) seeAlso(app *kong.Application, node *kong.Node) {
	var names []string
	if node != app.Node {
		names = append(names, pageName(app.Node))
		for _, other := range visible(node.Parent) {
			if other != node {
				names = append(names, pageName(other))
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return
	}
	r.linef(".SH SEE ALSO")
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		r.linef(".BR %s (1)%s", literal(name), comma)
	}
}

// firstSentence is for the line that apropos(1) shows.
func firstSentence(help string) string {
	sentence, _, _ := strings.Cut(strings.Join(strings.Fields(help), " "), ". ")
	sentence, _, _ = strings.Cut(sentence, ": ")
	return sentence
}

// text keeps a paragraph from being taken for markup. Sentences begin on a line of their own, which is how roff tells them, and no line
// of the source is long.
func text(s string) string {
	escaped := strings.NewReplacer(`\`, `\e`, "^", `\(ha`, "~", `\(ti`, "--", `\-\-`).Replace(s)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(escaped) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > sourceWidth, strings.HasSuffix(line, "."):
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	lines = append(lines, line)
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// literal is text that is to be typed as it stands.
func literal(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "'", `\(aq`, "`", `\(ga`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\(dq`) + `"` }
