package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// file is a JSON object: its names are those of flags, its values text, numbers, true or false, and for flags that may be given
// several times lists of them. It may hold flags of other commands too, so that one file does for all.
type file struct {
	name   string
	values map[string]jsontext.Value
}

// readFile notes what the file has that no command knows. It is nil if it cannot be read.
func readFile(name, source string, app *kong.Application, m *mistakes) *file {
	text, err := os.ReadFile(name)
	if err != nil {
		if wrong, ok := errors.AsType[*fs.PathError](err); ok {
			err = wrong.Err
		}
		m.add(FileFlag, source, fmt.Sprintf(": read %s: %v", name, err))
		return nil
	}
	f := &file{name: name}
	if err := json.Unmarshal(text, &f.values); err != nil {
		m.add("", name, ": "+jsonProblem(text, err))
		return nil
	}
	known := make(map[string]bool)
	for _, flag := range allFlags(app.Node) {
		if flag.Name != FileFlag && flag != app.HelpFlag {
			known[flag.Name] = true
		}
	}
	names := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if !known[name] {
			m.add("", f.name, fmt.Sprintf(": unknown setting %q%s", name,
				suggestion(name, names, func(near string) string { return fmt.Sprintf("%q", near) })))
		}
	}
	return f
}

// jsonProblem says what is wrong with the text of a file, and where.
func jsonProblem(text []byte, err error) string {
	invalid, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return `not of the form {"<flag>": <value>, ...}`
	}
	line := 1 + bytes.Count(text[:min(int(invalid.ByteOffset), len(text))], []byte{'\n'})
	if errors.Is(invalid, jsontext.ErrDuplicateName) {
		return fmt.Sprintf("line %d: %q is there twice (duplicate name)", line, invalid.JSONPointer.LastToken())
	}
	return fmt.Sprintf("line %d: not JSON: %v", line, invalid.Err)
}

// value returns what the file sets the flag to, as kong takes it; nil if it does not.
func (f *file) value(flag *kong.Flag) (any, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // nothing is an answer
	}
	value, ok := f.values[flag.Name]
	if !ok {
		return nil, nil //nolint:nilnil // nothing is an answer
	}
	if value.Kind() != '[' || !flag.IsSlice() {
		return settingText(value)
	}
	var elements []jsontext.Value
	if err := json.Unmarshal(value, &elements); err != nil {
		return nil, err
	}
	texts := make([]any, len(elements))
	for i, element := range elements {
		text, err := settingText(element)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}

// settingText returns the value as it would stand on the command line.
func settingText(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case '0', 't', 'f':
		return value.String(), nil
	default:
		return "", errors.New("neither text, a number, true nor false") // a password may be in it
	}
}
