package redistest

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

// process is one run of redis-server.
type process struct {
	cmd  *exec.Cmd
	log  *serverLog
	done chan struct{} // closed when it has ended, and its forks with it
}

// newProcess makes a process that is ready once it has logged the text ready.
func newProcess(binary string, args []string, ready string) *process {
	p := &process{log: newServerLog(ready), done: make(chan struct{})}
	// Its life is the Server's to end, not a context's: a test's context is
	// over before its cleanups, which may still need the server.
	p.cmd = exec.CommandContext(context.Background(), binary, args...) //nolint:gosec // the test's own words
	p.cmd.Stdout = p.log
	p.cmd.Stderr = p.log
	setProcessAttributes(p.cmd)
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
	// The log is a pipe, which the forks of a background save hold open too: when
	// Wait returns, all of them are gone.
	// How it ended is in p.cmd.ProcessState.
	_ = p.cmd.Wait()
}

// kill ends the process at once and waits for it.
func (p *process) kill() error {
	select {
	case <-p.done: // its id may be another's by now
		return nil
	default:
	}
	err := killProcess(p.cmd.Process)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// terminate asks the process to shut down and waits for it until ctx is done.
func (p *process) terminate(ctx context.Context) error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for its end: %w", ctx.Err())
	}
}

// suspend stops the process and its forks where they are, and returns when it
// has stopped: what it does not do by then it does after resume.
func (p *process) suspend(ctx context.Context) error {
	if err := suspendProcess(p.cmd.Process); err != nil {
		return err
	}
	return await(ctx, "it has stopped", func(context.Context) error {
		if !isSuspended(p.cmd.Process) {
			return errors.New("it is running")
		}
		return nil
	})
}

// resume lets the process and its forks run on.
func (p *process) resume() error {
	return resumeProcess(p.cmd.Process)
}

// portTaken says whether the process ended because its port was in use. Call it
// after start has failed.
func (p *process) portTaken() bool {
	return bytes.Contains(p.log.tail(), []byte("Address already in use"))
}

// serverLog keeps the end of what a server logs and notices when it is ready.
type serverLog struct {
	sign  []byte        // what a server that is ready logs
	ready chan struct{} // closed when the server accepts connections

	mu      sync.Mutex
	text    []byte
	isReady bool
}

const logTail = 8 << 10 // bytes

func newServerLog(sign string) *serverLog {
	return &serverLog{sign: []byte(sign), ready: make(chan struct{})}
}

// Write takes what the server logs, in pieces of any size.
func (l *serverLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if !l.isReady && bytes.Contains(l.text, l.sign) {
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
