package servertest

import (
	"net"
	"sync"
	"syscall"
)

// Conns accepts connections in place of a server. It keeps them, and those that are made for them,
// so that a test can reset all of them at once.
type Conns struct {
	listener           net.Listener
	accepting, serving sync.WaitGroup

	mu     sync.Mutex // guards the rest
	conns  map[net.Conn]struct{}
	closed bool
}

// Serve calls serve in a new goroutine for each connection that the listener accepts, until Close.
// serve has to Drop the connection.
func Serve(listener net.Listener, serve func(c *Conns, conn net.Conn)) *Conns {
	c := &Conns{listener: listener, conns: make(map[net.Conn]struct{})}
	c.accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			if c.Hold(conn) {
				c.serving.Go(func() { serve(c, conn) })
			}
		}
	})
	return c
}

// Hold keeps a connection, so that Close can reset it. After Close, Hold resets the connection and
// returns false.
func (c *Conns) Hold(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		Reset(conn)
		return false
	}
	c.conns[conn] = struct{}{}
	return true
}

// Drop closes a connection.
func (c *Conns) Drop(conn net.Conn) {
	c.mu.Lock()
	delete(c.conns, conn)
	c.mu.Unlock()
	_ = conn.Close() // may be closed already
}

// Cut resets all connections.
func (c *Conns) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		Reset(conn)
	}
}

// Close closes the listener and resets all connections. It returns when the address can be used
// again.
func (c *Conns) Close() {
	// A child process between fork and exec holds the open sockets of this process. With it, the
	// port would stay in use and connections would not be reset.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	_ = Close(c.listener)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.Cut()
	c.accepting.Wait()
}

// Wait waits until all calls of serve have returned.
func (c *Conns) Wait() { c.serving.Wait() }

// Reset closes a connection so that the other end sees a reset.
func Reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
