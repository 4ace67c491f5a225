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
	// Ports are below the range of ephemeral ports on Linux, macOS and Windows. While a server is
	// down, no connection of another process can therefore get its port.
	firstPort    = 14000
	portPairs    = 9000
	portAttempts = 20
)

// ErrPortTaken is the error of a server that ended because one of its ports was in use.
var ErrPortTaken = errors.New("the port is in use")

// Addr returns the host:port of a server on the given port.
func Addr(port int) string {
	return net.JoinHostPort(Host, strconv.Itoa(port))
}

// ReservePort finds a free port for the test and reserves it until the test ends. No other test
// that uses this package gets the port, in other processes either. A listener on it may be closed
// and opened again. If 20 attempts find no free port, the test fails.
func ReservePort(t testing.TB) int {
	t.Helper()
	for range portAttempts {
		port := anyPort()
		release, ok := reserve(port)
		if !ok {
			continue
		}
		// A program that does not reserve ports may use it.
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

// OnFreePort starts a server on a free port, and reserves the port as ReservePort does, while the
// server is up or down. If start returns ErrPortTaken, OnFreePort tries another port, at most 20.
// It returns any other error with the address. It may be called from any goroutine.
//
// The reservation ends with the test, after all functions that the caller registers with t.Cleanup
// later.
func OnFreePort(t testing.TB, start func(port int) (*Process, error)) (*Process, error) {
	t.Helper()
	return onFreePort(t, anyPort, start)
}

// onFreePort tries the ports that nextPort returns.
func onFreePort(
	t testing.TB, nextPort func() int, start func(port int) (*Process, error),
) (*Process, error) {
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

// anyPort returns the first port of a random pair. It is for the server, the second one for the
// reservation.
func anyPort() int {
	return firstPort + 2*rand.IntN(portPairs) //nolint:gosec // a predictable port is good enough
}

// reserve keeps a port from the servers of every other test until release is called or the test
// process ends. It returns false if a test already holds the port.
//
// The reservation is a listener on the next port. All test processes can see it, and the kernel
// closes it when the test process dies.
func reserve(port int) (release func(), ok bool) {
	return listen(port + 1)
}

// listen listens on the port until release is called. It returns false if the port is in use.
func listen(port int) (release func(), ok bool) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", Addr(port))
	if err != nil {
		return nil, false
	}
	return func() {
		// A child process between fork and exec would keep the port in use.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		_ = l.Close()
	}, true
}

// Close closes a listener on a reserved port. It returns when no process holds the listener.
func Close(l net.Listener) error {
	return errors.Join(l.Close(), awaitClosed(l.Addr().String()))
}

// awaitClosed waits until no process listens at the address. A child process of another goroutine
// keeps sockets open until its exec, and exec closes them only after this process continues.
func awaitClosed(addr string) error {
	return Await(context.Background(), addr+" refuses connections", func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil //nolint:nilerr // the address refuses connections
		}
		_ = conn.Close()
		return errors.New("it takes them")
	})
}
