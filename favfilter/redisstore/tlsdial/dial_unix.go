//go:build unix

package tlsdial

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
)

// seeThrough returns conn, which is over raw, as one whose end the client's pool can see.
func seeThrough(conn *tls.Conn, raw net.Conn) net.Conn {
	if socket, ok := raw.(syscall.Conn); ok {
		return &tlsConn{Conn: conn, socket: socket}
	}
	return conn
}

// tlsConn is a connection that implements [syscall.Conn] for one caller: the pool, which
// asks before it gives out an idle connection whether that is at its end.
type tlsConn struct {
	*tls.Conn

	socket syscall.Conn
}

// SyscallConn implements [syscall.Conn].
func (c *tlsConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.socket.SyscallConn()
	return idleSocket{raw}, err
}

// idleSocket is a socket from which an idle connection has nothing to read. Its Read looks
// whether that is so, and calls nobody: who got hold of the socket would find encrypted
// records there.
type idleSocket struct{ syscall.RawConn }

var errIdleData = errors.New("data on an idle connection: the server is about to close it")

// Read implements [syscall.RawConn].
func (s idleSocket) Read(func(fd uintptr) bool) error {
	var state error
	err := s.RawConn.Read(func(fd uintptr) bool {
		var buf [1]byte
		n, _, err := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case n > 0:
			state = errIdleData
		case err == nil:
			state = io.EOF
		case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EWOULDBLOCK):
			state = err
		}
		return true
	})
	return errors.Join(err, state)
}
