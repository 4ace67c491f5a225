package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// node is a guarded node that answers every command with err.
type node struct {
	guard  *guard
	log    bytes.Buffer
	err    error
	sent   int
	failed int
}

func newNode() *node {
	n := &node{}
	n.guard = newGuard("host:1", slog.New(slog.NewTextHandler(&n.log, nil)), func(context.Context) { n.failed++ })
	return n
}

func (n *node) do() error {
	return n.guard.do(context.Background(), func(context.Context) error {
		n.sent++
		return n.err
	})
}

// doTimes sends commands and returns the error of the last.
func (n *node) doTimes(times int) (err error) {
	for range times {
		err = n.do()
	}
	return err
}

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func TestGuardGivesUpAfterFiveFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.err = refused()
		if err := n.doTimes(5); !errors.Is(err, syscall.ECONNREFUSED) || n.sent != 5 || n.failed != 5 {
			t.Fatalf("the fifth command: %v; %d sent, %d reported", err, n.sent, n.failed)
		}
		err := n.do()
		if !errors.Is(err, ErrUnavailable) || n.sent != 5 || n.failed != 6 {
			t.Errorf("the sixth command: %v; %d sent, %d reported", err, n.sent, n.failed)
		}
		for _, part := range []string{"host:1", "refused"} {
			if !strings.Contains(err.Error(), part) || !strings.Contains(n.log.String(), part) {
				t.Errorf("%q is not in error %q and log %q", part, err, n.log.String())
			}
		}
		// The client would retry what it takes for a failure of the network.
		if op, ok := errors.AsType[*net.OpError](err); ok {
			t.Errorf("the error wraps %v", op)
		}
		time.Sleep(guardPause*4/5 - 1)
		if err := n.do(); !errors.Is(err, ErrUnavailable) || n.sent != 5 {
			t.Errorf("before the pause is over: %v; %d sent", err, n.sent)
		}
	})
}

func TestGuardProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.err = refused()
		_ = n.doTimes(5)
		time.Sleep(guardPause*6/5 + 1)
		if err := n.do(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the probe: %v", err)
		}
		if err := n.do(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after a probe that failed: %v", err)
		}
		time.Sleep(guardPause*6/5 + 1)
		n.err = nil
		// While one is on its way, no other is sent.
		answered, sent := make(chan struct{}), make(chan struct{})
		var probe error
		var wg sync.WaitGroup
		wg.Go(func() {
			probe = n.guard.do(context.Background(), func(context.Context) error { close(sent); <-answered; return nil })
		})
		<-sent
		if err := n.do(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("beside a probe: %v", err)
		}
		close(answered)
		wg.Wait()
		if err := n.doTimes(10); err != nil || probe != nil {
			t.Errorf("the probe: %v; after it: %v", probe, err)
		}
		if got := strings.Count(n.log.String(), "\n"); got != 2 || !strings.Contains(n.log.String(), "back") {
			t.Errorf("the log has %d lines, want one that it failed and one that it is back:\n%s", got, &n.log)
		}
	})
}

// A probe that is called off leaves the next command to find out.
func TestGuardProbeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.err = refused()
		_ = n.doTimes(5)
		time.Sleep(guardPause*6/5 + 1)
		n.err = context.Canceled
		if err := n.doTimes(3); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled probes: %v", err)
		}
		n.err = nil
		if err := n.doTimes(3); err != nil {
			t.Errorf("the node is back: %v", err)
		}
	})
}

func TestGuardCounts(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		open bool
	}{
		"refused":         {refused(), true},
		"cut":             {io.EOF, true},
		"deadline":        {fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		"timeout":         {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		"cancelled":       {fmt.Errorf("read: %w", context.Canceled), false},
		"closed":          {redis.ErrClosed, false},
		"pool":            {redis.ErrPoolTimeout, false},
		"missing":         {redis.Nil, false},
		"an error reply":  {redis.ErrNoScript, false},
		"a wrapped reply": {fmt.Errorf("load: %w", redis.ErrCrossSlot), false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			n.err = c.err
			_ = n.doTimes(20)
			if open := n.sent == guardFailures; open != c.open || !open && n.sent != 20 {
				t.Errorf("%d of 20 commands were sent", n.sent)
			}
		})
	}
}

// Only failures in a row count, and a reply, if an error, ends the row.
func TestGuardCountsInARow(t *testing.T) {
	n := newNode()
	for range 10 {
		n.err = refused()
		_ = n.doTimes(guardFailures - 1)
		n.err = redis.ErrNoScript
		_ = n.do()
	}
	if n.sent != 10*guardFailures {
		t.Errorf("%d commands were sent, want all %d", n.sent, 10*guardFailures)
	}
}

// A command that panics leaves no probe open.
func TestGuardPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.err = refused()
		_ = n.doTimes(5)
		time.Sleep(guardPause*6/5 + 1)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			_ = n.guard.do(context.Background(), func(context.Context) error { panic("mad") })
		}()
		time.Sleep(guardPause*6/5 + 1)
		n.err = nil
		if err := n.do(); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	})
}

// TestBreakersOpen is what is told of the breakers of a client, from the first failure to the node being gone.
func TestBreakersOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
		n, other := newNode(), newNode()
		other.guard.addr = "host:2"
		all.add(n.guard)
		all.add(other.guard)
		want := func(open, otherOpen bool) {
			t.Helper()
			if got := all.Open(); len(got) != 2 || got["host:1"] != open || got["host:2"] != otherOpen {
				t.Errorf("open: %v, want host:1 %v, host:2 %v", got, open, otherOpen)
			}
		}
		n.err = refused()
		_ = n.doTimes(4)
		want(false, false)
		_ = n.do()
		want(true, false)
		time.Sleep(2 * guardPause)
		want(true, false) // not tried yet
		n.err = nil
		_ = n.do()
		want(false, false)
		runtime.KeepAlive(other)
	})
	gone := &Breakers{nodes: make(map[string]weak.Pointer[guard])}
	gone.add(newNode().guard)
	runtime.GC()
	if open := gone.Open(); len(open) != 0 {
		t.Errorf("of a node that is gone: %v", open)
	}
}
