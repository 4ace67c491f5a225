package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is one run of a server.
type process struct {
	cmd  *exec.Cmd
	log  *serverLog
	done chan struct{} // closed when it has ended, and its children with it
}

func newProcess(cmd *exec.Cmd) *process {
	p := &process{cmd: cmd, log: newServerLog(), done: make(chan struct{})}
	cmd.Stdout = p.log
	cmd.Stderr = p.log
	return p
}

// start runs the process and returns when it has logged that it is ready. On an
// error the process is gone.
func (p *process) start(ctx context.Context) error {
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return err
	}
	select {
	case <-p.log.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("it ended before it was ready (%s)", p.cmd.ProcessState)
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("waiting until it is ready: %w", ctx.Err()), p.kill())
	}
}

// run starts the process and waits for its end, on one thread: Linux sends the
// parent death signal when the thread that forked ends, not the whole process.
func (p *process) run(started chan<- error) {
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

// signal sends a signal to all processes of the server; to none if it has ended.
func (p *process) signal(signal syscall.Signal) error {
	select {
	case <-p.done: // its id may be another's by now
		return nil
	default:
	}
	if err := signalAll(p.cmd.Process, signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// kill ends the server at once and waits for it.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// abort has the server end without writing anything more, and waits for it
// until ctx is done. Unlike kill it leaves no shared memory behind.
func (p *process) abort(ctx context.Context) error {
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("waiting for its end: %w", ctx.Err()), p.kill())
	}
}

// portTaken says whether the process ended because its port was in use. Call it
// after start has failed.
func (p *process) portTaken() bool {
	return bytes.Contains(p.log.tail(), []byte("Address already in use"))
}

// serverLog keeps the end of what a server logs and notices when it is ready.
type serverLog struct {
	ready chan struct{} // closed when the server accepts connections

	mu      sync.Mutex
	text    []byte
	isReady bool
}

const logTail = 8 << 10 // bytes

func newServerLog() *serverLog {
	return &serverLog{ready: make(chan struct{})}
}

// Write takes what the server logs, in pieces of any size.
func (l *serverLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if !l.isReady && bytes.Contains(l.text, []byte("database system is ready to accept connections")) {
		l.isReady = true
		close(l.ready)
	}
	if excess := len(l.text) - logTail; excess > 0 {
		l.text = l.text[excess:]
	}
	return len(b), nil
}

// tail is the end of the log.
func (l *serverLog) tail() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text)
}
