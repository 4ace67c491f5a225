package servertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// Child is a server that a test runs on a port of its own, and may end, pause and start again. It
// ends with the test.
//
// Its methods may be called concurrently. They report what fails to the test. Restart does so with
// FailNow, so only the test's goroutine may call it.
type Child struct {
	T    testing.TB
	Name string // of the package that runs it, for failures
	Port int    // 0 before Begin

	// StopTimeout is how long the server may take to end after a signal, or to stop for a pause.
	StopTimeout time.Duration

	mu      sync.Mutex // guards running, and orders its changes
	running *Process   // nil: it is down
}

// Begin starts the server for the first time, on a free port. launch starts it on Port, and returns
// when it is ready.
func (c *Child) Begin(launch func() (*Process, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	c.running, err = OnFreePort(c.T, func(port int) (*Process, error) {
		c.Port = port
		return launch()
	})
	return err
}

// Addr returns the server's host:port. Restart does not change it.
func (c *Child) Addr() string { return Addr(c.Port) }

// IsUp reports whether the server runs and is not paused.
func (c *Child) IsUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running != nil && !c.running.Suspended()
}

// WhileUp calls do if the server runs and is not paused. Nobody ends, pauses or restarts it
// meanwhile.
func (c *Child) WhileUp(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil || c.running.Suspended() {
		return fmt.Errorf("the server on %s is not running", c.Addr())
	}
	return do()
}

// Kill ends all processes of the server at once, like kill -9, and returns when they have ended. If
// the server is down, Kill is a no-op.
func (c *Child) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill()
}

func (c *Child) kill() {
	if c.running == nil {
		return
	}
	c.check("killing", c.running.Kill())
	c.running = nil
}

// Signal sends the server a signal that ends it, and returns when it has ended. A paused server is
// resumed first. If the server is down, Signal is a no-op. A server that takes longer than
// StopTimeout is killed, which fails the test.
func (c *Child) Signal(signal os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.StopTimeout)
	defer cancel()
	c.check("ending", c.running.Stop(ctx, signal))
	c.running = nil
}

// Pause stops all processes of the server, like a machine that hangs. Connections stay open, the
// kernel accepts new ones, and the server answers nothing until Resume. Pause returns when the
// processes have stopped. If the server is down or paused, Pause is a no-op. On other systems than
// Linux it fails the test.
func (c *Child) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil || c.running.Suspended() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.StopTimeout)
	defer cancel()
	c.check("pausing", c.running.Suspend(ctx))
}

// Resume lets a paused server continue. The server then answers what it received while it was
// paused. If the server is not paused, Resume is a no-op.
func (c *Child) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return
	}
	c.check("resuming", c.running.Resume())
}

// Restart starts the server after it has ended, on the same port, and returns when it is ready.
// prepare runs before it. A server that runs, or that does not start, fails the test.
func (c *Child) Restart(prepare func() error, launch func() (*Process, error)) {
	c.T.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil {
		c.T.Fatalf("%s: restarting the server on %s: it is running; end it first", c.Name, c.Addr())
	}
	c.restart(prepare, launch)
}

// RestartAnyway is Restart for a server that may run: it is killed then.
func (c *Child) RestartAnyway(prepare func() error, launch func() (*Process, error)) {
	c.T.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill()
	c.restart(prepare, launch)
}

func (c *Child) restart(prepare func() error, launch func() (*Process, error)) {
	c.T.Helper()
	err := prepare()
	if err == nil {
		c.running, err = launch()
	}
	if err != nil {
		c.T.Fatalf("%s: restarting the server on %s: %v", c.Name, c.Addr(), err)
	}
}

func (c *Child) check(doing string, err error) {
	if err != nil {
		c.T.Errorf("%s: %s the server on %s: %v", c.Name, doing, c.Addr(), err)
	}
}
