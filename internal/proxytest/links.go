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

// dialTimeout is for a server whose machine has far too much to do.
const dialTimeout = time.Minute

// links are a proxy's listener and connections from one opening to the next
// closing. Bytes go from one side to the other through toxiproxy's links; its
// own listener is left alone, for it cannot reset what it has accepted.
type links struct {
	target   string
	listener net.Listener
	server   *toxiproxy.ApiServer // serves nothing: links count bytes with it, or would
	proxy    *toxiproxy.Proxy     // listens to nothing: it holds the toxics

	stalled atomic.Bool           // bytes vanish
	limit   atomic.Pointer[int64] // of bytes for the client on each connection, nil for none

	accepting sync.WaitGroup

	mu     sync.Mutex            // guards the rest
	conns  map[net.Conn]struct{} // of both sides
	closed bool
}

// openLinks listens at addr, and connects what it accepts with target.
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
			return // it is closed
		}
		if l.hold(client) {
			go l.connect(client)
		}
	}
}

// connect passes on what the client and the server send one another until one of
// them closes.
func (l *links) connect(client net.Conn) {
	if l.stalled.Load() {
		return
	}
	// Not until close, which would have the dialer end what it has just opened
	// like one whose work is done.
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

// hold keeps the connection for close to reset. Once that has been, it resets it
// itself and says that it is no longer.
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

// close stops to listen and resets all connections.
func (l *links) close() {
	// A child process between fork and exec has what this one had open: with it
	// the port would be taken for a moment more, and nothing be reset.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	_ = servertest.Close(l.listener) // and opened again at the same address
	l.mu.Lock()
	l.closed = true
	for conn := range l.conns {
		reset(conn)
	}
	l.mu.Unlock()
	l.accepting.Wait()
}

// reset closes a connection so that the other end takes it for broken.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// delay replaces the delays of both directions.
func (l *links) delay(d, jitter time.Duration) error {
	there, back := d.Milliseconds()/2, (d.Milliseconds()+1)/2
	return errors.Join(
		l.latency("upstream", there, jitter.Milliseconds()/2),
		l.latency("downstream", back, (jitter.Milliseconds()+1)/2),
	)
}

// latency replaces the delay of one direction, in milliseconds.
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

// sink is where a link's bytes go. Its Write never fails: a link whose writes fail
// is read by nobody, and toxiproxy would wait for it when a toxic changes. A link
// that has nowhere to write ends when its source is closed, by the other link.
type sink struct {
	conn     net.Conn
	links    *links
	toClient bool

	limit *int64 // the one of the links that left counts for
	left  int64
}

// Write passes b on while it can.
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

// Close closes the connection, unless its other side is not to know.
func (s *sink) Close() error {
	if s.links.stalled.Load() {
		return nil
	}
	s.links.forget(s.conn)
	_ = s.conn.Close() // perhaps the second time
	return nil
}
