package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// parseJSON reads one line of NDJSON.
func (*reader) parseJSON(line []byte) (record, error) {
	rec := record{Op: "add"}
	err := json.Unmarshal(line, &rec, json.RejectUnknownMembers(true))
	return rec, jsonProblem(err)
}

// jsonProblem puts what is wrong with a line in the words of JSON, not of Go.
func jsonProblem(err error) error {
	var wrong *json.SemanticError
	var invalid *jsontext.SyntacticError
	switch {
	case errors.As(err, &wrong) && errors.Is(wrong.Err, json.ErrUnknownName):
		return fmt.Errorf("unknown field %q", wrong.JSONPointer.LastToken())
	case errors.As(err, &wrong) && wrong.JSONPointer == "":
		return errors.New("not a JSON object")
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: not a string", wrong.JSONPointer.LastToken())
	case errors.As(err, &invalid) && errors.Is(invalid.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("duplicate field %q", invalid.JSONPointer.LastToken())
	case errors.As(err, &invalid):
		return fmt.Errorf("not JSON: %w, at byte %d", invalid.Err, invalid.ByteOffset+1)
	default:
		return err
	}
}

// columnNames are the columns of a CSV file without a header, in order. The last one
// may be missing.
func columnNames() []string { return []string{"user", "kind", "target", "op"} }

// parseCSV reads one CSV record. Usually it is the line; one that goes on in quotes
// may be longer.
func (r *reader) parseCSV(line []byte) (record, error) {
	fields, _, err := splitRecord(line)
	if errors.Is(err, errUnclosed) {
		fields, err = r.longRecord(len(line), err)
	}
	if r.columns == nil {
		r.columns = columnNames()
		if err == nil && isHeader(fields) {
			r.columns = fields
			return record{}, errBlank
		}
	}
	if err != nil {
		return record{}, err
	}
	optional := r.columns[len(r.columns)-1] == "op"
	if n := len(fields); n != len(r.columns) && (!optional || n != len(r.columns)-1) {
		return record{}, fmt.Errorf("%d fields, where %s are expected", n, strings.Join(r.columns, ","))
	}
	rec := record{}
	for i, field := range fields {
		*rec.column(r.columns[i]) = field
	}
	if rec.Op == "" {
		rec.Op = "add"
	}
	return rec, nil
}

func (rec *record) column(name string) *string {
	switch name {
	case "user":
		return &rec.User
	case "kind":
		return &rec.Kind
	case "target":
		return &rec.Target
	default:
		return &rec.Op
	}
}

// isHeader reports whether fields are the names of columns: the first three, each
// once, in any order, with or without the last.
func isHeader(fields []string) bool {
	names := columnNames()
	sorted := slices.Sorted(slices.Values(fields))
	return slices.Equal(sorted, slices.Sorted(slices.Values(names))) ||
		slices.Equal(sorted, slices.Sorted(slices.Values(names[:3])))
}

// longRecord reads a record whose first line ends within quotes. It can be no activity,
// since ids have no line breaks, but has to be told from the records after it. Where no
// record can be made out, the first line is taken to be it: a quote too many then
// costs one line.
func (r *reader) longRecord(first int, unclosed error) ([]string, error) {
	window, _ := r.in.Peek(maxRecord) // less at the end of the file
	fields, n, err := splitRecord(window)
	if err != nil || n == maxRecord {
		r.pending = first
		return nil, unclosed
	}
	r.pending = n
	return fields, nil
}

var errUnclosed = errors.New("a quoted field has no end")

// splitRecord splits the CSV record that text begins with into its fields, as RFC 4180
// has them, and returns its length with the end of the line. The end of text ends
// it too.
func splitRecord(text []byte) (fields []string, n int, err error) {
	for {
		field, length, err := splitField(text[n:])
		if err != nil {
			return nil, 0, fmt.Errorf("field %d: %w", len(fields)+1, err)
		}
		fields = append(fields, field)
		n += length
		switch {
		case n == len(text):
			return fields, n, nil
		case text[n] == '\n':
			return fields, n + 1, nil
		case text[n] != ',':
			return fields, min(n+2, len(text)), nil // the \r of a \r\n or of the end
		}
		n++
	}
}

// splitField returns the field that text begins with and the length it takes: what
// follows is a comma, the end of the line, or nothing.
func splitField(text []byte) (field string, n int, err error) {
	if !bytes.HasPrefix(text, []byte{'"'}) {
		n = bytes.IndexAny(text, ",\n")
		if n < 0 {
			n = len(text)
		}
		if n == len(text) || text[n] == '\n' {
			n = len(bytes.TrimSuffix(text[:n], []byte{'\r'}))
		}
		if bytes.IndexByte(text[:n], '"') >= 0 {
			return "", 0, errors.New("a quote within an unquoted field")
		}
		return string(text[:n]), n, nil
	}
	var value []byte
	for n = 1; ; n++ {
		end := bytes.IndexByte(text[n:], '"')
		if end < 0 {
			return "", 0, errUnclosed
		}
		value = append(value, text[n:n+end]...)
		n += end + 1
		if n == len(text) || text[n] != '"' {
			break
		}
		value = append(value, '"')
	}
	if rest := text[n:]; len(rest) > 0 && rest[0] != ',' && rest[0] != '\n' &&
		!bytes.Equal(rest, []byte{'\r'}) && !bytes.HasPrefix(rest, []byte("\r\n")) {
		return "", 0, errors.New("text after the closing quote")
	}
	return string(value), n, nil
}
