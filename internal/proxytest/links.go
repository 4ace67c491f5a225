package proxytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/rs/zerolog"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// dialTimeout is long because the machine of the server may be overloaded.
const dialTimeout = time.Minute

// links hold the listener and the connections of a proxy from one opening to the next close.
// toxiproxy's links move the bytes. toxiproxy's listener is not used, because it cannot reset
// accepted connections.
type links struct {
	target   string
	listener net.Listener
	server   *toxiproxy.ApiServer // serves nothing; toxiproxy's links need it to count bytes
	proxy    *toxiproxy.Proxy     // does not listen; holds the toxics

	stalled atomic.Bool           // drop all bytes
	limit   atomic.Pointer[int64] // bytes to the client per connection; nil: no limit

	accepting sync.WaitGroup

	mu     sync.Mutex            // guards the rest
	conns  map[net.Conn]struct{} // connections of both sides
	closed bool
}

// openLinks listens at addr, and connects each accepted connection to target.
func openLinks(addr, target string) (*links, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &links{
		target:   target,
		listener: listener,
		server:   server,
		proxy:    toxiproxy.NewProxy(server, target, addr, target),
		conns:    make(map[net.Conn]struct{}),
	}
	l.accepting.Go(l.accept)
	return l, nil
}

func (l *links) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		if l.hold(client) {
			go l.connect(client)
		}
	}
}

// connect moves bytes between the client and the server until one of them closes.
func (l *links) connect(client net.Conn) {
	if l.stalled.Load() {
		return
	}
	// close must not end the dial. The dialer would close a new connection normally, but it must be
	// reset.
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(context.Background(), "tcp", l.target)
	if err != nil {
		l.forget(client)
		reset(client)
		return
	}
	if !l.hold(server) {
		return
	}
	name := client.RemoteAddr().String()
	l.proxy.Toxics.StartLink(l.server, name+" upstream", client, &sink{conn: server, links: l}, stream.Upstream)
	l.proxy.Toxics.StartLink(l.server, name+" downstream", server, &sink{conn: client, links: l, toClient: true}, stream.Downstream)
}

// hold keeps the connection, so that close can reset it. After close, hold resets the connection
// and returns false.
func (l *links) hold(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		reset(conn)
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *links) forget(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// close closes the listener and resets all connections.
func (l *links) close() {
	// A child process between fork and exec holds the open sockets of this process. With it, the
	// port would stay in use and connections would not be reset.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	_ = servertest.Close(l.listener) // returns when the address can be used again
	l.mu.Lock()
	l.closed = true
	for conn := range l.conns {
		reset(conn)
	}
	l.mu.Unlock()
	l.accepting.Wait()
}

// reset closes a connection so that the other end sees a reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// delay sets the delays of both directions.
func (l *links) delay(d, jitter time.Duration) error {
	there, back := d.Milliseconds()/2, (d.Milliseconds()+1)/2
	return errors.Join(
		l.latency("upstream", there, jitter.Milliseconds()/2),
		l.latency("downstream", back, (jitter.Milliseconds()+1)/2),
	)
}

// latency sets the delay of one direction, in milliseconds.
func (l *links) latency(direction string, millis, jitter int64) error {
	toxics := l.proxy.Toxics
	if toxics.GetToxic(direction) != nil {
		if err := toxics.RemoveToxic(context.Background(), direction); err != nil {
			return err
		}
	}
	if millis == 0 && jitter == 0 {
		return nil
	}
	toxic, err := json.Marshal(map[string]any{
		"name":       direction,
		"type":       "latency",
		"stream":     direction,
		"attributes": map[string]int64{"latency": millis, "jitter": jitter},
	})
	if err != nil {
		return err
	}
	_, err = toxics.AddToxicJson(strings.NewReader(string(toxic)))
	return err
}

// sink receives the bytes of a link. Write never returns an error. After an error toxiproxy would
// stop reading the link, and a later change of the toxics would hang. A link whose connection is
// closed ends when the other link closes its source.
type sink struct {
	conn     net.Conn
	links    *links
	toClient bool

	limit *int64 // the limit for which left was set
	left  int64
}

// Write passes b on unless the proxy is stalled or the limit is reached.
func (s *sink) Write(b []byte) (int, error) {
	if s.links.stalled.Load() {
		return len(b), nil
	}
	rest := b
	limit := s.links.limit.Load()
	if limit != nil && s.toClient {
		if limit != s.limit {
			s.limit, s.left = limit, max(0, *limit)
		}
		rest = b[:min(int64(len(b)), s.left)]
		s.left -= int64(len(rest))
	}
	_, err := s.conn.Write(rest)
	if err != nil || s.limit != nil && s.left == 0 {
		_ = s.Close()
	}
	return len(b), nil
}

// Close closes the connection. While the proxy is stalled it does nothing, so that the other side
// does not notice.
func (s *sink) Close() error {
	if s.links.stalled.Load() {
		return nil
	}
	s.links.forget(s.conn)
	_ = s.conn.Close() // may be closed already
	return nil
}
