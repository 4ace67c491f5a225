package proxytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// dialTimeout is long because the machine of the server may be overloaded.
const dialTimeout = time.Minute

// parts is how many reads of up to partBytes each may be in flight in one direction.
const (
	parts     = 256
	partBytes = 32 << 10
)

// links hold the listener and the connections of a proxy from one opening to the next close.
type links struct {
	target string
	conns  *servertest.Conns // of both sides
	ended  chan struct{}     // closed by close

	stalled atomic.Bool           // drop all bytes
	limit   atomic.Pointer[int64] // bytes to the client per connection; nil: no limit
	latency atomic.Pointer[latency]
}

// latency is the delay of both directions.
type latency struct {
	toServer, toClient, jitter time.Duration
	replaced                   chan struct{} // closed when another latency takes its place
}

// openLinks listens at addr, and connects each accepted connection to target.
func openLinks(addr, target string) (*links, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	l := &links{target: target, ended: make(chan struct{})}
	l.delay(0, 0)
	l.conns = servertest.Serve(listener, l.connect)
	return l, nil
}

// connect moves bytes between the client and the server until one of them closes.
func (l *links) connect(conns *servertest.Conns, client net.Conn) {
	if l.stalled.Load() {
		return
	}
	// close must not end the dial. The dialer would close a new connection normally, but it must be
	// reset.
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(context.Background(), "tcp", l.target)
	if err != nil {
		servertest.Reset(client)
		conns.Drop(client)
		return
	}
	if !conns.Hold(server) {
		return
	}
	l.pipe(client, &sink{conn: server, links: l, conns: conns})
	l.pipe(server, &sink{conn: client, links: l, conns: conns, toClient: true})
}

// close closes the listener and resets all connections.
func (l *links) close() {
	close(l.ended)
	l.conns.Close()
}

// delay sets the delays of both directions.
func (l *links) delay(d, jitter time.Duration) {
	next := &latency{d / 2, d - d/2, jitter / 2, make(chan struct{})}
	if last := l.latency.Swap(next); last != nil {
		close(last.replaced)
	}
}

// part is what one read returned, and when it is due at the other side.
type part struct {
	bytes []byte
	due   time.Time
	under *latency
}

// pipe moves bytes from a connection to a sink in the background, until one of them is closed.
func (l *links) pipe(from net.Conn, to *sink) {
	inFlight := make(chan part, parts)
	go func() {
		defer close(inFlight)
		buffer := make([]byte, partBytes)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				now := l.latency.Load()
				inFlight <- part{slices.Clone(buffer[:n]), time.Now().Add(now.of(to)), now}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		for p := range inFlight {
			l.await(&p)
			to.write(p.bytes)
		}
		to.close()
	}()
}

// await waits until a part is due, the latency changes or the links end.
func (l *links) await(p *part) {
	wait := time.Until(p.due)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.under.replaced:
	case <-l.ended:
	}
}

// of returns how long the next bytes take to a sink.
func (d *latency) of(to *sink) time.Duration {
	way := d.toServer
	if to.toClient {
		way = d.toClient
	}
	if d.jitter > 0 {
		way += rand.N(2*d.jitter) - d.jitter //nolint:gosec // any delay will do
	}
	return way
}

// sink receives the bytes of one direction. It takes them also after the connection was closed: the
// other direction then ends, and closes the source of this one.
type sink struct {
	conn     net.Conn
	links    *links
	conns    *servertest.Conns
	toClient bool

	limit *int64 // the limit for which left was set
	left  int64
}

// write passes b on unless the proxy is stalled or the limit is reached.
func (s *sink) write(b []byte) {
	if s.links.stalled.Load() {
		return
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
		s.close()
	}
}

// close closes the connection. While the proxy is stalled it does nothing, so that the other side
// does not notice.
func (s *sink) close() {
	if s.links.stalled.Load() {
		return
	}
	s.conns.Drop(s.conn)
}
