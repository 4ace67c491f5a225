//go:build unix

package tlsdial

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
)

// seeThrough returns conn as a connection on which the client's pool can detect the end.
func seeThrough(conn *tls.Conn) net.Conn {
	if socket, ok := conn.NetConn().(syscall.Conn); ok {
		return &tlsConn{Conn: conn, socket: socket}
	}
	return conn
}

// tlsConn is a connection that implements [syscall.Conn] for one caller: the client's pool. The
// pool uses it to check whether an idle connection is at its end before handing it out.
type tlsConn struct {
	*tls.Conn

	socket syscall.Conn
}

// SyscallConn implements [syscall.Conn].
func (c *tlsConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.socket.SyscallConn()
	return idleSocket{raw}, err
}

// idleSocket is a socket from which an idle connection has nothing to read. Its Read checks this
// without calling its argument: a function with access to the socket would find encrypted records
// there.
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
