package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds how deep schemas within schemas are shown.
const maxDepth = 6

// row is a field of a body, such as "posts[].id".
type row struct {
	Name     string
	Type     string
	Named    string // the schema with a name that it is of, for a link
	Required bool
	Text     string
	Values   []string // that it may have; nil: any of the type
}

// rows lists the fields of a body of schema s.
func (p *page) rows(s *Schema) []row { return p.within("", s, 0) }

// within lists the fields in values of s, which stands at prefix.
func (p *page) within(prefix string, s *Schema, depth int) (rows []row) {
	s = p.Schema(s)
	if s == nil || depth > maxDepth {
		return nil
	}
	for _, m := range s.Properties {
		r, inner := p.row(prefix+m.Name, m.Value), p.Schema(m.Value)
		r.Required = slices.Contains(s.Required, m.Name)
		rows = append(rows, r)
		next := r.Name
		if inner.Items != nil {
			next, inner = next+"[]", p.Schema(inner.Items)
		}
		rows = append(rows, p.within(next+".", inner, depth+1)...)
	}
	if depth == 0 && len(s.OneOf) > 0 {
		for _, one := range s.OneOf {
			rows = append(rows, p.within(prefix, one, depth+1)...)
		}
	}
	return rows
}

// row is the field itself.
func (p *page) row(name string, s *Schema) row {
	r := row{Name: name, Text: s.Description, Type: typeText(s), Values: s.Enum}
	if s.Ref != "" {
		of := p.Schema(s)
		r.Type = typeText(of)
		if r.Text == "" && !scalar(of) {
			r.Text = of.Description
		}
		if scalar(of) {
			r.Type, r.Named = "", refName(s.Ref)
		}
	}
	if s.Items != nil && s.Items.Ref != "" {
		if of := p.Schema(s.Items); scalar(of) {
			r.Named = refName(s.Items.Ref)
		}
	}
	if s.Items != nil && len(s.Items.Enum) > 0 {
		r.Values = s.Items.Enum
	}
	return r
}

// scalar reports whether values of s are shown in a word.
func scalar(s *Schema) bool {
	return len(s.Properties) == 0 && s.Items == nil && len(s.OneOf) == 0
}

func refName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// typeText is the type of a value, with its range.
func typeText(s *Schema) string {
	text := strings.Join(s.Type, " or ")
	if values, ok := s.Additional.(*Schema); ok {
		return text + " of " + typeText(values)
	}
	switch {
	case s.Items != nil:
		return "array" + span(s.MinItems, s.MaxItems)
	case s.MaxLength > 0:
		return text + span(s.MinLength, s.MaxLength)
	case s.Encoding != "":
		return text + ", " + s.Encoding
	case s.Format != "":
		return text + ", " + s.Format
	case s.Minimum != nil && s.Maximum != nil:
		return text + ", " + grouped(*s.Minimum) + " to " + grouped(*s.Maximum)
	case s.Minimum != nil && *s.Minimum > 0:
		return text + ", at least " + grouped(*s.Minimum)
	default:
		return text
	}
}

// span is how many there may be.
func span(low, high int) string {
	switch {
	case high > 0:
		return fmt.Sprintf(" of %s to %s", grouped(float64(low)), grouped(float64(high)))
	case low > 0:
		return fmt.Sprintf(" of %d or more", low)
	default:
		return ""
	}
}

// grouped writes a whole number as in 16,777,216.
func grouped(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
