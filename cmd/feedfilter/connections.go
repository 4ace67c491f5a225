package main

import (
	"net"
	"sync"
)

// connectionLimit limits and counts open connections.
type connectionLimit struct {
	mu      sync.Mutex
	changed sync.Cond // limit or open changed
	limit   int
	open    int
}

// newConnectionLimit returns a limit that all its listeners share.
func newConnectionLimit(limit int) *connectionLimit {
	c := &connectionLimit{limit: limit}
	c.changed.L = &c.mu
	return c
}

// listener returns a listener whose connections count. At the limit it accepts no more. Further
// connections wait in the system's backlog, and cost this process nothing. Each of several
// listeners may hold one accepted connection that waits for room.
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

// Accept waits for room, and then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	if !l.await(0) {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.await(1) { // another listener may have taken the room
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return &limitedConn{conn, sync.OnceFunc(l.limit.leave)}, nil
}

// await waits for room for a connection, and adds take to the open ones. It returns false if the
// listener is closed.
func (l *limitedListener) await(take int) bool {
	c := l.limit
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.limit && !l.closed {
		c.changed.Wait()
	}
	if l.closed {
		return false
	}
	c.open += take
	return true
}

func (c *connectionLimit) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.changed.Broadcast()
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
	net.Conn

	release func()
}

// Close makes room for another connection.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite closes the sending side. net/http calls it when it answers before it has read the
// whole request; otherwise the answer could be lost.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
