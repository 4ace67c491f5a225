package rest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

const (
	// MaxLine is the length of the longest line.
	MaxLine   = 16 << 10 // bytes of a line, without its line feed
	lineAhead = 64 << 10 // bytes read ahead, more than MaxLine
)

// stream answers a POST of NDJSON with one line for each line, in order, while the request
// continues. It records lines in chunks: those that have arrived, up to MaxChunk. It answers a
// chunk before it reads the next. A client must read while it writes; otherwise both sides wait for
// each other.
//
// An empty line is answered, too, with an error. Text after the last line feed is a line unless it
// is only white space. A complete HTTP answer has one line for each line. If the client breaks off
// or stalls, the connection is closed without a complete answer.
func (a *api) stream(k *wire.Call) error {
	conn := wire.NewStreamConn(k, a.limits.Idle)
	defer conn.Release()
	if err := conn.Begin(); err != nil {
		return conn.BreakOff(err)
	}
	lines := lineReader{bufio.NewReaderSize(conn, lineAhead)}
	for {
		chunk, err := a.gather(&lines)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return conn.BreakOff(fmt.Errorf("read lines: %w: %w", wire.ErrGone, err))
		}
		if err := a.operations.RecordChunk(k, chunk); err != nil {
			return conn.BreakOff(err)
		}
		answers, err := answersOf(chunk.Results)
		if err != nil {
			return conn.BreakOff(err)
		}
		if err := conn.Send(answers); err != nil {
			return conn.BreakOff(err)
		}
	}
}

// gather waits for a line, and adds the other lines that have arrived, up to operations.MaxChunk.
func (a *api) gather(lines *lineReader) (*operations.Chunk, error) {
	chunk := a.operations.NewChunk()
	for first := true; first || len(chunk.Results) < operations.MaxChunk && lines.ready(); first = false {
		line, err := lines.next()
		var one activity.Activity
		switch {
		case errors.Is(err, errLongLine):
			err = wire.Refuse(wire.CodeTooLarge, "", "the line is longer than "+strconv.Itoa(MaxLine)+" bytes")
		case err != nil:
			return chunk, err
		default:
			one, err = a.parseLine(line)
		}
		chunk.Add(one, err)
	}
	return chunk, nil
}

func (a *api) parseLine(line []byte) (activity.Activity, error) {
	var l batchLine
	if err := wire.ExplainJSON(json.Unmarshal(line, &l, a.strict)); err != nil {
		return activity.Activity{}, err
	}
	return l.activity()
}

// answersOf returns a line for each result.
func answersOf(results []operations.Result) ([]byte, error) {
	var b bytes.Buffer
	for _, r := range results {
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
	case long || len(line) > MaxLine:
		return nil, errLongLine
	case err != nil && len(bytes.TrimSpace(line)) == 0:
		return nil, io.EOF
	default:
		return line, nil
	}
}
