package main

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
)

// connectionLimit limits open connections. At the limit, a new connection replaces the one that has
// been idle for the longest time: one without a request in progress, probes aside. So idle clients
// keep nobody out.
type connectionLimit struct {
	mu      sync.Mutex
	changed sync.Cond // limit, open or idle changed
	limit   int
	open    int
	idle    list.List // of *limitedConn, longest idle first

	unread func(late bool) (answer []byte) // see headerConn
}

// newConnectionLimit returns a limit that all its listeners share. unread answers requests whose
// header is not read in time: see headerConn.
func newConnectionLimit(limit int, unread func(late bool) []byte) *connectionLimit {
	c := &connectionLimit{limit: limit, unread: unread}
	c.changed.L = &c.mu
	return c
}

// listener returns a listener whose connections count. If all connections are at work, it holds one
// accepted connection that waits. Further ones wait in the system's backlog, and cost this process
// nothing.
func (c *connectionLimit) listener(l net.Listener) *limitedListener {
	return &limitedListener{Listener: l, limit: c}
}

// connectionsWithin returns the smaller of limit and three quarters of the files that the process
// may open. The rest is for the token file, the ledger and Redis. Even if clients use up all
// connections, the service must be able to reread the token file. Otherwise a removed token would
// stay valid.
func connectionsWithin(limit, files int) int { return max(1, min(limit, files/4*3)) }

type limitedListener struct {
	net.Listener

	limit  *connectionLimit
	closed bool // guarded by limit.mu
}

// set changes the limit. Connections above the new limit stay open.
func (c *connectionLimit) set(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	c.changed.Broadcast()
}

// Accept waits for a connection, and then for room.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limited := &limitedConn{headerConn: newHeaderConn(conn, l.limit.unread), limit: l.limit}
	if !l.admit(limited) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return limited, nil
}

// admit waits for room for a connection, and adds it to the open ones. It returns false if the
// listener is closed.
func (l *limitedListener) admit(conn *limitedConn) bool {
	c := l.limit
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.limit && !l.closed {
		if longest := c.idle.Front(); longest != nil {
			idle, _ := longest.Value.(*limitedConn)
			idle.leave()
			_ = idle.Conn.Close() // its reader notices
			continue
		}
		c.changed.Wait()
	}
	if l.closed {
		return false
	}
	c.open++
	conn.idle = c.idle.PushBack(conn)
	return true
}

// Close also wakes an Accept that waits for room.
func (l *limitedListener) Close() error {
	l.limit.mu.Lock()
	l.closed = true
	l.limit.changed.Broadcast()
	l.limit.mu.Unlock()
	return l.Listener.Close()
}

type limitedConn struct {
	headerConn

	limit *connectionLimit

	// Guarded by limit.mu.
	left    bool
	working int           // admitted requests in progress
	idle    *list.Element // in limit.idle; nil while working
}

// withConnection returns a context that tells a limited connection about its requests, for
// [http.Server.ConnContext].
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c, secure := limitedOf(conn); c != nil {
		c.secure = secure // before the first byte is read
		return limits.WithConnection(ctx, c.work)
	}
	return ctx
}

// noteState tells a limited connection about its state, for [http.Server.ConnState].
func noteState(conn net.Conn, state http.ConnState) {
	if c, _ := limitedOf(conn); c != nil {
		c.noteState(state)
	}
}

// limitedOf returns the limited connection of a connection, nil if there is none, and whether it
// carries TLS.
func limitedOf(conn net.Conn) (c *limitedConn, secure bool) {
	if over, ok := conn.(*tls.Conn); ok {
		conn, secure = over.NetConn(), true
	}
	c, _ = conn.(*limitedConn)
	return c, secure
}

// work notes a request that begins (0), is admitted (1), or has ended (-1).
func (c *limitedConn) work(n int) {
	if n == 0 {
		c.handled()
	}
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	if c.left {
		return
	}
	if c.idle != nil {
		c.limit.idle.Remove(c.idle)
		c.idle = nil
	}
	if c.working += n; c.working == 0 {
		c.idle = c.limit.idle.PushBack(c)
		c.limit.changed.Broadcast()
	}
}

// leave makes room for another connection. The caller holds limit.mu.
func (c *limitedConn) leave() {
	if c.left {
		return
	}
	c.left = true
	if c.idle != nil {
		c.limit.idle.Remove(c.idle)
	}
	c.limit.open--
	c.limit.changed.Broadcast()
}

// Close makes room for another connection.
func (c *limitedConn) Close() error {
	err := c.headerConn.Close()
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	c.leave()
	return err
}
