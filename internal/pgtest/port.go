package pgtest

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// Ports come from below the range that Linux, macOS and Windows take
	// ephemeral ports from, so that no connection is given the port of a server
	// between Kill and Restart, and from below those of other test servers.
	firstPort = 14000
	portPairs = 3000
)

// anyPort is the first port of a random pair: one for the server, the next for
// its reservation.
func anyPort() int {
	return firstPort + 2*rand.IntN(portPairs) //nolint:gosec // any port will do, a predictable one too
}

// reserve keeps a port from the servers of every other test, also while the
// server is down, until release is called or the test process ends. It says
// whether it could: a test that has the port already holds it.
//
// The reservation is a listener on the port after it. The kernel alone knows of
// all test processes, and takes a listener from one that dies.
func reserve(port int) (release func(), ok bool) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", loopback(port+1))
	if err != nil {
		return nil, false
	}
	return func() { _ = l.Close() }, true
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
