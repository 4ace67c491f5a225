// Package proxytest puts a faulty network between a test and a TCP server.
//
// A Proxy is part of the test process, and ends with the test.
package proxytest

import (
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// Proxy stands in front of one TCP server, at its own loopback address, and belongs to one test. A
// new proxy is healthy: it passes on all bytes. When one side closes its connection, the proxy
// closes the other side.
//
// Faults add up until Reset, so a proxy may both delay and truncate. While the proxy is cut,
// setting a fault has no effect.
//
// Its methods may be called concurrently, from any goroutine. They return when they have taken
// effect on all connections. A call that fails marks the test as failed, and the test continues.
type Proxy struct {
	t    testing.TB
	addr string

	mu     sync.Mutex // guards the fields below, and orders all changes to them
	target string
	links  *links // nil while it is cut
}

// Start runs a proxy in front of the server at target, a host:port. The proxy and its connections
// end with the test. The port stays reserved while the proxy is cut. The server may be down; the
// proxy then resets new connections.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		t:      t,
		addr:   servertest.Addr(servertest.ReservePort(t)),
		target: target,
	}
	l, err := openLinks(p.addr, target)
	if err != nil {
		t.Fatalf("proxytest: starting a proxy of %s: %v", target, err)
	}
	p.links = l
	t.Cleanup(p.Cut)
	return p
}

// Addr returns the proxy's host:port for clients. It never changes.
func (p *Proxy) Addr() string {
	return p.addr
}

// Delay makes all bytes arrive later. They take half of d on the way to the server and half on the
// way back. A request and its answer therefore take d longer, plus or minus jitter, which is at
// most d. Delay replaces an earlier delay, and 0 ends it. Bytes in flight then arrive at once.
func (p *Proxy) Delay(d, jitter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links != nil {
		p.links.delay(d, jitter)
	}
}

// Cut resets all connections on both sides, and refuses new ones. It stands for a server that is
// down, or for a network that refuses connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
}

func (p *Proxy) close() {
	if p.links != nil {
		p.links.close()
		p.links = nil
	}
}

// Stall drops all bytes in both directions, also delayed ones. Connections stay open, even if the
// other side closes or dies, and new ones are accepted. It stands for a network that loses all
// packets.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links != nil {
		p.links.stalled.Store(true)
	}
}

// Truncate closes each connection on both sides after the given number of further bytes to the
// client, and drops the rest. It cuts an answer short. With 0 or less no byte arrives. Truncate
// replaces an earlier limit.
func (p *Proxy) Truncate(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links != nil {
		p.links.limit.Store(&bytes)
	}
}

// Reset makes the proxy healthy again. Connections that were only delayed continue. After Stall and
// Truncate bytes may be missing, so Reset resets the connections.
func (p *Proxy) Reset() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links != nil && !p.links.stalled.Load() && p.links.limit.Load() == nil {
		p.links.delay(0, 0)
		return
	}
	p.close()
	l, err := openLinks(p.addr, p.target)
	if err != nil {
		p.t.Errorf("proxytest: resetting the proxy of %s: %v", p.target, err)
		return
	}
	p.links = l
}

// Move puts the proxy in front of another server, a host:port, and resets all connections. It
// stands for an address that fails over. The proxy is healthy then.
func (p *Proxy) Move(target string) {
	p.t.Helper()
	p.mu.Lock()
	p.target = target
	p.close()
	p.mu.Unlock()
	p.Reset()
}
