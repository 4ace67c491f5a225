package main

import (
	"net"
	"sync"
)

// connectionLimit is how many connections may be open, and how many are.
type connectionLimit struct {
	mu      sync.Mutex
	changed sync.Cond // what follows, so that there may be room
	limit   int
	open    int
}

// newConnectionLimit returns a limit on the connections of all its listeners together.
func newConnectionLimit(limit int) *connectionLimit {
	c := &connectionLimit{limit: limit}
	c.changed.L = &c.mu
	return c
}

// listener returns a listener whose connections count. While as many are open as may be, it accepts none: further ones wait
// where the system keeps them, and cost this process nothing. Several listeners may each accept one that waits here.
func (c *connectionLimit) listener(l net.Listener) *limitedListener {
	return &limitedListener{Listener: l, limit: c}
}

// connectionsWithin returns limit, or three quarters of the files that the process may have open, if they are fewer. The rest is for the
// token file, the ledger and Redis: who fills up the connections must not keep those away, or a token that was taken out stays in force.
func connectionsWithin(limit, files int) int { return max(1, min(limit, files/4*3)) }

type limitedListener struct {
	net.Listener

	limit  *connectionLimit
	closed bool // guarded by limit.mu
}

// set changes how many connections may be open. If more are, they stay.
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

// await waits until another connection may be open, and counts take more. It reports false if the listener is closed.
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

// Close wakes an Accept that waits for room, too.
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

// CloseWrite ends what is sent: net/http asks for it where it answers before it has read
// the whole request, or the answer could be lost with the connection.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
