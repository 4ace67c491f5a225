package main

import (
	"net"
	"sync"
)

// limitConnections returns a listener that has at most limit connections open. While as
// many are, it accepts none: further ones wait where the system keeps them, and cost
// this process nothing.
func limitConnections(l net.Listener, limit int) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, limit), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener

	slots  chan struct{} // holds an element for each connection
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a slot, and then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	release := sync.OnceFunc(func() { <-l.slots })
	conn, err := l.Listener.Accept()
	if err != nil {
		release()
		return nil, err
	}
	return &limitedConn{conn, release}, nil
}

// Close wakes an Accept that waits for a slot, too.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn

	release func()
}

// Close frees the connection's slot.
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
