package openapi

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

//go:embed page.html style.css
var files embed.FS

// exampleServer is where the page's examples call.
const exampleServer = "http://127.0.0.1:8080"

// Style returns the style sheet of a [Page].
func Style() []byte {
	style, _ := files.ReadFile("style.css") // there since the program was built
	return style
}

// Page renders d as HTML that loads the style sheet at style, and nothing else, and refers to the document itself
// at source. It works without scripts, and is made to be served under a policy that allows none.
func Page(d *Document, style, source string) ([]byte, error) {
	p := page{Document: d, Style: style, Source: source}
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"prose": prose, "line": line, "name": name, "lower": strings.ToLower,
	}).ParseFS(files, "page.html")
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	for _, tag := range d.Tags {
		if g := p.group(tag); len(g.Calls) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	if g := p.group(Tag{Name: "Others"}); len(g.Calls) > 0 {
		p.Groups = append(p.Groups, g)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, &p); err != nil {
		return nil, fmt.Errorf("render the API's description: %w", err)
	}
	return b.Bytes(), nil
}

// page is what the template is filled with.
type page struct {
	*Document

	Style, Source string
	Groups        []group
}

// group has the calls with a tag.
type group struct {
	Tag   Tag
	Calls []shownCall
}

// shownCall is an operation as it is shown.
type shownCall struct {
	*Operation

	Method, Path    string
	Scopes          []string
	Sent            []shownParameter
	Takes           []shownBody
	Answers, Errors []shownAnswer
	Curl            string
}

// shownParameter is one in the path or the query.
type shownParameter struct {
	row

	In string
}

type shownBody struct {
	MediaType string
	Rows      []row
	Example   string
}

type shownAnswer struct {
	Status  string
	Text    string
	Headers []string
	Bodies  []shownBody
	Codes   []code
}

type code struct{ Name, Text string }

// group gathers the calls of a tag; those without any belong to "Others".
func (p *page) group(tag Tag) group {
	g := group{Tag: tag}
	for _, path := range p.Paths {
		for _, op := range path.Value {
			if slices.Contains(op.Value.Tags, tag.Name) || len(op.Value.Tags) == 0 && tag.Name == "Others" {
				g.Calls = append(g.Calls, p.call(strings.ToUpper(op.Name), path.Name, op.Value))
			}
		}
	}
	return g
}

func (p *page) call(method, path string, op *Operation) shownCall {
	c := shownCall{Operation: op, Method: method, Path: path}
	for _, need := range op.Security {
		for _, scopes := range need {
			c.Scopes = append(c.Scopes, scopes...)
		}
	}
	for _, q := range op.Parameters {
		r := p.row(q.Name, q.Schema)
		r.Required, r.Text = q.Required, cmp.Or(q.Description, r.Text)
		c.Sent = append(c.Sent, shownParameter{r, q.In})
	}
	if op.RequestBody != nil {
		c.Takes = p.bodies(op.RequestBody.Content)
	}
	for _, res := range op.Responses {
		a := shownAnswer{Status: res.Name, Text: res.Value.Description}
		for _, h := range res.Value.Headers {
			if h.Name != "X-Request-Id" { // every answer has it
				a.Headers = append(a.Headers, h.Name)
			}
		}
		if codes := p.codes(res.Value); codes != nil {
			a.Codes = codes
			c.Errors = append(c.Errors, a)
			continue
		}
		a.Bodies = p.bodies(res.Value.Content)
		c.Answers = append(c.Answers, a)
	}
	c.Curl = curl(method, path, op)
	return c
}

func (p *page) bodies(content Ordered[MediaType]) (all []shownBody) {
	for _, m := range content {
		all = append(all, shownBody{MediaType: m.Name, Rows: p.rows(m.Value.Schema), Example: shown(m.Value.Example)})
	}
	return all
}

// codes are those of an error's answer: what is narrowed down beside the reference to the shape of errors.
func (p *page) codes(r Response) (codes []code) {
	for _, m := range r.Content {
		if m.Value.Schema == nil || len(m.Value.Schema.AllOf) == 0 {
			return nil
		}
		texts := p.ErrorCodes()
		for _, part := range m.Value.Schema.AllOf {
			inner, _ := part.Properties.Get("error")
			if inner == nil {
				continue
			}
			named, _ := inner.Properties.Get("code")
			for _, name := range named.Enum {
				i := slices.IndexFunc(texts, func(c code) bool { return c.Name == name })
				codes = append(codes, code{Name: name})
				if i >= 0 {
					codes[len(codes)-1] = texts[i]
				}
			}
		}
	}
	return codes
}

// ErrorCodes are all there are, as the schema Error names them.
func (p *page) ErrorCodes() (all []code) {
	shape, _ := p.Components.Schemas.Get("Error")
	for _, name := range []string{"error", "code"} {
		if shape == nil {
			return nil
		}
		shape, _ = shape.Properties.Get(name)
	}
	if shape == nil {
		return nil
	}
	for _, m := range shape.EnumTexts {
		all = append(all, code{m.Name, m.Value})
	}
	return all
}

// Scalars are the schemas with a name that are not objects: rows refer to them.
func (p *page) Scalars() (all []row) {
	for _, m := range p.Components.Schemas {
		if scalar(m.Value) {
			all = append(all, row{Name: m.Name, Type: typeText(m.Value), Text: m.Value.Description, Values: m.Value.Enum})
		}
	}
	return all
}

// shown is an example as it is printed: JSON indented where it is long, and a string by itself.
func shown(example jsontext.Value) string {
	switch {
	case len(example) == 0:
		return ""
	case example.Kind() == jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, example)
		if err != nil {
			return string(example)
		}
		return strings.TrimRight(string(text), "\n")
	case len(example) <= 80:
		return string(example)
	}
	var b strings.Builder
	spread(&b, example, 0)
	return b.String()
}

// spread prints JSON with each member of what is too long for one line on a line of its own. Of what is not JSON it prints the beginning.
func spread(b *strings.Builder, v jsontext.Value, depth int) {
	const width = 80
	kind := v.Kind()
	if 2*depth+len(v) <= width || kind != jsontext.KindBeginObject && kind != jsontext.KindBeginArray {
		b.Write(v)
		return
	}
	d := jsontext.NewDecoder(bytes.NewReader(v))
	_, _ = d.ReadToken() // the bracket
	b.WriteByte(v[0])
	for separator := ""; ; separator = "," {
		name, err := []byte(nil), error(nil)
		if kind == jsontext.KindBeginObject {
			name, err = d.ReadValue()
			name = append(bytes.Clone(name), ": "...)
		}
		member, last := d.ReadValue()
		if err != nil || last != nil {
			break
		}
		b.WriteString(separator + "\n" + strings.Repeat("  ", depth+1))
		b.Write(name)
		spread(b, member, depth+1)
	}
	b.WriteString("\n" + strings.Repeat("  ", depth))
	b.WriteByte(v[len(v)-1])
}

// curl is a command that makes the call.
func curl(method, path string, op *Operation) string {
	for _, p := range op.Parameters {
		if p.In == "path" {
			path = strings.Replace(path, "{"+p.Name+"}", shown(p.Example), 1)
		}
	}
	parts := []string{"curl"}
	if method != "GET" && (method != "POST" || op.RequestBody == nil) {
		parts[0] += " -X " + method
	}
	parts[0] += " " + exampleServer + path
	if len(op.Security) > 0 {
		parts = append(parts, `-H "Authorization: Bearer $TOKEN"`)
	}
	if op.RequestBody != nil {
		first := op.RequestBody.Content[0]
		parts = append(parts, "-H 'Content-Type: "+first.Name+"'", "-d '"+strings.ReplaceAll(string(first.Value.Example), "'", `'\''`)+"'")
	}
	return strings.Join(parts, " \\\n  ")
}

// prose renders paragraphs, lists of lines that begin with "- ", `code` and **strong** text.
func prose(text string) template.HTML {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if part == "" {
			continue
		}
		if !strings.HasPrefix(part, "- ") {
			b.WriteString("<p>" + inline(part) + "</p>")
			continue
		}
		b.WriteString("<ul>")
		for item := range strings.SplitSeq(part, "\n") {
			b.WriteString("<li>" + inline(strings.TrimPrefix(item, "- ")) + "</li>")
		}
		b.WriteString("</ul>")
	}
	return template.HTML(b.String()) //nolint:gosec // all text in it is escaped by inline
}

// line renders text of one line, marked up in the same way.
func line(text string) template.HTML {
	return template.HTML(inline(text)) //nolint:gosec // it is escaped by inline
}

// name is that of a field, which may be cut between its parts where there is no room for it.
func name(text string) template.HTML {
	cut := strings.NewReplacer(".", ".<wbr/>", "_", "_<wbr/>")
	return template.HTML(cut.Replace(html.EscapeString(text))) //nolint:gosec // it is escaped
}

// inline escapes text, and marks up what is between pairs of ` and **.
func inline(text string) string {
	for _, m := range []struct{ mark, element string }{{"`", "code"}, {"**", "strong"}} {
		parts := strings.Split(text, m.mark)
		if m.mark == "`" {
			for i := range parts {
				parts[i] = html.EscapeString(parts[i])
			}
		}
		var b strings.Builder
		for i, part := range parts {
			switch {
			case i == 0:
			case i%2 == 1 && i < len(parts)-1:
				b.WriteString("<" + m.element + ">")
			case i%2 == 0:
				b.WriteString("</" + m.element + ">")
			default: // without a partner
				b.WriteString(m.mark)
			}
			b.WriteString(part)
		}
		text = b.String()
	}
	return text
}
