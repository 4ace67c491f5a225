//go:build !unix

package tlsdial

import (
	"crypto/tls"
	"net"
)

// seeThrough returns conn: the client's pool looks at sockets on unix systems alone.
func seeThrough(conn *tls.Conn, _ net.Conn) net.Conn { return conn }
