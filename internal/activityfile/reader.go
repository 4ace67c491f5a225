package activityfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity"
)

// Values of op.
const (
	Add    = "add"
	Remove = "remove"
)

// maxRecord is the limit of the length of a line, in bytes. Two escaped ids of 256 bytes take about
// 4 KiB.
const maxRecord = 64 << 10

// LineError means that a line is not a valid activity.
type LineError struct {
	File string
	Line int64
	Err  error

	Fatal bool // the file, or the rest of it, cannot be read as activities: it cannot be skipped
}

// Error names the file and the line.
func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// fatalError is the error of a line that makes a LineError Fatal.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Reader reads activities from a File. It tracks its position in the file, and the hash of
// everything before it.
type Reader struct {
	name   string
	format string
	in     *bufio.Reader
	valid  func(activity.Activity) error

	pos Position
	sum hash.Hash // SHA-256 up to pos

	pending int  // length of the line that peek found, or of its first part
	partial bool // the line is longer than this part
	whole   bool // pos is at the end of a complete line

	csv     csvLines
	columns []string // of a CSV file, once its first record is read
}

// NewReader returns a reader at checkpoint c, or at the start of the file if c is zero. valid is
// called once for each line of the right form, in order. The line is invalid if valid returns an
// error for its activity.
func NewReader(f *File, valid func(activity.Activity) error, c Checkpoint) (*Reader, error) {
	sum, err := c.pass(f.file, f.Format)
	if err != nil {
		return nil, err
	}
	r := &Reader{
		name:    f.Name,
		format:  f.Format,
		in:      bufio.NewReaderSize(f.file, maxRecord),
		valid:   valid,
		pos:     c.Position,
		sum:     sum,
		csv:     newCSVLines(),
		columns: c.Columns,
		whole:   true,
	}
	r.pos.Line = max(r.pos.Line, 1)
	return r, nil
}

// record is a line of either format.
type record struct {
	User   string `json:"user"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Op     string `json:"op"`
	Since  string `json:"since,omitzero"`
	Until  string `json:"until,omitzero"`
}

var (
	errBlank    = errors.New("only white space, or the header")
	errEncoding = errors.New("the file is not plain text in UTF-8: unpack it, or convert it")
	errTooBig   = fmt.Errorf("the line is longer than %d bytes", maxRecord-1)
)

// peek returns the next activity without moving the reader; accept moves it. The error is a
// [*LineError] if the next line is not a valid activity, and io.EOF at the end of the file.
func (r *Reader) peek() (activity.Activity, error) {
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
			_, fatal := errors.AsType[fatalError](err)
			return activity.Activity{}, &LineError{r.name, r.pos.Line, err, fatal}
		default:
			return a, nil
		}
	}
}

func (r *Reader) activity(line []byte) (activity.Activity, error) {
	if r.pos.Offset == 0 {
		// UTF-16 and packed files, spreadsheets among them, have zero bytes or invalid UTF-8.
		if !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
			return activity.Activity{}, fatalError{errEncoding}
		}
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	switch {
	case r.partial && r.format == CSV && r.columns == nil:
		return activity.Activity{}, fatalError{errTooBig}
	case r.partial:
		return activity.Activity{}, errTooBig
	case len(bytes.TrimSpace(line)) == 0:
		return activity.Activity{}, errBlank
	case r.format == CSV:
		return r.parseCSV(line)
	default:
		return r.parseJSON(line)
	}
}

// check returns the activity of a line, if it is valid.
func (r *Reader) check(rec record) (activity.Activity, error) {
	a, err := rec.activity()
	if err != nil {
		return a, err
	}
	return a, r.valid(a)
}

// activity returns the activity of a record. An until in the past is valid: the line may come from
// an older export.
func (rec *record) activity() (activity.Activity, error) {
	a := activity.Activity{
		User:   rec.User,
		Kind:   rec.Kind,
		Target: rec.Target,
		Remove: rec.Op == Remove,
	}
	if rec.Op != Add && rec.Op != Remove {
		return a, fmt.Errorf("op: %q is neither add nor remove", rec.Op)
	}
	var err error
	if a.Since, err = parseTime("since", rec.Since); err != nil {
		return a, err
	}
	if a.Since.After(time.Now().Add(maxAhead)) {
		return a, fmt.Errorf("since: %q is in the future", rec.Since)
	}
	a.Until, err = parseTime("until", rec.Until)
	return a, err
}

// accept moves the reader past the line that peek found.
func (r *Reader) accept() {
	for {
		part, _ := r.in.Peek(r.pending) // buffered by Peek
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
			return // the next peek returns the error
		}
		r.pending = len(line)
	}
}

// line returns the rest of the line with its line break, or its first maxRecord bytes. The result
// is valid until the next call.
func (r *Reader) line() ([]byte, error) {
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

// Position returns the position of the reader.
func (r *Reader) Position() Position { return r.pos }

// Batch is a number of lines, and the position where they end.
type Batch struct {
	Activities []activity.Activity
	Bad        []error  // a [*LineError] for each invalid line
	End        Position // after the batch
	SHA256     []byte   // of the file up to End; nil: End is not the end of a line
	Columns    []string // of a CSV file
	Last       bool     // whether this is the last batch
	Err        error    // why it is the last; nil: the file has ended
}

// Batch reads at most size lines. With stop, the first invalid line ends the batch; a Fatal one
// always does. The batch is then the last one, and ends before that line.
func (r *Reader) Batch(size int, stop bool) Batch {
	var b Batch
	for !b.Last && len(b.Activities)+len(b.Bad) < size {
		a, err := r.peek()
		var bad *LineError
		switch {
		case err == nil:
			b.Activities = append(b.Activities, a)
			r.accept()
		case errors.Is(err, io.EOF):
			b.Last = true
		case errors.As(err, &bad) && !stop && !bad.Fatal:
			b.Bad = append(b.Bad, bad)
			r.accept()
		case errors.As(err, &bad):
			b.Bad = append(b.Bad, bad)
			b.Last, b.Err = true, fmt.Errorf("stopped at line %d", bad.Line)
		default:
			b.Last, b.Err = true, err
		}
	}
	b.End, b.Columns = r.pos, r.columns
	if r.whole {
		b.SHA256 = r.sum.Sum(nil)
	}
	return b
}
