package elasticachetest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	dialTimeout = time.Minute
	tlsRecord   = 0x16 // the first byte of a TLS connection
	refuse      = "return redis.error_reply(ARGV[1])"
)

// proxy is a cache in front of one server.
type proxy struct {
	cache  *Cache
	target string
}

// serve passes on the allowed commands of a client, and all answers.
func (p *proxy) serve(conns *servertest.Conns, client net.Conn) {
	defer conns.Drop(client)
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		servertest.Reset(client)
		return
	}
	if !conns.Hold(server) {
		return
	}
	defer conns.Drop(server)
	l, err := p.open(client, server)
	if err != nil {
		return
	}
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		_, _ = io.Copy(l.client, server)
		_ = server.Close() // ends the goroutine that reads answers
		if !l.wronged.Load() {
			_ = client.Close()
		}
	}()
	err = l.run()
	if errors.Is(err, errProtocol) {
		// The error comes after the answers to all earlier commands.
		l.wronged.Store(true)
		p.cache.violatedf("%v", err)
		_ = l.out.Flush()
		halfClose(server)
		<-answers
		_, _ = fmt.Fprintf(l.client, "-ERR %v\r\n", err)
	}
	_ = l.client.Close()
	_ = server.Close()
	<-answers
}

func halfClose(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// open finds out whether the client uses TLS.
func (p *proxy) open(client, server net.Conn) (*link, error) {
	raw := bufio.NewReader(client)
	first, err := raw.Peek(1)
	if err != nil {
		return nil, err
	}
	l := &link{cache: p.cache, client: client, out: bufio.NewWriterSize(server, bufferSize)}
	var from io.Reader = raw
	if p.cache.secure != nil && first[0] == tlsRecord {
		secure := tls.Server(peeked{client, raw}, p.cache.secure)
		l.client, from = secure, secure
	} else {
		l.plain = p.cache.secure != nil
	}
	l.in = bufio.NewReaderSize(flushing{from, l.out}, bufferSize)
	return l, nil
}

const bufferSize = 32 << 10

// peeked is a connection of which a buffer holds the first bytes.
type peeked struct {
	net.Conn

	r *bufio.Reader
}

// Read implements net.Conn.
func (c peeked) Read(b []byte) (int, error) { return c.r.Read(b) }

// flushing flushes the writer before each read.
type flushing struct {
	r io.Reader
	w *bufio.Writer
}

// Read implements io.Reader.
func (f flushing) Read(b []byte) (int, error) {
	if err := f.w.Flush(); err != nil {
		return 0, err
	}
	return f.r.Read(b)
}

// link connects one client with the server.
type link struct {
	cache   *Cache
	client  net.Conn // decrypted
	in      *bufio.Reader
	out     *bufio.Writer // to the server
	plain   bool          // the client does not use TLS, but must
	queued  bool          // a transaction queues the commands
	wronged atomic.Bool   // the client must still get an error
}

// errRefused ends a connection that the cache does not accept.
var errRefused = errors.New("connection refused")

// run passes on commands until the client ends.
func (l *link) run() error {
	for {
		q, err := ReadRequest(l.in)
		if err != nil {
			return err
		}
		name := strings.ToLower(q.arg(0))
		if l.isReplication(name, q) {
			if err := q.Write(l.out); err != nil {
				return err
			}
			// The struct hides ReadFrom, which must not meet a flush.
			_, err := io.Copy(struct{ io.Writer }{l.out}, l.in)
			return err
		}
		if l.plain && name != "ping" { // replicas begin with it
			l.cache.violatedf("%s on a connection without TLS", name)
			return errRefused
		}
		if err := l.pass(q, l.cache.rules.request(q)); err != nil {
			return err
		}
	}
}

// isReplication reports whether the command turns the connection into that of a replica.
func (l *link) isReplication(name string, q Request) bool {
	_, secure := l.client.(*tls.Conn)
	return !secure && name == "replconf" && strings.EqualFold(q.arg(1), "listening-port") &&
		l.cache.isReplica(q.arg(2))
}

// pass sends the command. In place of a forbidden one it sends a command that the server answers
// with an error, so that answers keep their order and transactions are aborted.
func (l *link) pass(q Request, v verdict) error {
	if v.why == "" {
		switch strings.ToLower(q.arg(0)) {
		case "multi":
			l.queued = true
		case "exec", "discard", "reset":
			l.queued = false
		}
		return q.Write(l.out)
	}
	l.cache.violatedf("%s", v.why)
	if l.queued {
		// The server knows no such command. A transaction would queue a script.
		return Request{q.arg(0) + "?"}.Write(l.out)
	}
	return Request{"EVAL", refuse, "0", v.says}.Write(l.out)
}
