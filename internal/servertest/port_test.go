package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestReservePort(t *testing.T) {
	t.Parallel()
	var port int
	t.Run("its test", func(t *testing.T) {
		port = ReservePort(t)
		for range 2 { // a listener on it may be closed and opened again
			listenOn(t, Addr(port))()
		}
		if _, ok := reserve(port); ok {
			t.Errorf("port %d is free for another test", port)
		}
		if other := ReservePort(t); other == port {
			t.Errorf("port %d was reserved twice", port)
		}
	})
	wantReleased(t, port)
}

// wantReleased waits until the port can be reserved. A child process of another test may keep the
// socket open for a moment.
func wantReleased(t *testing.T, port int) {
	t.Helper()
	err := Await(t.Context(), "the port is free", func(context.Context) error {
		release, ok := reserve(port) //nolint:contextcheck // a listener needs no context
		if !ok {
			return errors.New("it is reserved")
		}
		release()
		return nil
	})
	if err != nil {
		t.Errorf("port %d: %v", port, err)
	}
}

// It is not parallel: a program that another test starts would keep a port that this one has
// released, until the program has begun.
func TestOnFreePortPassesOverTakenPorts(t *testing.T) {
	reserved := ReservePort(t)
	var inUse, free int
	t.Run("ports to be released", func(t *testing.T) {
		inUse, free = ReservePort(t), ReservePort(t)
	})
	offers := []int{reserved, inUse, free}
	var started []int
	want := &Process{}
	p, err := onFreePort(t, func() (port int) {
		port, offers = offers[0], offers[1:]
		return port
	}, func(port int) (*Process, error) {
		started = append(started, port)
		if port == inUse {
			return nil, fmt.Errorf("of a server: %w", ErrPortTaken)
		}
		return want, nil
	})
	if err != nil || p != want || fmt.Sprint(started) != fmt.Sprint([]int{inUse, free}) {
		t.Errorf("started on %d, %v; want all of %d and %d tried but not %d, which is reserved", started, err, inUse, free, reserved)
	}
	if _, ok := reserve(free); ok {
		t.Errorf("port %d of the server is free for another test", free)
	}
	wantReleased(t, inUse) // the attempt to start on it failed
}

func TestOnFreePortGivesUp(t *testing.T) {
	t.Parallel()
	port := ReservePort(t)
	_, err := onFreePort(t, func() int { return port }, func(port int) (*Process, error) {
		return nil, fmt.Errorf("start was called with the reserved port %d", port)
	})
	want := fmt.Sprintf("no free port in %d attempts, the last %d", portAttempts, port)
	if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), want) {
		t.Errorf("without a free port: error %v, want %q in it", err, want)
	}
	broken, tried := errors.New("broken"), 0
	_, err = OnFreePort(t, func(p int) (*Process, error) {
		port = p
		tried++
		return nil, broken
	})
	if !errors.Is(err, broken) || tried != 1 || !strings.Contains(err.Error(), Addr(port)) {
		t.Errorf("server that does not start: error %v after %d attempts, want the first error with %s", err, tried, Addr(port))
	}
}

// listenOn listens at the address until release is called.
func listenOn(t *testing.T, addr string) (release func()) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := Close(l); err != nil {
			t.Error(err)
		}
	}
}
