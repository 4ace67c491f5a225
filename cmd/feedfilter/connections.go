package main

import (
	"net"
	"sync"
)

// limitConnections returns a listener that has at most limit connections open. While as
// many are, it accepts none: further ones wait where the system keeps them, and cost
// this process nothing.
func limitConnections(l net.Listener, limit int) *limitedListener {
	limited := &limitedListener{Listener: l, limit: limit}
	limited.changed.L = &limited.mu
	return limited
}

// connectionsWithin returns limit, or three quarters of the files that the process may have open, if they are fewer. The rest is for the
// token file, the ledger and Redis: who fills up the connections must not keep those away, or a token that was taken out stays in force.
func connectionsWithin(limit, files int) int { return max(1, min(limit, files/4*3)) }

type limitedListener struct {
	net.Listener

	mu      sync.Mutex
	changed sync.Cond // what follows, so that there may be room
	limit   int
	open    int // connections, and one that is accepted next
	closed  bool
}

// setLimit changes how many connections may be open. If more are, they stay.
func (l *limitedListener) setLimit(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	l.changed.Broadcast()
}

// Accept waits for room, and then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	if !l.enter() {
		return nil, net.ErrClosed
	}
	release := sync.OnceFunc(l.leave)
	conn, err := l.Listener.Accept()
	if err != nil {
		release()
		return nil, err
	}
	return &limitedConn{conn, release}, nil
}

// enter waits until another connection may be open, and reports whether it is to be accepted: not if the listener is closed.
func (l *limitedListener) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.limit && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return false
	}
	l.open++
	return true
}

func (l *limitedListener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.changed.Broadcast()
}

// Close wakes an Accept that waits for room, too.
func (l *limitedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
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
