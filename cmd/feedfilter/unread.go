package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// badRequest is how net/http's own answer to an invalid request begins. It writes the whole answer
// at once.
const badRequest = "HTTP/1.1 400 Bad Request\r\n"

// answerTimeout is how long a client may take to receive the answer to an unread request, and to
// stop sending.
const answerTimeout = 500 * time.Millisecond

// aborting is the deadline, in Unix seconds, with which net/http ends a read that waits for a
// further request. No request misses it.
const aborting = 1

// errUnread is the error of writing to a connection whose request was not read in time.
var errUnread = errors.New("the header of a request was not read in time")

// headerConn is a connection of net/http that notices a request whose header is not read in time.
// Such a request gets an answer of the service, and is counted.
//
// net/http has no answer of its own to it: it closes the connection. If it has read a part of a
// line, it answers 400, as if the client had sent that part as a whole line (golang/go#56390). The
// reason is that [bufio.Reader.ReadLine] returns the part without the error.
//
// On a new connection without TLS, every request is first read in part: net/http reads 14 bytes,
// the length of "PRI * HTTP/2.0", to find out whether the client speaks HTTP/2. Only then it reads
// the rest, with a deadline that was set before. A process that gets no processor time in between
// misses the deadline, although the rest has arrived. So under overload, valid requests would be
// answered 400, which tells their clients not to retry.
type headerConn struct {
	net.Conn

	// unread returns the answer to a request whose header was not read in time, and counts it. late
	// says that the process read too late; otherwise the client sent too slowly.
	unread func(late bool) (answer []byte)
	secure bool // the bytes are those of TLS

	mu       sync.Mutex
	deadline time.Time // of reads
	waits    bool      // no handler has the request yet
	begun    bool      // a part of its header has been read
	missed   bool      // a read has failed at the deadline
	late     bool      // that read began after the deadline
}

// newHeaderConn returns a connection that waits for its first request.
func newHeaderConn(conn net.Conn, unread func(late bool) []byte) headerConn {
	return headerConn{Conn: conn, unread: unread, waits: true}
}

// handled notes that a handler has the request.
func (c *headerConn) handled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = false
}

// noteState notes what net/http says of the connection, for [http.Server.ConnState].
func (c *headerConn) noteState(state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive: // with TLS, only net/http can tell
		c.begun = true
	case http.StateIdle: // the last request is answered
		c.waits, c.begun, c.missed, c.late = true, false, false, false
	default:
	}
}

// SetDeadline implements [net.Conn].
func (c *headerConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *headerConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// Read implements [net.Conn].
func (c *headerConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	late := !c.deadline.IsZero() && time.Now().After(c.deadline)
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n > 0:
		c.begun = c.begun || !c.secure
		c.missed = false
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.missed && c.deadline.Unix() > aborting:
		c.missed, c.late = true, late // the first such read tells whose fault it is
	}
	return n, err
}

// Write implements [net.Conn]. It does not send net/http's answer to an unread request: Close sends
// the service's.
func (c *headerConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	bare := c.waits && c.missed && bytes.HasPrefix(p, []byte(badRequest))
	cut := c.waits && c.missed && c.begun && c.secure
	c.begun = c.begun || bare // a pipelined request may have been read with the one before
	c.mu.Unlock()
	switch {
	case bare:
		return len(p), nil
	case cut: // the answer is encrypted, so it cannot be replaced
		return 0, errUnread
	default:
		return c.Conn.Write(p)
	}
}

// Close answers a request whose header was not read in time, and closes the connection. With TLS,
// it only closes the connection.
func (c *headerConn) Close() error {
	c.mu.Lock()
	unread, late := c.waits && c.missed && c.begun, c.late
	c.waits = false // closed once
	c.mu.Unlock()
	if unread {
		if answer := c.unread(late); !c.secure {
			c.answer(answer)
		}
	}
	return c.Conn.Close()
}

// answer sends the last bytes of a connection. It reads what the client still sends: otherwise the
// system would reset the connection, and the client could lose the answer.
func (c *headerConn) answer(text []byte) {
	if c.Conn.SetDeadline(time.Now().Add(answerTimeout)) != nil {
		return
	}
	if _, err := c.Conn.Write(text); err != nil {
		return
	}
	if c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, maxUnread)
	}
}

// CloseWrite closes the sending side. net/http calls it when it answers before it has read the
// whole request; otherwise the answer could be lost.
func (c *headerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
