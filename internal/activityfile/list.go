package activityfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/activity"
)

// List is what all activities of a list share.
type List struct {
	User string
	Kind activity.Kind
}

// ReadList reads the file as a list: what its user has of its kind. It calls each for every
// activity, in order. It ends with a [*LineError] at the first line that is not valid, or for which
// each returns an error.
//
// Formats are:
//
//   - CSV: a header with the column target may also have the other columns of a file of activities.
//     One with the column domain, #domain or "Account address", as Mastodon writes them, may have
//     any others, which have no effect. Without a header there is one column, of ids. In a column
//     of phrases only target is a header: domain may be a phrase.
//   - Text: an id a line. A line that is # or begins with "# " is a comment. If ids are domains, so
//     is each line that begins with #.
//   - NDJSON: as in a file of activities, but only target is required.
//
// In CSV and Text, white space around an id does not count.
func ReadList(f *File, list List, each func(activity.Activity) error) error {
	fold := list.Kind.Fold
	r := &listReader{
		List:  list,
		file:  f,
		in:    bufio.NewReaderSize(f.file, maxRecord),
		each:  each,
		hosts: fold == activity.FoldHost || fold == activity.FoldDomain,
	}
	if err := r.begin(); err != nil {
		return r.at(1, err)
	}
	if f.Format == CSV {
		return r.readCSV()
	}
	return r.readLines()
}

type listReader struct {
	List

	file  *File
	in    *bufio.Reader
	each  func(activity.Activity) error
	hosts bool // ids are domains

	// columns of a CSV file: what each field is; "" for one without effect. Nil before the first
	// record.
	columns []string
	header  []string // nil: there is none
}

func (r *listReader) at(line int64, err error) error {
	return &LineError{File: r.file.Name, Line: line, Err: err, Fatal: true}
}

// begin looks at the start of the file, and skips a byte order mark. A failed download is often a
// page of HTML or a JSON error, each line of which could be an id.
func (r *listReader) begin() error {
	start, err := r.in.Peek(maxRecord)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	line, _, _ := bytes.Cut(start, []byte{'\n'})
	if !utf8.Valid(line) && len(line) < maxRecord || bytes.IndexByte(start, 0) >= 0 {
		return errEncoding
	}
	const mark = "\ufeff"
	if bytes.HasPrefix(start, []byte(mark)) {
		_, _ = r.in.Discard(len(mark)) // it is buffered
		start = start[len(mark):]
	}
	switch start = bytes.TrimSpace(start); {
	case bytes.HasPrefix(start, []byte{'<'}):
		return errors.New("the file is HTML or XML, and no list")
	case bytes.HasPrefix(start, []byte{'{'}) && r.file.Format != NDJSON:
		return errors.New("the file is JSON: give --format ndjson, if each line is an activity")
	default:
		return nil
	}
}

// readLines reads a file in which each line is an activity.
func (r *listReader) readLines() error {
	lines, number := bufio.NewScanner(r.in), int64(1)
	lines.Buffer(nil, maxRecord)
	for ; lines.Scan(); number++ {
		rec, err := r.line(bytes.TrimSpace(lines.Bytes()))
		if err == nil {
			err = r.take(rec)
		}
		if err != nil && !errors.Is(err, errBlank) {
			return r.at(number, err)
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = r.at(number, errTooBig)
	}
	return err
}

// line returns the record of a line without the white space around it.
func (r *listReader) line(line []byte) (record, error) {
	rec := record{User: r.User, Kind: r.Kind.Name, Op: Add}
	switch {
	case len(line) == 0:
		return rec, errBlank
	case r.file.Format == NDJSON:
		if err := json.Unmarshal(line, &rec, json.RejectUnknownMembers(true)); err != nil {
			return rec, jsonProblem(err)
		}
		return rec, nil
	case len(line) == 1 && line[0] == '#', bytes.HasPrefix(line, []byte("# ")),
		r.hosts && line[0] == '#':
		return rec, errBlank
	default:
		rec.Target = string(line)
		return rec, r.checkHost(rec.Target)
	}
}

// readCSV reads records of CSV. One may have several lines: comments on domains have line breaks.
func (r *listReader) readCSV() error {
	in := csv.NewReader(r.in)
	in.FieldsPerRecord = -1 // row compares it with the header
	in.ReuseRecord = true
	for {
		fields, err := in.Read()
		bad, invalid := errors.AsType[*csv.ParseError](err)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case invalid:
			return r.at(int64(bad.StartLine), bad.Err)
		case err != nil:
			return err
		}
		rec, err := r.row(fields)
		if err == nil {
			err = r.take(rec)
		}
		if err != nil && !errors.Is(err, errBlank) {
			line, _ := in.FieldPos(0)
			return r.at(int64(line), err)
		}
	}
}

// row returns the record of a row of CSV.
func (r *listReader) row(fields []string) (record, error) {
	rec := record{User: r.User, Kind: r.Kind.Name}
	if len(fields) == 1 && strings.TrimSpace(fields[0]) == "" {
		return rec, errBlank
	}
	if r.columns == nil {
		columns, found, err := listColumns(fields, r.Kind.InText())
		if err != nil {
			return rec, err
		}
		if r.columns = columns; found {
			r.header = slices.Clone(fields)
		}
	}
	if r.header != nil && slices.Equal(fields, r.header) { // files that are joined repeat it
		return rec, errBlank
	}
	if len(fields) != len(r.columns) {
		return rec, fmt.Errorf("%d fields, want %d", len(fields), len(r.columns))
	}
	for i, name := range r.columns {
		if name != "" {
			*rec.column(name) = strings.TrimSpace(fields[i])
		}
	}
	if rec.Op == "" {
		rec.Op = Add
	}
	return rec, r.checkHost(rec.Target)
}

// listColumns returns what each field of the first record is: see [listReader]. It reports whether
// that record is a header. A column of ids is called as in files of activities, in Mastodon's
// exports of domains, with or without #, or in those of accounts.
func listColumns(fields []string, phrases bool) (columns []string, header bool, err error) {
	names := []string{target}
	if !phrases || len(fields) > 1 {
		names = append(names, "domain", "#domain", "account address")
	}
	columns = make([]string, len(fields))
	found, ours := 0, false
	for i, field := range fields {
		if slices.Contains(names, columnName(field)) {
			columns[i] = target
			found++
			ours = ours || columnName(field) == target
		}
	}
	switch {
	case found == 0 && len(fields) == 1:
		return []string{target}, false, nil
	case found != 1:
		return nil, false, fmt.Errorf("%d columns, and %d of ids: "+
			"want a header with one column target, domain or Account address", len(fields), found)
	case ours:
		columns, err = columnsOf(fields)
	}
	return columns, true, err
}

// checkHost returns an error if ids are domains and this one cannot be one. It finds the text of an
// error in place of a list.
func (r *listReader) checkHost(id string) error {
	if r.hosts && strings.ContainsAny(id, " \t") {
		return fmt.Errorf("target: %.300q is no domain", id)
	}
	return nil
}

// take passes on the activity of a record, which must be one of the list.
func (r *listReader) take(rec record) error {
	switch {
	case rec.User != r.User:
		return fmt.Errorf("user: %.300q is not %.300q, whose list it is", rec.User, r.User)
	case rec.Kind != r.Kind.Name && rec.Kind != r.Kind.Plural:
		return fmt.Errorf("kind: %.300q is not %s, the kind of the list", rec.Kind, r.Kind.Name)
	case rec.Op == Remove:
		return errors.New("op: remove is not for a list, which says what there is")
	}
	a, err := rec.activity()
	if err != nil {
		return err
	}
	a.Kind = r.Kind.Name
	return r.each(a)
}
