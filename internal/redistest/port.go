package redistest

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
)

const (
	loopbackHost = "127.0.0.1"

	// Ports come from below the range that Linux, macOS and Windows take
	// ephemeral ports from, so that no connection is given the port of a server
	// between Kill and Restart. A cluster's bus gets a port of its own from here
	// too: the usual one, port + 10000, would be among the ephemeral ones.
	firstPort = 20000
	portPairs = 6000
)

// ReservePort finds a free loopback port for the test and keeps it from all other
// tests that take their ports from this package, in other processes too, until
// the test ends: a listener there may be closed and opened again. Without a free
// port the test fails.
func ReservePort(t testing.TB) int {
	t.Helper()
	for range portAttempts {
		port := anyPort()
		release, ok := reserve(port)
		if !ok {
			continue
		}
		// Programs that reserve nothing may have it.
		releaseNext, ok := reserve(port - 1)
		if !ok {
			release()
			continue
		}
		releaseNext()
		t.Cleanup(release)
		return port
	}
	t.Fatalf("redistest: no free port in %d attempts", portAttempts)
	return 0
}

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
	return func() {
		// A child between fork and exec would keep the port taken for a moment.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		_ = l.Close()
	}, true
}

func loopback(port int) string {
	return net.JoinHostPort(loopbackHost, strconv.Itoa(port))
}
