package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	maxLine   = 16 << 10 // bytes of a line, without its line feed
	maxChunk  = 1000     // lines recorded at once
	lineAhead = 64 << 10 // bytes read ahead, more than maxLine
)

// stream answers a POST of NDJSON with one line for each line, in order, while the request
// continues. It records lines in chunks: those that have arrived, up to maxChunk. It answers a
// chunk before it reads the next. A client must read while it writes; otherwise both sides wait for
// each other.
//
// An empty line is answered, too, with an error. Text after the last line feed is a line unless it
// is only white space. A complete HTTP answer has one line for each line. If the client breaks off
// or stalls, the connection is closed without a complete answer.
func (s userCalls) stream(c echo.Context) error {
	by := callOf(c).by()
	if !s.limits.streams.take(by, 1) {
		return turnAway(c, "streams in progress")
	}
	defer s.limits.streams.give(by, 1)
	conn := newStreamConn(c, s.idle)
	defer conn.release()
	if err := conn.begin(); err != nil {
		return conn.breakOff(err)
	}
	lines := lineReader{bufio.NewReaderSize(conn, lineAhead)}
	for {
		k, err := s.gather(&lines)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return conn.breakOff(fmt.Errorf("read lines: %w: %w", errGone, err))
		}
		if err := s.recordChunk(c, &k); err != nil {
			return conn.breakOff(err)
		}
		answers, err := k.answers()
		if err != nil {
			return conn.breakOff(err)
		}
		if err := conn.send(answers); err != nil {
			return conn.breakOff(err)
		}
	}
}

// chunk is a group of lines of a stream that are recorded together.
type chunk struct {
	results []lineResult
	batch   *activity.Batch // of the valid lines
	lines   []int           // index in results, for each activity
}

// add adds the activity of a line, or err as its result.
func (k *chunk) add(a activity.Activity, err error) {
	if err == nil {
		err = k.batch.Add(a)
	}
	if err != nil {
		k.results = append(k.results, lineResult{problem: describe(err)})
		return
	}
	k.lines = append(k.lines, len(k.results))
	k.results = append(k.results, lineResult{})
}

// gather waits for a line, and adds the other lines that have arrived, up to maxChunk.
func (s userCalls) gather(lines *lineReader) (chunk, error) {
	k := chunk{batch: s.activities.NewBatch()}
	for first := true; first || len(k.results) < maxChunk && lines.ready(); first = false {
		line, err := lines.next()
		var a activity.Activity
		switch {
		case errors.Is(err, errLongLine):
			err = refuse(codeTooLarge, "", "the line is longer than "+strconv.Itoa(maxLine)+" bytes")
		case err != nil:
			return k, err
		default:
			a, err = s.parseLine(line)
		}
		k.add(a, err)
	}
	return k, nil
}

func (s userCalls) parseLine(line []byte) (activity.Activity, error) {
	var l batchLine
	if err := explainJSON(json.Unmarshal(line, &l, s.strict)); err != nil {
		return activity.Activity{}, err
	}
	return l.activity()
}

// recordChunk records the valid lines, and sets their results. It fails only if the stream must
// end.
func (s userCalls) recordChunk(c echo.Context, k *chunk) error {
	if err := s.pace(callOf(c), len(k.results)); err != nil {
		return s.refuseLines(c, k, err)
	}
	if err := s.mayAudit(); err != nil {
		return s.refuseLines(c, k, err)
	}
	ctx, cancel := s.bounded(c.Request().Context())
	defer cancel()
	results, err := s.recordLines(ctx, callOf(c), k.batch)
	if err != nil && c.Request().Context().Err() != nil {
		return fmt.Errorf("record %d lines: %w: %w", len(k.lines), errGone, err)
	}
	if err != nil && describe(err).Code != codeOverloaded {
		s.logError(c, s.faults, "record lines", err)
	}
	for n, i := range k.lines {
		if err != nil {
			k.results[i].problem = describe(err)
		} else {
			k.results[i] = results[n]
		}
	}
	return nil
}

// refuseLines sets err as the result of all valid lines, without recording them.
func (s userCalls) refuseLines(c echo.Context, k *chunk, err error) error {
	if c.Request().Context().Err() != nil {
		return fmt.Errorf("wait to record %d lines: %w: %w", len(k.lines), errGone, err)
	}
	for _, i := range k.lines {
		k.results[i].problem = describe(err)
	}
	return nil
}

// answers returns a line for each line of the chunk.
func (k *chunk) answers() ([]byte, error) {
	var b bytes.Buffer
	for _, r := range k.results {
		if err := json.MarshalWrite(&b, r); err != nil {
			return nil, fmt.Errorf("answer lines: %w", err)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// errLongLine is the error of a line that is too long. The line was skipped.
var errLongLine = errors.New("line too long")

type lineReader struct{ in *bufio.Reader }

// ready reports whether a whole line has arrived.
func (l *lineReader) ready() bool {
	ahead, _ := l.in.Peek(l.in.Buffered()) // cannot fail: these bytes are buffered
	return bytes.IndexByte(ahead, '\n') >= 0
}

// next returns the next line without its line feed, valid until the next call. The error is
// errLongLine for a line that is too long, and io.EOF after the last line.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	long := false
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		line, err = l.in.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	switch {
	case long || len(line) > maxLine:
		return nil, errLongLine
	case err != nil && len(bytes.TrimSpace(line)) == 0:
		return nil, io.EOF
	default:
		return line, nil
	}
}
