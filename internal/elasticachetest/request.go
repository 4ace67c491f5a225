package elasticachetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	headArgs  = 3  // arguments that are read before a command is passed on
	shortArg  = 64 // maximum bytes of such an argument
	maxCount  = 1 << 20
	maxLength = 512 << 20
)

// errProtocol is wrapped by errors for input that is not a command.
var errProtocol = errors.New("protocol error")

// request is the beginning of a command.
type request struct {
	count int      // number of arguments, with the name
	head  [][]byte // the first arguments
	next  int      // length of the unread argument after head; -1: not known yet
}

// arg returns an argument, "" if it was not read.
func (q request) arg(i int) string {
	if i < len(q.head) {
		return string(q.head[i])
	}
	return ""
}

// length returns the length of an argument, if it is known.
func (q request) length(i int) int {
	switch {
	case i < len(q.head):
		return len(q.head[i])
	case i == len(q.head):
		return max(0, q.next)
	default:
		return 0
	}
}

// requests reads the commands of a client: for each, begin and then rest.
type requests struct{ r *bufio.Reader }

// begin reads the first arguments of the next command if they are short, or a script. io.EOF means
// that there is no further command.
func (in requests) begin() (request, error) {
	q := request{next: -1}
	for q.count <= 0 { // "*0" and "*-1" are empty
		if _, err := in.r.Peek(1); err != nil {
			return q, err
		}
		n, err := in.number('*', maxCount)
		if err != nil {
			return q, notEOF(err)
		}
		q.count = n
	}
	for len(q.head) < min(headArgs, q.count) {
		n, err := in.number('$', maxLength)
		if err != nil {
			return q, notEOF(err)
		}
		if n < 0 {
			return q, fmt.Errorf("%w: an argument of %d bytes", errProtocol, n)
		}
		q.next = n
		if n > in.limit(q) {
			return q, nil
		}
		arg := make([]byte, n)
		if _, err := io.ReadFull(in.r, arg); err != nil {
			return q, notEOF(err)
		}
		if err := in.lineEnd(); err != nil {
			return q, err
		}
		q.head, q.next = append(q.head, arg), -1
	}
	return q, nil
}

// limit returns the maximum length of the argument after head to be read into memory.
func (requests) limit(q request) int {
	if len(q.head) > 0 && isScripting(q.arg(0)) {
		return maxScript
	}
	return shortArg
}

func isScripting(name string) bool {
	return len(name) >= 4 && (name[0]|0x20 == 'e' && name[1]|0x20 == 'v' || name[0]|0x20 == 's' && name[1]|0x20 == 'c')
}

// rest passes on the part of the command that begin has not read.
func (in requests) rest(w io.Writer, q request) error {
	w = struct{ io.Writer }{w} // hides ReadFrom, which must not meet a flush
	n := q.next
	for range q.count - len(q.head) {
		if n < 0 {
			var err error
			if n, err = in.number('$', maxLength); err != nil {
				return notEOF(err)
			}
		}
		if n < 0 {
			return fmt.Errorf("%w: an argument of %d bytes", errProtocol, n)
		}
		if _, err := fmt.Fprintf(w, "$%d\r\n", n); err != nil {
			return err
		}
		if _, err := io.CopyN(w, in.r, int64(n)); err != nil {
			return notEOF(err)
		}
		if err := in.lineEnd(); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\r\n"); err != nil {
			return err
		}
		n = -1
	}
	return nil
}

// number reads a line with kind and a number from -1 to limit.
func (in requests) number(kind byte, limit int) (int, error) {
	var digits []byte
	for {
		c, err := in.r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case len(digits) == 0 && c != kind:
			return 0, fmt.Errorf("%w: %q where %q begins an argument; inline commands are refused", errProtocol, c, kind)
		case c == '\r':
			n, err := strconv.Atoi(string(digits[1:]))
			if err != nil || n < -1 || n > limit || strconv.Itoa(n) != string(digits[1:]) {
				return 0, fmt.Errorf("%w: %q is no length", errProtocol, digits[1:])
			}
			c, err = in.r.ReadByte()
			if err == nil && c != '\n' {
				err = fmt.Errorf("%w: a length that ends with %q", errProtocol, c)
			}
			return n, err
		case len(digits) > 12:
			return 0, fmt.Errorf("%w: a length that begins with %q", errProtocol, digits[1:])
		}
		digits = append(digits, c)
	}
}

// lineEnd reads the line end after an argument.
func (in requests) lineEnd() error {
	var end [2]byte
	if _, err := io.ReadFull(in.r, end[:]); err != nil {
		return notEOF(err)
	}
	if string(end[:]) != "\r\n" {
		return fmt.Errorf("%w: %q after an argument", errProtocol, end)
	}
	return nil
}

// notEOF turns the end of the stream in the middle of a command into an error.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeArgs writes the start of a command of count arguments: the number and the given arguments.
func writeArgs(w io.Writer, count int, args ...[]byte) error {
	if _, err := fmt.Fprintf(w, "*%d\r\n", count); err != nil {
		return err
	}
	for _, arg := range args {
		if _, err := fmt.Fprintf(w, "$%d\r\n%s\r\n", len(arg), arg); err != nil {
			return err
		}
	}
	return nil
}
