// Package proxytest puts a faulty network between a test and a TCP server.
//
// A Proxy is part of the test process and ends with it. toxiproxy moves the bytes from either side
// to the other and delays them. Losing and cutting happens at the two ends, where a connection can
// be stopped at once.
package proxytest

import (
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// Proxy stands in front of one TCP server, at a loopback address of its own, and
// belongs to one test. A new one is healthy: it passes on what it is sent. When
// one side closes its connection, so does the proxy with that to the other side.
//
// Faults add up until Reset: a proxy may delay and truncate. What is set while
// it is cut has no effect.
//
// Its methods may be called concurrently, from any goroutine. They return when they have taken
// effect on all connections. Delay may have to wait for a side that does not read. A call that
// fails marks the test as failed, and the test continues.
type Proxy struct {
	t      testing.TB
	addr   string
	target string

	mu    sync.Mutex // guards links, and orders all that changes what they do
	links *links     // nil while it is cut
}

// Start runs a proxy in front of the server at target, a host:port, and ends it
// and its connections with the test. Its port stays its own while it is cut. The
// server may be down: connections that are made meanwhile are reset.
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

// Addr is the proxy's host:port, for clients of the server. It never changes.
func (p *Proxy) Addr() string {
	return p.addr
}

// Delay makes all bytes arrive later. They take half of d, in whole milliseconds, on the way to the
// server and half on the way back. A request and its answer therefore take d longer, give or take
// up to jitter, which is at most d. Delay replaces an earlier delay, and 0 ends it. Bytes on their
// way arrive when they were due, or earlier.
func (p *Proxy) Delay(d, jitter time.Duration) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay(d, jitter)
}

func (p *Proxy) delay(d, jitter time.Duration) {
	p.t.Helper()
	if p.links == nil {
		return
	}
	if err := p.links.delay(d, jitter); err != nil {
		p.t.Errorf("proxytest: delaying what passes the proxy of %s by %s: %v", p.target, d, err)
	}
}

// Cut resets all connections, on both sides, and refuses new ones: a network, or
// a server, that is gone and says so.
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

// Stall makes all bytes vanish, in both directions, those that are delayed too.
// Connections stay open, also when the other side closes or dies, and new ones are
// accepted: a network that is gone and does not say so.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links != nil {
		p.links.stalled.Store(true)
	}
}

// Truncate closes each connection, on both sides, once the given number of bytes
// has gone to the client from now on, and drops the rest: an answer is cut short.
// With 0 or less not a byte gets there. It replaces an earlier limit.
func (p *Proxy) Truncate(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links != nil {
		p.links.limit.Store(&bytes)
	}
}

// Reset makes the proxy healthy again. Connections go on if they have only been
// delayed; after Stall and Truncate, when bytes may be missing, they are reset.
func (p *Proxy) Reset() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links != nil && !p.links.stalled.Load() && p.links.limit.Load() == nil {
		p.delay(0, 0)
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
