package follow

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// listMark ends the name of a column that is an array.
const listMark = "[]"

var (
	errNoArray = errors.New("not an array")
	errElement = errors.New("an element is neither a string nor a whole number such as 15")
)

// elements returns the elements of an array that are not NULL. The text is one of PostgreSQL, such
// as {1,NULL,"a b"}, or JSON. Arrays within an array of PostgreSQL are parts of it, as for unnest.
func elements(text string) ([]string, error) {
	switch {
	case strings.HasPrefix(text, "{"):
		return arrayElements(text)
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "}"): // [0:1]={1,2}
		_, rest, _ := strings.Cut(text, "=")
		return arrayElements(rest)
	default:
		return jsonElements(text)
	}
}

func jsonElements(text string) (all []string, err error) {
	var values []jsontext.Value
	if json.Unmarshal([]byte(text), &values) != nil {
		return nil, errNoArray
	}
	for _, v := range values {
		switch v.Kind() {
		case jsontext.KindNull:
		case jsontext.KindString:
			id, _ := jsontext.AppendUnquote(nil, v)
			all = append(all, string(id))
		case jsontext.KindNumber:
			if !isWhole(string(v)) {
				return nil, errElement
			}
			all = append(all, string(v))
		default:
			return nil, errElement
		}
	}
	return all, nil
}

// arrayElements parses an array as PostgreSQL prints it.
func arrayElements(text string) (all []string, err error) {
	depth := 0
	for text != "" {
		switch c := text[0]; c {
		case '{':
			depth++
			text = text[1:]
		case '}':
			depth--
			text = text[1:]
			if depth < 0 || depth == 0 && text != "" {
				return nil, errNoArray
			}
		case ',':
			text = text[1:]
		default:
			var element string
			var quoted, ok bool
			if element, text, quoted, ok = arrayElement(text); !ok || depth == 0 {
				return nil, errNoArray
			}
			if quoted || element != "NULL" {
				all = append(all, element)
			}
		}
	}
	if depth != 0 {
		return nil, errNoArray
	}
	return all, nil
}

// arrayElement returns the element at the beginning of the text, and what is behind it. It reports
// false if that is not the end of an element.
func arrayElement(text string) (element, rest string, quoted, ok bool) {
	if text[0] != '"' {
		end := strings.IndexAny(text, `,{}"\`)
		if end < 0 {
			return "", "", false, false
		}
		return text[:end], text[end:], false, text[end] == ',' || text[end] == '}'
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			rest = text[i+1:]
			return b.String(), rest, true, rest != "" && (rest[0] == ',' || rest[0] == '}')
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", true, false
}
