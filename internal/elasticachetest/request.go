package elasticachetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	maxCount  = 1 << 20
	maxLength = 512 << 20
)

// errProtocol is wrapped by errors for input that is not a command.
var errProtocol = errors.New("protocol error")

// Request is a command of a client: its name and its arguments.
type Request []string

// arg returns an argument, "" if there is none.
func (q Request) arg(i int) string {
	if i < len(q) {
		return q[i]
	}
	return ""
}

// ReadRequest reads the next command. io.EOF means that there is no further command.
func ReadRequest(r *bufio.Reader) (q Request, err error) {
	count := 0
	for count <= 0 { // "*0" and "*-1" are empty
		if _, err := r.Peek(1); err != nil {
			return nil, err
		}
		if count, err = readNumber(r, '*', maxCount); err != nil {
			return nil, notEOF(err)
		}
	}
	for len(q) < count {
		n, err := readNumber(r, '$', maxLength)
		if err != nil {
			return nil, notEOF(err)
		}
		if n < 0 {
			return nil, fmt.Errorf("%w: an argument of %d bytes", errProtocol, n)
		}
		const end = "\r\n"
		arg, err := io.ReadAll(io.LimitReader(r, int64(n+len(end))))
		switch {
		case err != nil:
			return nil, err
		case len(arg) < n+len(end):
			return nil, io.ErrUnexpectedEOF
		case string(arg[n:]) != end:
			return nil, fmt.Errorf("%w: %q after an argument", errProtocol, arg[n:])
		}
		q = append(q, string(arg[:n]))
	}
	return q, nil
}

// readNumber reads a line with kind and a number from -1 to limit.
func readNumber(r *bufio.Reader, kind byte, limit int) (int, error) {
	var digits []byte
	for {
		c, err := r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case len(digits) == 0 && c != kind:
			return 0, fmt.Errorf(
				"%w: %q where %q begins an argument; inline commands are refused", errProtocol, c, kind,
			)
		case c == '\r':
			n, err := strconv.Atoi(string(digits[1:]))
			if err != nil || n < -1 || n > limit || strconv.Itoa(n) != string(digits[1:]) {
				return 0, fmt.Errorf("%w: %q is no length", errProtocol, digits[1:])
			}
			c, err = r.ReadByte()
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

// notEOF turns the end of the stream in the middle of a command into an error.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write sends the command.
func (q Request) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "*%d\r\n", len(q)); err != nil {
		return err
	}
	for _, arg := range q {
		if _, err := fmt.Fprintf(w, "$%d\r\n%s\r\n", len(arg), arg); err != nil {
			return err
		}
	}
	return nil
}
