package activityfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
)

// parseJSON parses one line of NDJSON.
func (r *Reader) parseJSON(line []byte) (activity.Activity, error) {
	rec := record{Op: Add}
	if err := json.Unmarshal(line, &rec, json.RejectUnknownMembers(true)); err != nil {
		return activity.Activity{}, jsonProblem(err)
	}
	return r.check(rec)
}

// jsonProblem converts an error of Go's JSON package into words about JSON.
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

// columnNames returns the columns of a CSV file with a header. Those after the third are optional.
// A file without a header has the first four, in this order.
func columnNames() []string { return []string{"user", "kind", target, "op", "since", "until"} }

// target is the column of the id that an activity points at.
const target = "target"

// parseCSV parses one line of CSV. The first line is a header unless it is an activity. If a later
// line names other columns, two files were joined, and the order of columns is unknown from there.
//
// A header of other names may be a valid activity: "followee,block,follower" says that a followee
// blocks a follower. All lines after it would be read the wrong way round. So the first line of a
// file without a header is refused if both ids look like names of columns.
func (r *Reader) parseCSV(line []byte) (activity.Activity, error) {
	fields, err := r.csv.split(line)
	first := r.columns == nil
	if first && err == nil && slices.ContainsFunc(fields, namesColumn) {
		names, err := header(fields)
		if err != nil {
			return activity.Activity{}, fatalError{err}
		}
		r.columns = names
		return activity.Activity{}, errBlank
	}
	columns := r.columns
	if first {
		columns = columnNames()[:4]
	}
	var a activity.Activity
	if err == nil {
		a, err = r.row(columns, fields)
	}
	switch {
	case err == nil && first && isWords(a.User) && isWords(a.Target):
		err = fatalError{fmt.Errorf("%q may be a header of other names, or an activity: "+
			"begin the file with a header, %s", fields, wantHeader())}
	case err == nil:
		r.columns = columns
	case first && len(fields) == 1 && strings.ContainsAny(fields[0], ";\t|"):
		err = fatalError{errors.New(
			"no commas: columns must be separated by commas, not by semicolons, tabs or bars",
		)}
	case first:
		err = fatalError{fmt.Errorf("neither a header, %s, nor an activity: %w", wantHeader(), err)}
	case slices.ContainsFunc(fields, namesColumn):
		names, wrong := header(fields)
		if wrong == nil && slices.Equal(names, r.columns) {
			return a, errBlank
		}
		err = fatalError{fmt.Errorf("a second header, %q, after columns %s: import each file by itself",
			fields, strings.Join(r.columns, ","))}
	}
	return a, err
}

// row returns the activity of a record with these columns.
func (r *Reader) row(columns, fields []string) (activity.Activity, error) {
	optional := columns[len(columns)-1] == "op"
	if n := len(fields); n != len(columns) && (!optional || n != len(columns)-1) {
		return activity.Activity{}, fmt.Errorf("%d fields, want %s", n, strings.Join(columns, ","))
	}
	rec := record{}
	for i, field := range fields {
		*rec.column(columns[i]) = field
	}
	if rec.Op == "" {
		rec.Op = Add
	}
	return r.check(rec)
}

func (rec *record) column(name string) *string {
	switch name {
	case "user":
		return &rec.User
	case "kind":
		return &rec.Kind
	case target:
		return &rec.Target
	case "since":
		return &rec.Since
	case "until":
		return &rec.Until
	default:
		return &rec.Op
	}
}

// columnName returns the field of a header as a name of columnNames, if it is one. Programs write
// names in any case, and with white space around them.
func columnName(field string) string { return strings.ToLower(strings.TrimSpace(field)) }

func namesColumn(field string) bool { return slices.Contains(columnNames(), columnName(field)) }

// isWords reports whether an id may be the name of a column: letters, and what joins words.
func isWords(id string) bool {
	return !strings.ContainsFunc(id, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsMark(c) && !strings.ContainsRune(" _-./", c)
	})
}

func wantHeader() string {
	names := columnNames()
	required, optional := strings.Join(names[:3], ","), strings.Join(names[3:], ",")
	return fmt.Sprintf("with %s, and optionally %s", required, optional)
}

// header returns the names of a header: distinct columns, in any order, that include the first
// three.
func header(fields []string) ([]string, error) {
	names, err := columnsOf(fields)
	if err != nil {
		return nil, fmt.Errorf("%w: want one %s", err, wantHeader())
	}
	for _, name := range columnNames()[:3] {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("header: missing column %q: want one %s", name, wantHeader())
		}
	}
	return names, nil
}

// columnsOf returns the names of distinct columns, in any order.
func columnsOf(fields []string) ([]string, error) {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = columnName(field)
		switch {
		case !namesColumn(field):
			return nil, fmt.Errorf("header: unknown column %q", field)
		case slices.Contains(names[:i], names[i]):
			return nil, fmt.Errorf("header: duplicate column %q", field)
		}
	}
	return names, nil
}

// csvLines splits CSV records. Each record is one line. A quoted field with a line break is not
// allowed, because ids have none.
type csvLines struct {
	text    *bytes.Reader
	records *csv.Reader
}

func newCSVLines() csvLines {
	text := bytes.NewReader(nil)
	records := csv.NewReader(text)
	records.FieldsPerRecord = -1 // checked against the header
	records.ReuseRecord = true
	return csvLines{text, records}
}

// split returns the fields of a line, valid until the next call.
func (c csvLines) split(line []byte) ([]string, error) {
	c.text.Reset(line)
	fields, err := c.records.Read()
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, bad.Err // without its position, which is relative to the line
	}
	return fields, err
}

// maxAhead is how far in the future a line's since may be, because clocks differ.
const maxAhead = 10 * time.Minute

func parseTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%s: %q is not a time such as 2027-01-01T00:00:00Z", name, text)
	}
	if at = at.UTC(); at.Year() < 2 || at.Year() > 9999 {
		return at, fmt.Errorf("%s: %q is not in the years 2 to 9999", name, text)
	}
	return at, nil
}

// Line returns the activity as a line of NDJSON for a [Reader]. It leaves out a zero Since or
// Until.
func Line(a activity.Activity) ([]byte, error) {
	op := Add
	if a.Remove {
		op = Remove
	}
	r := record{a.User, a.Kind, a.Target, op, timeText(a.Since), timeText(a.Until)}
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

func timeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
