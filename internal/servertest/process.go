package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Process is one run of a server: the program and all processes that it starts. They are in its
// process group, or outside of it as long as they are its children.
//
// Its methods are for one goroutine at a time.
type Process struct {
	cmd       *exec.Cmd
	log       *serverLog
	done      chan struct{} // closed when it has ended, and its children with it
	suspended bool
}

// Start runs the command as a server and returns when it has written the text
// ready to its standard output or standard error, both of which are Start's to
// set. When ctx is over first, or the server ends, it is an error, ErrPortTaken
// among them, with the end of what the server wrote; no process is left then.
//
// The process belongs to the caller, who must Kill or Stop it. Neither ctx nor the command's
// context ends it: a test's context ends before its cleanups, which may still need the server.
//
// In the command's SysProcAttr the process group and the death signal are Start's
// to set.
func Start(ctx context.Context, cmd *exec.Cmd, ready string) (*Process, error) {
	p := &Process{cmd: cmd, log: newServerLog(ready), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	tie(cmd)
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	select {
	case <-p.log.ready:
		return p, nil
	case <-p.done:
	case <-ctx.Done():
		err := errors.Join(fmt.Errorf("waiting until it is ready: %w", ctx.Err()), p.Kill())
		return nil, p.withLog(err)
	}
	if strings.Contains(p.log.tail(), "Address already in use") {
		return nil, p.withLog(ErrPortTaken)
	}
	return nil, p.withLog(fmt.Errorf("it ended before it was ready (%s)", cmd.ProcessState))
}

// Run runs a program that is no server to its end, and returns what it wrote to its standard output
// and standard error. Run sets both of them, and the attributes that Start sets. The end of the
// command's own context ends the program.
func Run(cmd *exec.Cmd) ([]byte, error) {
	tie(cmd)
	runtime.LockOSThread() // see run
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}

// run starts the process and waits for its end, on one thread: Linux sends the
// parent death signal when the thread that forked ends, not the whole process.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// The log is a pipe, which all processes of the server hold open: when Wait
	// returns, all of them are gone. How it ended is in p.cmd.ProcessState.
	_ = p.cmd.Wait()
}

// withLog adds the end of what the server wrote to the error.
func (p *Process) withLog(err error) error {
	return fmt.Errorf("%w\n%s", err, p.log.tail())
}

// hasEnded reports whether the process is gone. Another process may have its id by then.
func (p *Process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends all processes of the server at once, as kill -9 does, and returns when they are gone.
// It also ends suspended ones. If they are already gone, Kill is a no-op.
func (p *Process) Kill() error {
	if p.hasEnded() {
		return nil
	}
	if err := p.kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the server to end with the given signal, after it has resumed it, and
// returns when it has ended, with its children. When ctx is over first they are
// killed, and it is an error, with the end of what the server wrote.
func (p *Process) Stop(ctx context.Context, signal os.Signal) error {
	err := p.Resume()
	if err == nil {
		err = p.cmd.Process.Signal(signal)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return p.withLog(errors.Join(err, p.Kill()))
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return p.withLog(errors.Join(fmt.Errorf("waiting for its end: %w", ctx.Err()), p.Kill()))
	}
}

// Suspend stops all processes of the server, and returns when they have stopped, after a minute at
// most. They continue at Resume. Suspend returns an error if the server has ended, or if the system
// is not Linux.
func (p *Process) Suspend(ctx context.Context) error {
	if p.hasEnded() {
		return os.ErrProcessDone
	}
	p.suspended = true
	return p.suspend(ctx)
}

// Resume lets a server that is suspended go on. On any other it has no effect.
func (p *Process) Resume() error {
	if !p.suspended || p.hasEnded() {
		return nil
	}
	p.suspended = false
	return p.resume()
}

// Suspended reports whether Suspend was called, and not Resume or Stop since.
func (p *Process) Suspended() bool {
	return p.suspended
}
