package servertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// Host is the address that servers of tests listen on.
const Host = "127.0.0.1"

const (
	// Ports come from below the range that Linux, macOS and Windows take
	// ephemeral ports from, so that no connection is given the port of a server
	// while that is down.
	firstPort    = 14000
	portPairs    = 9000
	portAttempts = 20
)

// ErrPortTaken is the error of a server that ended because its port, or another
// one of its own, was in use.
var ErrPortTaken = errors.New("the port is in use")

// Addr is the host:port of a server on the given port.
func Addr(port int) string {
	return net.JoinHostPort(Host, strconv.Itoa(port))
}

// ReservePort finds a free port for the test and reserves it until the test ends. No other test
// that takes its ports from this package gets it, in other processes too. A listener there may be
// closed and opened again. If 20 attempts find no free port, the test fails.
func ReservePort(t testing.TB) int {
	t.Helper()
	for range portAttempts {
		port := anyPort()
		release, ok := reserve(port)
		if !ok {
			continue
		}
		// Programs that reserve nothing may have it.
		closePort, ok := listen(port)
		if ok {
			closePort()
			ok = awaitClosed(Addr(port)) == nil
		}
		if !ok {
			release()
			continue
		}
		t.Cleanup(release)
		return port
	}
	t.Fatalf("servertest: no free port in %d attempts", portAttempts)
	return 0
}

// OnFreePort starts a server on a port of its own, which is kept from all other
// tests as ReservePort does, whether the server is up or down. When start returns
// ErrPortTaken it is tried again with another port, 20 times at most; any other
// error is returned, with the address. It may be called from any goroutine.
//
// The reservation ends with the test, after what the caller registers with
// t.Cleanup from then on.
func OnFreePort(t testing.TB, start func(port int) (*Process, error)) (*Process, error) {
	t.Helper()
	return onFreePort(t, anyPort, start)
}

// onFreePort tries the ports that nextPort names.
func onFreePort(t testing.TB, nextPort func() int, start func(port int) (*Process, error)) (*Process, error) {
	t.Helper()
	last, port := ErrPortTaken, 0
	for range portAttempts {
		port = nextPort()
		release, free := reserve(port)
		if !free {
			continue
		}
		p, err := start(port)
		if err == nil {
			t.Cleanup(release)
			return p, nil
		}
		release()
		if !errors.Is(err, ErrPortTaken) {
			return nil, fmt.Errorf("on %s: %w", Addr(port), err)
		}
		last = err
	}
	return nil, fmt.Errorf("no free port in %d attempts, the last %d: %w", portAttempts, port, last)
}

// anyPort is the first port of a random pair: one for the server, the next for
// its reservation.
func anyPort() int {
	return firstPort + 2*rand.IntN(portPairs) //nolint:gosec // any port will do, a predictable one too
}

// reserve keeps a port from the servers of every other test until release is called or the test
// process ends. It returns false if a test already holds the port.
//
// The reservation is a listener on the port after it. The kernel alone knows of
// all test processes, and takes a listener from one that dies.
func reserve(port int) (release func(), ok bool) {
	return listen(port + 1)
}

// listen takes the port until release is called, if it is free.
func listen(port int) (release func(), ok bool) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", Addr(port))
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

// Close closes a listener on a port that is reserved, and returns when it is closed for others,
// too.
func Close(l net.Listener) error {
	return errors.Join(l.Close(), awaitClosed(l.Addr().String()))
}

// awaitClosed waits until nobody listens at the address. A child that another goroutine starts
// keeps closed sockets open until the kernel closes them on exec. The kernel lets this process go
// on before that.
func awaitClosed(addr string) error {
	return Await(context.Background(), addr+" refuses connections", func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil //nolint:nilerr // it does
		}
		_ = conn.Close()
		return errors.New("it takes them")
	})
}
