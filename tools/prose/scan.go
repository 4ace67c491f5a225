package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// commentPrefixes holds what begins a comment line in files other than Go and Markdown.
func commentPrefixes() map[string]string {
	return map[string]string{
		".css":       `/?\*`,
		".hcl":       "#",
		".js":        `//|/?\*`,
		".lua":       "--",
		".proto":     "//",
		".py":        "#",
		".sh":        "#",
		".sql":       "--",
		".tf":        "#",
		".ts":        `//|/?\*`,
		".yaml":      "#",
		"Makefile":   "#",
		"Dockerfile": "#",
	}
}

// scan applies the rules to all prose of a file. It returns an error if the file is not valid Go.
func scan(name string, source []byte, rules []wordRule) ([]violation, error) {
	c := &checker{rules: rules}
	text := string(source)
	head := text[:min(len(text), 1000)]
	switch {
	case generated.MatchString(head) || strings.HasSuffix(path.Base(name), ".min.js"):
	case path.Ext(name) == ".go":
		if err := c.golang(text); err != nil {
			return nil, err
		}
	case path.Ext(name) == ".md":
		c.markdown(split(text, 1))
	default:
		prefix, ok := commentPrefixes()[path.Ext(path.Base(name))]
		if base, named := commentPrefixes()[path.Base(name)]; named {
			prefix, ok = base, true
		}
		if strings.HasPrefix(text, "#!") {
			prefix, ok = "#", true
		}
		if ok {
			c.comments(split(text, 1), regexp.MustCompile(`^\s*(?:`+prefix+`)+(?: |$)`))
			c.descriptions(split(text, 1))
		}
	}
	return c.found, nil
}

var (
	generated = regexp.MustCompile(`(?m)@generated|(?i:generated .*do not edit)|` +
		`^What .--help. prints\.`)
	directive = regexp.MustCompile(`^//(?:nolint:\S+(?: //|$)|[a-z]+:\S.*$)`)
	item      = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)]) +`)
	row       = regexp.MustCompile(`^\S+ {2,}`)
	fence     = regexp.MustCompile("^\\s*(?:[-*>] )?\\s*(?:```|~~~)")
	code      = regexp.MustCompile(`(?m)` +
		`^\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|ALTER|DROP)\b|[{}]|=>|;\n`)
	key = regexp.MustCompile(`^(\s*)(?:- )?(?:description|summary|error_message)\s*[:=] *(.*)$`)
)

// numbered is a line of a file.
type numbered struct {
	line int
	text string
}

// split returns the lines of text, the first of which has the number first.
func split(text string, first int) []numbered {
	parts := strings.Split(text, "\n")
	lines := make([]numbered, len(parts))
	for i, part := range parts {
		lines[i] = numbered{first + i, part}
	}
	return lines
}

// markdown applies the rules to a document, or to text that is written like one. It leaves out
// code, HTML, images, and the length of lines of tables.
func (c *checker) markdown(lines []numbered) {
	b, inFence, inList := &block{}, false, false
	end := func() { c.block(b); b = &block{} }
	for i, l := range lines {
		text := strings.TrimSpace(strings.TrimLeft(l.text, "> "))
		fenced := fence.MatchString(l.text)
		if fenced {
			inFence = !inFence
		}
		blank := text == "" || strings.HasPrefix(text, "<") || strings.HasPrefix(text, "![") || fenced
		indented := strings.HasPrefix(l.text, "    ") && !inList && (i == 0 || b.text.Len() == 0)
		if inFence || blank || indented {
			end()
			continue
		}
		if strings.HasPrefix(text, "|") {
			end()
			withoutBars := func(span string) string { return strings.ReplaceAll(span, "|", "x") }
			for cell := range strings.SplitSeq(opaque.ReplaceAllStringFunc(text, withoutBars), "|") {
				b.add(l.line, cell)
				end()
			}
			continue
		}
		c.columns(l.line, l.text)
		bullet := item.FindString(l.text)
		heading := strings.HasPrefix(text, "#")
		if bullet != "" || heading {
			end()
		}
		inList = bullet != "" || inList && (strings.HasPrefix(l.text, " ") || b.text.Len() > 0)
		b.add(l.line, strings.TrimSpace(strings.TrimPrefix(l.text, bullet))+"\n")
		if heading {
			end()
		}
	}
	end()
}

// comments applies the rules to the lines that are comments.
func (c *checker) comments(lines []numbered, prefix *regexp.Regexp) {
	var group []numbered
	for _, l := range lines {
		mark := prefix.FindString(l.text)
		if mark == "" || strings.HasPrefix(l.text, "#!") {
			c.paragraphs(group)
			group = nil
			continue
		}
		c.columns(l.line, l.text)
		group = append(group, numbered{l.line, strings.TrimSuffix(l.text[len(mark):], "*/")})
	}
	c.paragraphs(group)
}

// paragraphs applies the rules on words and sentences to the text of a comment. Lines that are
// indented and no list items are code. A word and two spaces begin a row of a table.
func (c *checker) paragraphs(lines []numbered) {
	b := &block{}
	end := func() { c.block(b); b = &block{} }
	inList := false
	for _, l := range lines {
		bullet := item.FindString(l.text)
		if bullet == "" {
			bullet = row.FindString(l.text)
		}
		indented := strings.HasPrefix(l.text, "\t") || strings.HasPrefix(l.text, "  ")
		inList = bullet != "" || inList && indented
		if strings.TrimSpace(l.text) == "" || bullet != "" || indented && !inList {
			end()
		}
		if !indented || inList {
			b.add(l.line, strings.TrimSpace(strings.TrimPrefix(l.text, bullet))+"\n")
		}
	}
	end()
}

// descriptions applies the rules to descriptions in YAML and Terraform, of one line or several.
func (c *checker) descriptions(lines []numbered) {
	var text []numbered
	indent := -1 // that of the key whose text is being collected
	for _, l := range lines {
		rest := strings.TrimLeft(l.text, " ")
		if indent >= 0 && (rest == "" || len(l.text)-len(rest) > indent) {
			text = append(text, numbered{l.line, rest})
			continue
		}
		c.markdown(text)
		text, indent = nil, -1
		switch found := key.FindStringSubmatch(l.text); {
		case found == nil:
		case strings.HasPrefix(found[2], "|"), strings.HasPrefix(found[2], ">"),
			strings.HasPrefix(found[2], "<<"):
			indent = len(found[1])
		default:
			b := &block{}
			b.add(l.line, strings.Trim(found[2], `"'`))
			c.block(b)
		}
	}
	c.markdown(text)
}

// golang applies the rules to comments, to string literals and to the help of flags in tags. All
// literals count, because texts reach readers on too many ways to list them.
func (c *checker) golang(source string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := strings.Split(source, "\n")
	for _, group := range file.Comments {
		var text []numbered
		for _, comment := range group.List {
			at := files.Position(comment.Pos())
			for i, l := range split(comment.Text, at.Line) {
				if i > 0 || strings.TrimSpace(lines[at.Line-1][:at.Column-1]) == "" {
					c.columns(l.line, lines[l.line-1])
				}
				l.text = directive.ReplaceAllString(l.text, "")
				l.text = strings.TrimPrefix(strings.TrimPrefix(l.text, "//"), "/*")
				l.text = strings.TrimPrefix(strings.TrimSuffix(l.text, "*/"), " ")
				text = append(text, l)
			}
		}
		if !strings.HasPrefix(text[0].text, "Output:") {
			c.paragraphs(text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		b := &block{}
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				tag, _ := strconv.Unquote(n.Tag.Value)
				b.add(files.Position(n.Tag.Pos()).Line, reflect.StructTag(tag).Get("help"))
				c.block(b)
				return false
			}
		case ast.Expr:
			if literals(b, files, n) {
				c.message(b)
				return false
			}
		}
		return true
	})
	return nil
}

// literals adds the text of a string literal, or of a sum of them, to b. Other operands of a sum
// stand for a word. It returns false if n is neither.
func literals(b *block, files *token.FileSet, n ast.Expr) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		if n.Kind != token.STRING || err != nil {
			return false
		}
		if !strings.HasPrefix(n.Value, "`") {
			b.add(files.Position(n.Pos()).Line, text)
			return true
		}
		for i, l := range split(text, files.Position(n.Pos()).Line) {
			b.add(l.line, strings.Repeat("\n", min(i, 1))+l.text)
		}
		return true
	case *ast.BinaryExpr:
		return n.Op == token.ADD && literals(b, files, n.X) && literals(b, files, n.Y)
	}
	return false
}

// message applies the rules to a string literal. In code only the rules on words count. Each clause
// and each line of a message counts as a sentence.
func (c *checker) message(b *block) {
	text := masked(b.text.String())
	c.words(b, text)
	if !code.MatchString(b.text.String()) {
		c.sentences(b, text, clauseEnd)
	}
}
