package activityfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
)

// parseJSON parses one line of NDJSON.
func (*Reader) parseJSON(line []byte) (record, error) {
	rec := record{Op: Add}
	err := json.Unmarshal(line, &rec, json.RejectUnknownMembers(true))
	return rec, jsonProblem(err)
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
func columnNames() []string { return []string{"user", "kind", "target", "op", "since", "until"} }

// parseCSV parses one line of CSV.
func (r *Reader) parseCSV(line []byte) (record, error) {
	fields, err := r.csv.split(line)
	if r.columns == nil {
		r.columns = columnNames()[:4]
		if err == nil && isHeader(fields) {
			r.columns = slices.Clone(fields)
			return record{}, errBlank
		}
	}
	if err != nil {
		return record{}, err
	}
	optional := r.columns[len(r.columns)-1] == "op"
	if n := len(fields); n != len(r.columns) && (!optional || n != len(r.columns)-1) {
		return record{}, fmt.Errorf("%d fields, want %s", n, strings.Join(r.columns, ","))
	}
	rec := record{}
	for i, field := range fields {
		*rec.column(r.columns[i]) = field
	}
	if rec.Op == "" {
		rec.Op = Add
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
	case "since":
		return &rec.Since
	case "until":
		return &rec.Until
	default:
		return &rec.Op
	}
}

// isHeader reports whether fields are distinct column names, in any order, that include the first
// three.
func isHeader(fields []string) bool {
	names := columnNames()
	required := 0
	for i, field := range fields {
		at := slices.Index(names, field)
		if at < 0 || slices.Contains(fields[:i], field) {
			return false
		}
		if at < 3 {
			required++
		}
	}
	return required == 3
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

// times returns the line's since and until, zero if it has none. An until in the past is valid: the
// line may come from an older export.
func (rec *record) times(now time.Time) (since, until time.Time, err error) {
	if since, err = parseTime("since", rec.Since); err != nil {
		return since, until, err
	}
	if since.After(now.Add(maxAhead)) {
		return since, until, fmt.Errorf("since: %q is in the future", rec.Since)
	}
	until, err = parseTime("until", rec.Until)
	return since, until, err
}

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
	line, err := json.Marshal(struct {
		User   string    `json:"user"`
		Kind   string    `json:"kind"`
		Target string    `json:"target"`
		Op     string    `json:"op"`
		Since  time.Time `json:"since,omitzero"`
		Until  time.Time `json:"until,omitzero"`
	}{a.User, a.Kind, a.Target, op, a.Since.UTC(), a.Until.UTC()})
	return append(line, '\n'), err
}
