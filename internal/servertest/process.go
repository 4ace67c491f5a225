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

// Process is one run of a server: the program and all processes that it starts. These are in its
// process group, or are its children outside of the group.
//
// Only one goroutine at a time may call its methods.
type Process struct {
	cmd       *exec.Cmd
	log       *serverLog
	done      chan struct{} // closed when the process and its children have ended
	suspended bool
}

// Start runs the command as a server. It returns when the server has written the text ready to its
// standard output or standard error. If the server ends first, or ctx does, Start returns an error
// with the end of the server's output, such as ErrPortTaken. Then no process is left.
//
// The caller owns the process, and must call Kill or Stop. Neither ctx nor the command's context
// ends it, because a test's context ends before its cleanups, which may still need the server.
//
// Start sets the command's standard output and standard error. In its SysProcAttr, Start sets the
// process group and the death signal.
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

// Run runs a program that is not a server, and returns its standard output and standard error. Run
// sets both of them, and the attributes that Start sets. The program ends at the latest with the
// command's own context.
func Run(cmd *exec.Cmd) ([]byte, error) {
	tie(cmd)
	runtime.LockOSThread() // see run
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}

// run starts the process and waits for its end on one thread. Linux sends the parent death signal
// when the thread that forked ends, even if the process goes on.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// All processes of the server hold the log's pipe open, so all have ended when Wait returns.
	// p.cmd.ProcessState says how.
	_ = p.cmd.Wait()
}

// withLog adds the end of the server's output to the error.
func (p *Process) withLog(err error) error {
	return fmt.Errorf("%w\n%s", err, p.log.tail())
}

// hasEnded reports whether the process has ended. Another process may have its id by then.
func (p *Process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends all processes of the server at once, like kill -9, and returns when they have ended. It
// also ends suspended ones. If all have ended, Kill is a no-op.
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

// Stop resumes the server, sends it the signal, and returns when the server and its children have
// ended. If ctx ends first, Stop kills them, and returns an error with the end of the server's
// output.
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

// Suspend stops all processes of the server, and returns when they have stopped. They continue
// after Resume. Suspend returns an error if the server has ended, if a process does not stop within
// three minutes, or if the system is not Linux.
func (p *Process) Suspend(ctx context.Context) error {
	if p.hasEnded() {
		return os.ErrProcessDone
	}
	p.suspended = true
	return p.suspend(ctx)
}

// Resume lets a suspended server continue. If the server is not suspended, Resume is a no-op.
func (p *Process) Resume() error {
	if !p.suspended || p.hasEnded() {
		return nil
	}
	p.suspended = false
	return p.resume()
}

// Suspended reports whether Suspend was called, without Resume or Stop since.
func (p *Process) Suspended() bool {
	return p.suspended
}
