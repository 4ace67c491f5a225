package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// Formats of a file of activities.
const (
	formatCSV    = "csv"
	formatNDJSON = "ndjson"
)

// What a line does.
const (
	opAdd    = "add"
	opRemove = "remove"
)

// maxRecord is the length of the longest line, in bytes. Two ids of 256 bytes, all
// escaped, take some 4 KiB.
const maxRecord = 64 << 10

// formatOf returns the format that a file's extension stands for, "" if none.
func formatOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return formatCSV
	case ".ndjson", ".jsonl":
		return formatNDJSON
	default:
		return ""
	}
}

// source is an open file of activities.
type source struct {
	name   string
	format string
	file   *os.File
	size   int64  // in bytes; -1: not known
	id     string // of its checkpoint; "": it cannot be read a second time
}

// openSource opens the named file, or standard input for "-". An empty format is
// that of the extension.
func openSource(name, format string, stdin *os.File) (*source, error) {
	if format == "" {
		format = formatOf(name)
	}
	if name == "-" {
		return &source{name: "stdin", format: format, file: stdin, size: -1}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	s := &source{name: name, format: format, file: file, size: -1}
	if err := s.identify(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// identify fills in size and id. A file goes by its path, so that it is still the
// same one when it has grown; that its content is, too, is for its checkpoint to say.
func (s *source) identify() error {
	info, err := s.file.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", s.name)
	case !info.Mode().IsRegular():
		return nil
	}
	path, err := filepath.Abs(s.name)
	if err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	s.size, s.id = info.Size(), "import "+path
	return nil
}

func (s *source) close() { _ = s.file.Close() } // it was only read

// lineError is a line that is no activity.
type lineError struct {
	file string
	line int64
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.file, e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// reader reads activities from a source. It knows at which byte and line of the file
// it stands, and the hash of all before.
type reader struct {
	name  string
	in    *bufio.Reader
	parse func(line []byte) (record, error)
	kinds *activity.Kinds

	pos position
	sum hash.Hash // SHA-256 up to pos

	pending int  // length of what peek found, or its first part
	partial bool // the rest of its line, too long for the buffer, belongs to it
	whole   bool // pos is at the end of a line, not in one that was cut off

	csv     csvLines
	columns []string // of a CSV file, once its first record is read
}

// newReader returns a reader that stands at c, or at the file's start if c is zero.
func newReader(ctx context.Context, s *source, kinds *activity.Kinds, c checkpoint) (*reader, error) {
	sum, err := c.pass(ctx, s.file, s.format)
	if err != nil {
		return nil, err
	}
	r := &reader{
		name:    s.name,
		in:      bufio.NewReaderSize(s.file, maxRecord),
		kinds:   kinds,
		pos:     c.Position,
		sum:     sum,
		csv:     newCSVLines(),
		columns: c.Columns,
		whole:   true,
	}
	r.parse = r.parseJSON
	if s.format == formatCSV {
		r.parse = r.parseCSV
	}
	r.pos.Line = max(r.pos.Line, 1)
	return r, nil
}

// record is what the formats have in common.
type record struct {
	User   string `json:"user"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Op     string `json:"op"`
	Since  string `json:"since"`
	Until  string `json:"until"`
}

var (
	errBlank  = errors.New("nothing but white space, or the header")
	errTooBig = fmt.Errorf("the line is longer than %d bytes", maxRecord-1)
)

// peek returns the activity that follows. The reader stays where it is; accept moves
// it on. The error is a [*lineError] if there is something else, io.EOF at the end of the file.
func (r *reader) peek() (activity.Activity, error) {
	for {
		line, err := r.line()
		if err != nil {
			return activity.Activity{}, err
		}
		r.pending = len(line)
		r.partial = len(line) == maxRecord && line[len(line)-1] != '\n'
		a, err := r.activity(line)
		switch {
		case errors.Is(err, errBlank):
			r.accept()
		case err != nil:
			return activity.Activity{}, &lineError{r.name, r.pos.Line, err}
		default:
			return a, nil
		}
	}
}

func (r *reader) activity(line []byte) (activity.Activity, error) {
	if r.partial {
		return activity.Activity{}, errTooBig
	}
	if r.pos.Offset == 0 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return activity.Activity{}, errBlank
	}
	rec, err := r.parse(line)
	if err != nil {
		return activity.Activity{}, err
	}
	a := activity.Activity{User: rec.User, Kind: rec.Kind, Target: rec.Target, Remove: rec.Op == opRemove}
	if rec.Op != opAdd && rec.Op != opRemove {
		return a, fmt.Errorf("op: %q is neither add nor remove", rec.Op)
	}
	if a.Since, a.Until, err = rec.times(time.Now()); err != nil {
		return a, err
	}
	return a, r.kinds.Check(a)
}

// accept moves the reader past what peek found.
func (r *reader) accept() {
	for {
		part, _ := r.in.Peek(r.pending) // it was there before
		r.sum.Write(part)
		r.pos.Offset += int64(len(part))
		r.pos.Line += int64(bytes.Count(part, []byte{'\n'}))
		r.whole = bytes.HasSuffix(part, []byte{'\n'})
		_, _ = r.in.Discard(len(part))
		if !r.partial || r.whole {
			return
		}
		line, err := r.line()
		if err != nil {
			return // the next peek meets it again
		}
		r.pending = len(line)
	}
}

// line returns what follows up to the end of the line and with it, or maxRecord bytes
// of that. It is valid until the next call.
func (r *reader) line() ([]byte, error) {
	searched := 0
	for {
		there, _ := r.in.Peek(r.in.Buffered())
		if i := bytes.IndexByte(there[searched:], '\n'); i >= 0 {
			return there[:searched+i+1], nil
		}
		searched = len(there)
		if searched == maxRecord {
			return there, nil
		}
		if _, err := r.in.Peek(searched + 1); err != nil {
			if there, _ = r.in.Peek(searched); errors.Is(err, io.EOF) && searched > 0 {
				return there, nil
			}
			return nil, err
		}
	}
}

// batch is what is recorded at a time, with the place where it ends.
type batch struct {
	activities []activity.Activity
	bad        []error  // lines that are no activities
	end        position // of the file, after the batch
	sum        []byte   // SHA-256 of the file up to end; nil: not the end of a line
	columns    []string // of a CSV file
	last       bool     // nothing follows
	err        error    // why nothing follows, if it is not the end of the file

	prepared *activity.PreparedBulk // of the activities
	failure  error                  // why they could not be prepared
	ended    int                    // lines left out of activities: they were over
}

// batches sends what r reads to out, prepared, in batches of size lines, until ctx ends. With
// stop the first bad line ends the last batch, which ends before it.
func (r *reader) batches(ctx context.Context, size int, stop bool, prepare func(*batch), out chan<- batch) {
	for last := false; !last; {
		b := r.batch(size, stop)
		prepare(&b)
		last = b.last
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
	}
}

func (r *reader) batch(size int, stop bool) batch {
	var b batch
	for !b.last && len(b.activities)+len(b.bad) < size {
		a, err := r.peek()
		var bad *lineError
		switch {
		case err == nil:
			b.activities = append(b.activities, a)
			r.accept()
		case errors.Is(err, io.EOF):
			b.last = true
		case errors.As(err, &bad) && !stop:
			b.bad = append(b.bad, bad)
			r.accept()
		case errors.As(err, &bad):
			b.bad = append(b.bad, bad)
			b.last, b.err = true, fmt.Errorf("stopped at line %d", bad.line)
		default:
			b.last, b.err = true, err
		}
	}
	b.end, b.columns = r.pos, r.columns
	if r.whole {
		b.sum = r.sum.Sum(nil)
	}
	return b
}
